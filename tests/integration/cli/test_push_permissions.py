"""What a push needs: the permissions that `Lamplighter.grant_push` gives, and no others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lamplighter_local.stack import LocalStack
from tests.infra.permissions_file import Need, needs, read_lines
from tests.tools.function_calls import FunctionCall, noted_calls_of

Command = Callable[..., Any]
GRANTS = Path(__file__).parents[2] / "infra" / "grants.txt"

_HEAD = """
import pendulum
from lamplighter import DAG, Asset
from lamplighter.timetables.base import DagRunInfo, Timetable
NINE = pendulum.datetime(2026, 1, 5, 9)
"""
_HOURLY = "DAG('one', schedule='0 * * * *', start_date=NINE)\n"
_DAILY = "DAG('one', schedule='0 6 * * *', start_date=NINE)\n"
_BY_ASSET = "DAG('one', schedule=[Asset('a')])\n"
_BY_OTHER_ASSET = "DAG('one', schedule=[Asset('b')])\n"
_CUSTOM = """
class Own(Timetable):
    def infer_manual_data_interval(self, *, run_after): raise NotImplementedError
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        return None
    def serialize(self): return {}
    @classmethod
    def deserialize(cls, data): return cls()
DAG('two', schedule=Own(), start_date=NINE)
"""


def test_push_needs_what_its_grant_gives(
    alone: Command, stack: LocalStack, write_bundle: Callable[[dict[str, str]], Path]
) -> None:
    """New, changed and removed schedules, and custom ones: each permission is needed by a push."""
    lines = read_lines("push", GRANTS)
    asked: set[Need] = set()

    def note(call: FunctionCall) -> None:
        asked.update(needs(call, prefix=stack.settings.table_prefix))

    for text in (_HOURLY, _DAILY, _BY_ASSET, _BY_OTHER_ASSET, _HOURLY + _CUSTOM, _CUSTOM):
        root = write_bundle({"dags/a.py": _HEAD + text})
        with noted_calls_of("push", note):
            assert alone("push", root, "--bundle", "b", "--yes").code == 0
        stack.run_until_idle()
    assert {need for need in asked if not any(line.allows(need) for line in lines)} == set()
    # The key is used by services, and the stack is looked up by name, both unseen from here.
    seen = [line for line in lines if not line.action.startswith(("kms:", "cloudformation:"))]
    unused = [line for line in seen if not any(line.allows(need) for need in asked)]
    assert unused == []
