"""The CDK app: a stack for each stage, as `lamplighter deploy --stage NAME` names it."""

import aws_cdk as cdk

from lamplighter_infra import Lamplighter

app = cdk.App()
stage = app.node.try_get_context("stage") or "dev"
stack = cdk.Stack(app, f"lamplighter-{stage}")

# Whatever else it takes, such as `data_buckets` or `vpc`, may be made in this app too.
lamplighter = Lamplighter(stack, "Lamplighter", stage=stage)
# Unless its data may go with it, as in dev.
stack.termination_protection = lamplighter.keeps_data

app.synth()
