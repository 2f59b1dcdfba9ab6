"""The CDK app: a stack for each stage, as `lamplighter deploy --stage NAME` names it."""

import aws_cdk as cdk

from lamplighter_infra import Lamplighter

app = cdk.App()
stage = app.node.try_get_context("stage") or "dev"
stack = cdk.Stack(app, f"lamplighter-{stage}", termination_protection=stage != "dev")

# Whatever else it takes, such as `data_buckets` or `vpc`, may be made in this app too.
Lamplighter(stack, "Lamplighter", stage=stage)

app.synth()
