"""What a check answers."""

from collections.abc import Callable
from typing import NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from lamplighter.errors import LamplighterError
from tests.account.stage import Stage

PASS, FAIL, SKIP = "pass", "fail", "skip"

# How emulators say that they have no such service or operation.
_UNSUPPORTED = ("NotImplemented", "InvalidAction", "UnknownOperation", "Unsupported", "501")


class Result(NamedTuple):
    """What came of a check, in a sentence."""

    state: str
    text: str


Check = Callable[[Stage], Result]


def passed(text: str) -> Result:
    """Return that something is as it should be."""
    return Result(PASS, text)


def failed(text: str) -> Result:
    """Return what is wrong, and what to do about it."""
    return Result(FAIL, text)


def skipped(text: str) -> Result:
    """Return why something could not be looked at."""
    return Result(SKIP, text)


def run_check(check: Check, stage: Stage) -> Result:
    """Return the result of a check; one that raises has failed."""
    try:
        return check(stage)
    except (BotoCoreError, ClientError) as error:
        if stage.is_emulated and _is_unsupported(error):
            return skipped(f"the emulator cannot show it: {error}")
        return failed(str(error))
    except LamplighterError as error:
        return failed(str(error))


def _is_unsupported(error: Exception) -> bool:
    text = f"{type(error).__name__} {error}"
    return any(part.lower() in text.lower() for part in _UNSUPPORTED)
