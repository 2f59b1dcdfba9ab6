"""The account smoke test: its report, and that it always tidies up; no account is needed."""

import json
from pathlib import Path
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError

from tests.account import __main__ as program
from tests.account import checks
from tests.account.report import as_markdown
from tests.account.results import FAIL, PASS, SKIP, Check, Result, failed, passed, run_check
from tests.account.stage import FLAGS, STACK, SmokeError, Stage

_STAGE = Stage(STACK, "111111111111", "eu-central-1", {})
_EMULATED = Stage(STACK, "000000000000", "us-east-1", {}, is_emulated=True)


def _refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Anything")


@pytest.mark.parametrize(
    ("stage", "code", "state"),
    [
        (_STAGE, "AccessDenied", FAIL),
        (_STAGE, "NotImplemented", FAIL),
        (_EMULATED, "AccessDenied", FAIL),
        (_EMULATED, "NotImplemented", SKIP),
    ],
)
def test_check_that_is_refused_has_failed_or_cannot_be_shown(
    stage: Stage, code: str, state: str
) -> None:
    """An error is a failure, except where an emulator has no such operation."""

    def check(_: Stage) -> Result:
        raise _refused(code)

    assert run_check(check, stage).state == state


def test_report_has_a_row_for_every_check() -> None:
    """A sentence with line breaks and bars stays in its cell."""
    text = as_markdown({"stack": STACK}, {"one": passed("well"), "two": failed("a|b\nc")})
    assert "| pass | `one` | well |" in text
    assert "| fail | `two` | a\\|b c |" in text
    assert "1 of 2 checks" in text


@pytest.mark.parametrize(("further", "is_destroyed"), [([], True), (["--keep"], False)])
def test_stage_is_destroyed_when_its_deployment_failed(
    tmp_path: Path, further: list[str], *, is_destroyed: bool
) -> None:
    """What a failed deployment left behind is deleted, unless it is to be kept."""
    with (
        patch.object(program, "identity", return_value=("111111111111", "eu-central-1")),
        patch.object(program, "deploy", side_effect=SmokeError("cdk deploy failed")),
        patch.object(program, "destroy") as destroy,
    ):
        assert program.main(["--report", str(tmp_path), *further]) == 1
    assert destroy.called == is_destroyed
    checks = json.loads((tmp_path / "report.json").read_text())["checks"]
    assert checks["deploy"] == {"state": FAIL, "text": "cdk deploy failed"}
    assert checks.get("destroy", {"state": PASS})["state"] == PASS


def test_stage_that_cannot_be_destroyed_is_a_failure(tmp_path: Path) -> None:
    """Whoever runs it learns that something is left, which costs money."""
    with (
        patch.object(program, "identity", return_value=("111111111111", "eu-central-1")),
        patch.object(program, "deploy", side_effect=SmokeError("cdk deploy failed")),
        patch.object(program, "destroy", side_effect=_refused("AccessDenied")),
    ):
        assert program.main(["--report", str(tmp_path)]) == 1
    checks = json.loads((tmp_path / "report.json").read_text())["checks"]
    assert "still there" in checks["destroy"]["text"]


@pytest.mark.parametrize(
    ("check", "quota", "state", "words"),
    [
        (checks.quota_vcpus, 16, PASS, "1 jobs of the default size"),
        (checks.quota_vcpus, 8, FAIL, "-c spark_vcpus=8"),
        (checks.quota_lambda, 1_000, PASS, "may use 17"),
        (checks.quota_lambda, 10, FAIL, "request 1,000"),
    ],
)
def test_quotas_are_held_against_the_flags(
    check: Check, quota: float, state: str, words: str
) -> None:
    """A quota below what the flags may use is a failure that says what to do."""
    stage = Stage(STACK, "111111111111", "eu-central-1", FLAGS)
    with patch.object(checks, "_quota", return_value=quota):
        result = check(stage)
    assert result.state == state
    assert words in result.text
