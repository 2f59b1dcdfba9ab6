"""The app that the CDK's command line runs: one stack, described by its flags."""

import os
import sys

import aws_cdk as cdk

from lamplighter.errors import SettingsError
from lamplighter_infra.config import Config
from lamplighter_infra.stack import LamplighterStack


def main() -> int:
    """Write down the stack that the flags describe."""
    app = cdk.App()
    try:
        config = Config.from_context(app.node.get_all_context())
        account = config.account or os.environ.get("CDK_DEFAULT_ACCOUNT")
        region = config.region or os.environ.get("CDK_DEFAULT_REGION")
        env = cdk.Environment(account=account, region=region)
        LamplighterStack(app, config=config, env=env)
    except SettingsError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - what a person reads
        return 1
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
