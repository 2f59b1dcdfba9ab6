"""What the functions of Python tasks may do: the role that `task` assumes for each of them.

Owns: that role. The role of the function itself is made with all others, and no author has it.
"""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from lamplighter_infra.config import Config
from lamplighter_infra.permissions import Arns, reading_secrets


class PythonTasks(Construct):
    """The role of what Python tasks run."""

    def __init__(
        self, scope: Construct, name: str, *, config: Config, arns: Arns, function_role: iam.IRole
    ) -> None:
        super().__init__(scope, name)
        # The deployment's bucket is left out whatever these policies say, whenever it is assumed.
        iam.Role(
            self,
            "JobRole",
            role_name=arns.task_job_role.rpartition("/")[2],
            description="What Python tasks run: the secrets and policies that they are given",
            assumed_by=iam.ArnPrincipal(function_role.role_arn),
            inline_policies={
                "secrets": iam.PolicyDocument(
                    statements=reading_secrets(cdk.Stack.of(self), config)
                )
            }
            if config.secrets
            else {},
            managed_policies=[
                iam.ManagedPolicy.from_managed_policy_arn(self, f"Policy{number}", arn)
                for number, arn in enumerate(config.task_policies, start=1)
            ],
        )
