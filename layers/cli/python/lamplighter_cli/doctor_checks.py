"""The checks of `lamplighter doctor`: each reports in one line whether something is wrong.

Refuses: changing anything.
"""

import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

import lamplighter
from lamplighter import aws, clock, settings
from lamplighter.errors import MalformedRowError, NewerFormError, SerializationError
from lamplighter.executors.emr_releases import support_problem
from lamplighter.registry.import_problems import all_problems
from lamplighter.scheduler.claim_decision import PATIENT_FAILURES
from lamplighter.store.bundles import read_bundles
from lamplighter.store.catalog import read_look_ahead
from lamplighter.store.dags import all_dags, dags_with_schedule_errors, newest_documents
from lamplighter.store.tables import TableDefinition, table_definitions
from lamplighter.store.watchers import read_parked
from lamplighter.topology import QUEUES, URL_SETTINGS
from lamplighter_cli import console
from lamplighter_cli.errors import explain

if TYPE_CHECKING:
    from lamplighter.store.models import Catalog, Dags

OK, WARNING, ERROR = "ok", "warning", "error"

_LATE_SECONDS = 180
# The sandbox may take minutes for a bundle, and the sweep retries unfinished pushes.
_STUCK_SECONDS = 900


class Finding(NamedTuple):
    """The result of a check, and how to fix it."""

    check: str
    level: str
    text: str
    fix: str = ""


def check_resources() -> Iterator[Finding]:
    """Check what all other checks need: credentials, tables and queues."""
    try:
        account = aws.client("sts").get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        yield Finding("credentials", ERROR, explain(error) or str(error))
        return
    yield Finding("credentials", OK, f"account {account}")
    yield from _tables()
    yield from _queues()


def check_activity() -> Iterator[Finding]:
    """Check what the deployment does: ticks, pushes, imports, schedules, watchers."""
    yield _tick()
    yield from _bundles()
    yield _import_errors()
    yield from _rows()
    yield _schedule_errors()
    yield _watchers()
    yield _versions()
    yield from _release()


# Tables.


def _tables() -> Iterator[Finding]:
    wrong = [text for table in table_definitions(_prefix()) if (text := _differs(table))]
    for text in wrong:
        yield Finding(
            "tables", ERROR, text, "deploy the stack again, or check --stack and --region"
        )
    if not wrong:
        yield Finding("tables", OK, f"all {len(table_definitions(_prefix()))}, with their indexes")


def _prefix() -> str:
    return settings.current().table_prefix


def _differs(table: TableDefinition) -> str | None:
    """Return how a table differs from its model, or None."""
    try:
        found = aws.client("dynamodb").describe_table(TableName=table.name)["Table"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        return f"table {table.name} does not exist"
    if _keys(found) != _keys(table.create):
        return f"table {table.name} does not have the key {_keys(table.create)}"
    there, wanted = _indexes(found), _indexes(table.create)
    for name, keys in wanted.items():
        if there.get(name) != keys:
            return f"table {table.name} has no index {name} on {' and '.join(keys)}"
    return None


def _keys(described: Mapping[str, Any]) -> list[str]:
    schema = sorted(described["KeySchema"], key=lambda key: str(key["KeyType"]))
    return [str(key["AttributeName"]) for key in schema]


def _indexes(described: Mapping[str, Any]) -> dict[str, list[str]]:
    indexes = described.get("GlobalSecondaryIndexes", ())
    return {str(index["IndexName"]): _keys(index) for index in indexes}


# Queues, and the messages in dead-letter queues.


def _queues() -> Iterator[Finding]:
    wrong: list[Finding] = []
    dead: dict[str, int] = {}
    dlqs = {queue.dlq for queue in QUEUES.values()}
    for name, setting in URL_SETTINGS.items():
        url = settings.current().queue_urls.get(name)
        if not url:
            wrong.append(Finding("queues", ERROR, f"{setting} is not set", _missing(setting)))
            continue
        attributes = _attributes(url)
        if attributes is None:
            fix = "deploy the stack again, or check --stack and --region"
            wrong.append(Finding("queues", ERROR, f"queue {url} does not exist", fix))
        else:
            count = int(attributes["ApproximateNumberOfMessages"])
            dead |= {url.rpartition("/")[2]: count} if name in dlqs else {}
    yield from wrong
    if not wrong:
        yield Finding("queues", OK, f"all {len(URL_SETTINGS)}")
    yield from _dead_findings(dead)


def _missing(setting: str) -> str:
    return f"set LAMPLIGHTER_{setting.upper()}, or choose a deployment with --stack"


def _attributes(url: str) -> dict[str, str] | None:
    try:
        answer = aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    except ClientError as error:
        if "NonExistentQueue" in error.response["Error"]["Code"] or "DoesNotExist" in str(error):
            return None
        raise
    found: dict[str, str] = answer["Attributes"]
    return found


def _dead_findings(dead: Mapping[str, int]) -> Iterator[Finding]:
    for queue, count in dead.items():
        if count:
            yield Finding("dead letters", WARNING, f"{count} in {queue}", "lamplighter dlq list")
    if not any(dead.values()):
        yield Finding("dead letters", OK, "none")


# Activity.


def _tick() -> Finding:
    covered = read_look_ahead().covered_until
    fix = "check that the timer of `tick` is enabled, and the function's log"
    if covered is None:
        return Finding("tick", ERROR, "has never run", fix)
    ran = covered.subtract(seconds=settings.current().look_ahead_seconds)
    late = (clock.now() - ran).total_seconds()
    if late > _LATE_SECONDS:
        when = console.instant(ran.replace(microsecond=0))
        return Finding("tick", ERROR, f"last ran at about {when}", fix)
    return Finding("tick", OK, f"ran about {max(0, late):.0f} seconds ago")


def _bundles() -> Iterator[Finding]:
    rows = list(read_bundles())
    stuck = [row for row in rows if (row.pushed or 0) > (row.registered or 0) and _is_old(row)]
    for row in stuck:
        text = f"push {row.pushed:.0f} of {row.id} has not been registered since {_since(row)}"
        yield Finding("bundles", ERROR, text, "push it again; see the log of `register`")
    if not stuck:
        names = ", ".join(sorted(row.id for row in rows)) or "none yet"
        yield Finding("bundles", OK, f"registered: {names}")


def _is_old(row: "Catalog") -> bool:
    if row.updated_at is None:
        return True
    return (clock.now() - row.updated_at).total_seconds() > _STUCK_SECONDS


def _since(row: "Catalog") -> str:
    return console.instant(row.updated_at) if row.updated_at is not None else "the first push"


def _import_errors() -> Finding:
    count = sum(problem["severity"] == "error" for problem in all_problems())
    if count:
        text = f"{count} {'error' if count == 1 else 'errors'} in pushed files"
        return Finding("imports", WARNING, text, "lamplighter dags errors")
    return Finding("imports", OK, "no errors")


def _rows() -> Iterator[Finding]:
    """Report DAGs whose rows cannot be read, and those whose claims keep failing."""
    malformed: list[MalformedRowError] = []
    rows = all_dags(malformed=malformed)
    for error in malformed:
        yield Finding("rows", ERROR, str(error), "correct the attribute in DynamoDB")
    stalled = [row for row in rows if (row.claim_failures or 0) >= PATIENT_FAILURES]
    for row in stalled:
        text = (
            f"DAG {row.dag_id!r}: the last {row.claim_failures:.0f} claims failed:"
            f" {row.claim_error}"
        )
        yield Finding("rows", ERROR, text, "see the logs of `tick` and `claim`")
    yield from _paused(rows)
    if not malformed and not stalled:
        yield Finding("rows", OK, f"{len(rows)} DAGs can be read and claimed")


def _paused(rows: Iterable["Dags"]) -> Iterator[Finding]:
    """Report DAGs that nobody has paused: they failed too often, or had too many runs."""
    for row in rows:
        if row.is_paused and row.pause_reason and not row.is_stale:
            text = f"DAG {row.dag_id!r} paused itself: {row.pause_reason}"
            yield Finding("paused", WARNING, text, f"lamplighter dags unpause {row.dag_id}")


def _schedule_errors() -> Finding:
    wrong = sorted(row.dag_id for row in dags_with_schedule_errors())
    if wrong:
        text = f"cannot be followed: {', '.join(wrong)}"
        return Finding("schedules", WARNING, text, "lamplighter dags errors")
    return Finding("schedules", OK, "all can be followed")


def _watchers() -> Finding:
    parked = sorted({key.rpartition("/")[0] for key in read_parked()})
    if parked:
        text = f"parked because they fired too often: {', '.join(parked)}"
        return Finding("watchers", WARNING, text, f"lamplighter watchers resume {parked[0]}")
    return Finding("watchers", OK, "none is parked")


def _versions() -> Finding:
    ours = f"lamplighter {lamplighter.__version__} on Python {platform.python_version()}"
    try:
        newest_documents(all_dags(consistent=False))
    except (NewerFormError, SerializationError) as error:
        return Finding("versions", ERROR, f"{ours}: {error}", "install the deployed version")
    return Finding("versions", OK, f"{ours} can read all definitions")


def _release() -> Iterator[Finding]:
    """Report the release of EMR Serverless, if the stack has an application of its own."""
    release = settings.current().emr_release
    if not release:
        return
    problem = support_problem(release, clock.now().date())
    if problem is None:
        yield Finding("release", OK, f"{release} is supported")
        return
    text, _, fix = problem.partition(": ")
    yield Finding("release", WARNING, text, fix)
