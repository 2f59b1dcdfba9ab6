"""Writes what this version stores and shows into the folder of its release.

    python -m tests.tools.releases.write

Run it once for each release, before it is tagged (CONTRIBUTING.md), and never again for that one.
Refuses: a bundle in which some feature of a document is missing.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import lamplighter
from lamplighter.assets.condition import OPERATORS
from lamplighter.dags.dag import PLAIN_ARGUMENTS
from lamplighter.dags.kinds import KINDS
from lamplighter.timetables.base import _BUILT_IN
from lamplighter.zones import iso
from tests.infra.synthesis import synthesize
from tests.tools.releases import fixture, state, story
from tests.tools.releases.json_keys import json_keys
from tests.tools.releases.surface import stateful, surface


def main() -> int:
    """Write the folder of the version."""
    folder = fixture.RELEASES / lamplighter.__version__
    with story.told() as (lamp, samples):
        lamp.check_invariants()
        tables = state.read_tables(lamp)
        documents = _documents(tables)
        if missing := sorted(_missing(documents)):
            sys.stderr.write(f"no DAG of {fixture.BUNDLE} uses: {', '.join(missing)}\n")
            return 1
        for table, items in tables.items():
            fixture.write(folder / "tables", table, items)
        fixture.write(folder, "story", {"begin": story.BEGIN, "at": iso(lamp.now)})
        fixture.write(folder, "bundle", dict(fixture.bundle_files(fixture.BUNDLE)))
        fixture.write(folder, "documents", documents)
        fixture.write(folder, "messages", state.read_messages(lamp))
        fixture.write(folder, "samples", samples)
        fixture.write(folder, "objects", state.read_objects(lamp))
        fixture.write(folder, "jobs", state.read_jobs(lamp))
        fixture.write(folder, "json_keys", json_keys(lamp))
    fixture.write(folder, "stateful", stateful(synthesize({"stage": "dev"}).template))
    for name, value in surface().items():
        fixture.write(folder, name, value)
    sys.stderr.write(f"{folder} is written\n")
    return 0


def _documents(tables: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the stored document of each version of a DAG."""
    return {
        f"{item['dag_id']['S']}/{item['version']['S']}": json.loads(item["document"]["S"])
        for item in tables["DagVersions"]
    }


def _missing(documents: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a document can hold and none of these does."""
    dags = list(documents.values())
    text = json.dumps(dags)
    for name in PLAIN_ARGUMENTS:
        if len({json.dumps(each[name]) for each in dags}) < 2:
            yield f"the DAG argument {name}"
    for kind in KINDS.values():
        tasks = [task for each in dags for task in each["tasks"] if task["kind"] == kind.kind]
        for name in kind.OPTIONS:
            if not any(task[name] for task in tasks):
                yield f"the option {name} of {kind.__name__}"
    for name in (*_BUILT_IN, *(kind.name for kind in OPERATORS.values())):
        if f'"{name}"' not in text:
            yield name


if __name__ == "__main__":
    sys.exit(main())
