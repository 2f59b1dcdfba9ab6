# Uploads the assets of a deployment of Lamplighter, and makes its CloudFormation stack.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

locals {
  lamplighter = jsondecode(file("${path.module}/assets.json"))
}

resource "aws_s3_bucket" "lamplighter_assets" {
  bucket_prefix = "lamplighter-assets-"
}

resource "aws_s3_bucket_public_access_block" "lamplighter_assets" {
  bucket                  = aws_s3_bucket.lamplighter_assets.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_policy" "lamplighter_assets" {
  bucket = aws_s3_bucket.lamplighter_assets.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "OnlyTls"
      Effect    = "Deny"
      Principal = "*"
      Action    = "s3:*"
      Resource  = [aws_s3_bucket.lamplighter_assets.arn, "${aws_s3_bucket.lamplighter_assets.arn}/*"]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })
  # AWS refuses two changes of the access to a bucket at once.
  depends_on = [aws_s3_bucket_public_access_block.lamplighter_assets]
}

resource "aws_s3_object" "lamplighter_assets" {
  # Keys are named by content: another content is another object.
  for_each = { for asset in local.lamplighter.files : asset.key => asset.file }
  bucket   = aws_s3_bucket.lamplighter_assets.id
  key      = each.key
  source   = "${path.module}/${each.value}"

  lifecycle {
    # What a stack goes back to, if its update fails, is there until the update is over.
    create_before_destroy = true
  }
}

# It cannot protect the stack against deletion: README.md has the command.
resource "aws_cloudformation_stack" "lamplighter" {
  name         = "$stack"
  template_url = "https://${aws_s3_bucket.lamplighter_assets.bucket_regional_domain_name}/${local.lamplighter.template}"
  capabilities = ["CAPABILITY_NAMED_IAM"]
  parameters = {
    $parameter = aws_s3_bucket.lamplighter_assets.id
  }
  depends_on = [aws_s3_object.lamplighter_assets]
}

output "lamplighter" {
  value = aws_cloudformation_stack.lamplighter.outputs
}
