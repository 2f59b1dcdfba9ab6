"""Lets other parts of an app use a deployment.

Owns: that a grant which can have no effect is an error, and not silence.
"""

from collections.abc import Iterable

from aws_cdk import aws_iam as iam

from lamplighter.errors import SettingsError

_ATTACHING = {"role_arn": "role", "user_arn": "user", "group_arn": "group"}


def allow(name: str, grantee: iam.IGrantable, allowed: Iterable[iam.PolicyStatement]) -> None:
    """Add statements to the policy of whoever gets them."""
    for statement in allowed:
        if not grantee.grant_principal.add_to_principal_policy(statement).statement_added:
            raise SettingsError(
                f"{name}: the policies of {grantee} cannot be changed here; give it a role, or a"
                " user, of this account"
            )


def attach(name: str, grantee: iam.IGrantable, policy: iam.ManagedPolicy) -> None:
    """Attach a managed policy: all that it allows would be too long for one of the grantee's."""
    principal = grantee.grant_principal
    for attribute, kind in _ATTACHING.items():
        if hasattr(principal, attribute):
            getattr(policy, f"attach_to_{kind}")(principal)
            return
    raise SettingsError(f"{name} takes a role, a user or a group, not {grantee}")
