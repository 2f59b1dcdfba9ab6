"""What must be true of an account before the CDK is asked to deploy to it."""

from botocore.exceptions import ClientError, NoCredentialsError, NoRegionError

from lamplighter import aws
from lamplighter.errors import RefusedError
from lamplighter_cli.assembly import Stack
from lamplighter_cli.cdk import CDK_VERSION, App, Place


def require_bootstrapped(app: App) -> Place:
    """Return where the credentials lead; refuse an environment that the CDK cannot deploy to."""
    here = _place()
    # Elsewhere, only the CDK knows with whose rights.
    if not (app.is_elsewhere or _is_bootstrapped(app.qualifier)):
        where = _url(here)
        raise RefusedError(
            f"{where} was never bootstrapped: run `npx aws-cdk@{CDK_VERSION} bootstrap {where}`"
        )
    return here


def require_here(stack: Stack, here: Place) -> None:
    """Refuse a stack of another place, where another one may have its name."""
    wanted = stack.account or here[0], stack.region or here[1]
    if wanted != here:
        raise RefusedError(
            f"stack {stack.name!r} is in {_url(wanted)}, but the credentials lead to {_url(here)}:"
            " choose another --profile or --region"
        )


def _url(place: Place) -> str:
    return f"aws://{'/'.join(place)}"


def _place() -> Place:
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
