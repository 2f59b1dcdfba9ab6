"""Counts what runs use on the local deployment, and says what that costs on AWS.

    python -m tests.costs [--json] [--write]

Nothing is asked of AWS. `--write` puts the table into docs/costs.md.
"""

import argparse
import json

from tests.costs import bill


def main() -> None:
    """Print the bill."""
    parser = argparse.ArgumentParser(prog="python -m tests.costs", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write the table of docs/costs.md")
    given = parser.parse_args()
    runs, months = bill.count_runs(), bill.count_months()
    if given.write:
        bill.write_table(bill.table(runs))
    if given.json:
        print(json.dumps(bill.as_json(runs, months), indent=2))  # noqa: T201 - a program
    else:
        print("\n".join(bill.as_lines(runs, months)))  # noqa: T201 - a program


if __name__ == "__main__":
    main()
