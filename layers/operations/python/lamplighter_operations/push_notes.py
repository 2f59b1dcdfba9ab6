"""What a push says of itself: who made it, why, and where its archive comes from.

Owns: that these are statements of the one who pushes. Nothing is decided by them.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lamplighter import aws, settings
from lamplighter.bundles.parsing import CheckedDag
from lamplighter.errors import RefusedError

PUSH = "push"
PROMOTION = "promotion"
ROLLBACK = "rollback"
MAX_WHY_LENGTH = 1_000


@dataclass(frozen=True)
class Origin:
    """How a push came about: from files, from a push of another deployment, or an earlier one."""

    kind: str = PUSH
    # The push whose archive it repeats, and of a promotion the deployment of that push.
    push: int | None = None
    deployment: str | None = None
    account: str | None = None
    region: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what is stored and shown."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> "Origin":
        """Return the origin of a record; fields of newer versions are ignored."""
        known = cls.__dataclass_fields__
        return cls(**{name: value for name, value in (data or {}).items() if name in known})

    def describe(self) -> str:
        """Return it in words."""
        if self.kind == PROMOTION:
            place = f" ({self.account} {self.region})" if self.account else ""
            return f"promoted from {self.deployment}{place}, push {self.push}"
        if self.kind == ROLLBACK:
            return f"rolled back to push {self.push}"
        return "pushed"


FROM_FILES = Origin()


@dataclass(frozen=True)
class Note:
    """What is recorded with a push."""

    by: str | None = None
    why: str | None = None
    origin: Origin = FROM_FILES
    # What a check of the archive found, from which later pushes can tell what differs.
    dags: Sequence[CheckedDag] | None = None


NO_NOTE = Note()


def require_why(why: str) -> str | None:
    """Return a reason that can be stored, or None for an empty one."""
    if len(why) > MAX_WHY_LENGTH:
        raise RefusedError(
            f"--why has {len(why):,} characters, at most {MAX_WHY_LENGTH:,} are kept: shorten it"
        )
    return why or None


def caller_arn() -> str | None:
    """Return who is signed in, or None if AWS does not tell. It needs no permission."""
    with suppress(BotoCoreError, ClientError):
        return str(aws.client("sts").get_caller_identity()["Arn"])
    return None


def deployment_name() -> str:
    """Return the name of the deployment in force: that of its stack."""
    return settings.current().table_prefix.removesuffix("-")
