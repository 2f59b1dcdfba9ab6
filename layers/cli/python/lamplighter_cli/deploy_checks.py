"""What must be true of an account before the CDK is asked to deploy to it."""

from botocore.exceptions import ClientError, NoCredentialsError, NoRegionError

from lamplighter import aws
from lamplighter.errors import RefusedError
from lamplighter_cli.cdk import CDK_VERSION, App


def require_bootstrapped(app: App) -> None:
    """Refuse an environment that the CDK cannot deploy to, with the command that changes it."""
    account, region = _place()
    if app.is_elsewhere:
        return  # elsewhere: only the CDK knows with whose rights
    if not _is_bootstrapped(app.qualifier):
        where = f"aws://{account}/{region}"
        raise RefusedError(
            f"{where} was never bootstrapped: run `npx aws-cdk@{CDK_VERSION} bootstrap {where}`"
        )


def _place() -> tuple[str, str]:
    """Return account and region of the credentials."""
    try:
        # STS alone would do without a region.
        region = aws.client("ssm").meta.region_name
        return aws.client("sts").get_caller_identity()["Account"], region
    except NoCredentialsError as error:
        raise RefusedError("no AWS credentials: sign in, or choose a --profile") from error
    except NoRegionError as error:
        raise RefusedError("no AWS region: set --region or AWS_REGION") from error


def _is_bootstrapped(qualifier: str) -> bool:
    try:
        aws.client("ssm").get_parameter(Name=f"/cdk-bootstrap/{qualifier}/version")
    except ClientError as error:
        # Who may only assume the roles of the CDK cannot look.
        return bool(error.response["Error"]["Code"] != "ParameterNotFound")
    return True
