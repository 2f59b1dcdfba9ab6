"""The command as a user types it, against a deployment in this process."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest.mock import patch

import pytest

from lamplighter_cli.app import main
from lamplighter_local.stack import LocalStack
from tests.infra.permissions_file import CheckedPermissions
from tests.tools.function_calls import noted_calls_of


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture
def lamplighter(
    stack: LocalStack, alone: Command, request: pytest.FixtureRequest
) -> Iterator[Command]:
    """Yield a function that runs the command with the deployment in force.

    What it asks of AWS is held against the policies for operators, who are readers too.
    """
    checked = CheckedPermissions(stack.settings.table_prefix, beside="reader")

    def run(*arguments: object) -> Result:
        with noted_calls_of("operator", checked.note):
            return alone(*arguments)

    yield run
    if request.node.get_closest_marker("interferes") is None:
        assert checked.forbidden == set()


@pytest.fixture
def alone(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs the command where there is no deployment."""

    def lamplighter(*arguments: object) -> Result:
        code = 0
        with patch.object(sys, "argv", ["lamplighter", *map(str, arguments)]):
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return lamplighter
