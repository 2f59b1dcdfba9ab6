"""The CDK app: one stack for each stage, as `lamplighter deploy --stage NAME` names it."""

import aws_cdk as cdk

from lamplighter_infra import LamplighterStack

app = cdk.App()
stage = app.node.try_get_context("stage") or "dev"

LamplighterStack(app, stage=stage)

app.synth()
