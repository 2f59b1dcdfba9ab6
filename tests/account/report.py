"""The report about an account: for people and for programs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.account.results import FAIL, Result


def write_report(folder: Path, about: Mapping[str, Any], results: Mapping[str, Result]) -> None:
    """Write `report.md` and `report.json` into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: result._asdict() for name, result in results.items()}
    (folder / "report.json").write_text(json.dumps({**about, "checks": found}, indent=2) + "\n")
    (folder / "report.md").write_text(as_markdown(about, results))


def as_markdown(about: Mapping[str, Any], results: Mapping[str, Result]) -> str:
    """Return the report for people."""
    wrong = sum(result.state == FAIL for result in results.values())
    facts = [f"- {name}: {value}" for name, value in about.items()]
    rows = [
        f"| {result.state} | `{name}` | {_cell(result.text)} |" for name, result in results.items()
    ]
    head = ["| | check | |", "|---|---|---|"]
    title = "# Account smoke test"
    verdict = f"{len(results) - wrong} of {len(results)} checks found nothing wrong."
    return "\n".join([title, "", *facts, "", verdict, "", *head, *rows, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
