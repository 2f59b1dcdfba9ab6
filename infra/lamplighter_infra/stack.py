"""A whole stack that is one deployment.

Owns: what belongs to a stack and not to what is in it: its name, its tag, its protection.
"""

from typing import Unpack

import aws_cdk as cdk
from constructs import Construct

from lamplighter_infra.config import Config
from lamplighter_infra.construct import Lamplighter
from lamplighter_infra.props import Props


class LamplighterStack(cdk.Stack):
    """A stack with nothing but a deployment; its props are those of `Lamplighter`.

    Its id and name are the `name` of the deployment, which is `lamplighter-` and the stage.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        stage: str = "dev",
        env: cdk.Environment | None = None,
        config: Config | None = None,
        has_layers: bool = True,
        **props: Unpack[Props],
    ) -> None:
        """Compose the stack."""
        stage = config.stage if config else stage
        name = config.stack_name if config else props.get("name") or f"lamplighter-{stage}"
        super().__init__(
            scope,
            name,
            stack_name=name,
            description=f"Lamplighter, stage {stage}: run scheduling without servers",
            env=env,
        )
        # An id that is left out of the names of resources, as if they were in the stack itself.
        self.lamplighter = Lamplighter(
            self, "Default", stage=stage, config=config, has_layers=has_layers, **props
        )
        self.termination_protection = self.lamplighter.keeps_data
        cdk.Tags.of(self).add("lamplighter:stack", name)
