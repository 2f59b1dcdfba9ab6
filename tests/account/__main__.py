"""Deploys a stage of its own to the account of your credentials, looks at it, and deletes it.

    make account-smoke                        deploy, check, delete
    python -m tests.account --keep            leave the stage for the next time
    python -m tests.account --only job cost   some checks only
    python -m tests.account --flag alarm_email=someone@example.com

Costs a few cents. The stage is `lamplighter-smoke`; nothing else is touched. It can be repeated.
"""

import argparse
import sys
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.text import Text

from lamplighter.errors import LamplighterError
from lamplighter_cli.deployment import Target, in_force
from tests.account.checks import CHECKS
from tests.account.report import write_report
from tests.account.results import FAIL, PASS, SKIP, Result, failed, run_check
from tests.account.stage import ROOT, STACK, Stage, deploy, destroy, identity

_STYLES = {PASS: "green", FAIL: "bold red", SKIP: "yellow"}
_REPORT = ROOT / "build" / "account-smoke"


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if nothing is wrong, 1 if something is, 2 if nothing could be looked at."""
    given = _parse(arguments)
    console = Console()
    try:
        account, region = identity()
    except (BotoCoreError, ClientError) as error:
        console.print(Text(f"error: no account to look at: {error}"))
        return 2
    console.print(Text(f"{STACK} in account {account}, region {region}"))
    results = _look(given, console, account=account, region=region)
    about = {"stack": STACK, "account": account, "region": region}
    write_report(given.report, about, results)
    console.print(Text(f"report: {given.report / 'report.md'}"))
    return int(any(result.state == FAIL for result in results.values()))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.account",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=list(CHECKS), help="run only these checks")
    parser.add_argument("--keep", action="store_true", help="do not delete the stage")
    parser.add_argument("--report", type=Path, default=_REPORT, help="the folder of the report")
    parser.add_argument(
        "--flag", action="append", default=[], help="a flag of the stage: NAME=VALUE"
    )
    return parser.parse_args(arguments)


def _look(
    given: argparse.Namespace, console: Console, *, account: str, region: str
) -> dict[str, Result]:
    """Deploy, check, and delete, also when something went wrong on the way."""
    results: dict[str, Result] = {}
    try:
        with console.status("cdk deploy, which takes some minutes"):
            flags = deploy(dict(each.split("=", 1) for each in given.flag))
        _show(console, results, "deploy", Result(PASS, f"{STACK} is deployed"))
        stage = Stage(STACK, account, region, flags)
        with in_force(Target(stack=STACK)):
            _check(given.only or list(CHECKS), stage, console, results)
    except (BotoCoreError, ClientError, LamplighterError) as error:
        _show(console, results, "deploy", failed(str(error)))
    finally:
        if not given.keep:
            _show(console, results, "destroy", _destroy(console))
    return results


def _check(names: list[str], stage: Stage, console: Console, results: dict[str, Result]) -> None:
    for name, check in CHECKS.items():
        if name in names:
            with console.status(name):
                found = run_check(check, stage)
            _show(console, results, name, found)


def _destroy(console: Console) -> Result:
    try:
        with console.status("cdk destroy"):
            destroy()
    except (BotoCoreError, ClientError, LamplighterError) as error:
        return failed(f"{STACK} is still there, and costs money: {error}")
    return Result(PASS, f"{STACK} is deleted")


def _show(console: Console, results: dict[str, Result], name: str, result: Result) -> None:
    results[name] = result
    console.print(
        Text.assemble((f"{result.state:<5}", _STYLES[result.state]), f"{name:<16}", result.text)
    )


if __name__ == "__main__":
    sys.exit(main())
