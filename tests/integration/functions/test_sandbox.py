"""The `sandbox` function: a bundle from a bucket, and answers that fit into a Lambda's."""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from lamplighter import aws, runtime
from lamplighter.bundles.archive import Archive, build_archive
from lamplighter.identifiers import bundle_key
from lamplighter_local.handlers import call

WriteBundle = Callable[[dict[str, str]], Path]

SOURCE = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, Timetable
class Own(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(days=1))
print("hello")
DAG("a", schedule=Own(), start_date=pendulum.datetime(2026, 1, 5))
"""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Return the name of an empty bucket; temporary folders are made below `tmp_path`."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with mock_aws(), runtime.using(new_clients=True):
        aws.client("s3").create_bucket(Bucket="lake")
        yield "lake"
    assert list((tmp_path / "temporary").iterdir()) == []


def sandbox(verb: str, archive: Archive, **more: Any) -> dict[str, Any]:
    """Upload an archive and ask the function about it."""
    key = bundle_key("b", archive.hash)
    aws.client("s3").put_object(Bucket="lake", Key=key, Body=archive.data)
    event = {"bucket": "lake", "key": key, "verb": verb, "result_key": "results/1.json"}
    answer: dict[str, Any] = call("sandbox", event | more)
    return answer


def test_list_names_the_dag_files(bucket: str, write_bundle: WriteBundle) -> None:
    """The caller learns which files there are, to ask for some at a time."""
    root = write_bundle({"dags/b/c.py": "", "dags/a.py": "1 / 0", "jobs/a.py": ""})
    assert sandbox("list", build_archive(root)) == {"files": ["dags/a.py", "dags/b/c.py"]}


def test_parse_answers_what_files_define(bucket: str, write_bundle: WriteBundle) -> None:
    """Each file that was asked for is answered, with its DAGs, errors and output."""
    root = write_bundle({"dags/a.py": SOURCE, "dags/b.py": "1 / 0", "dags/c.py": ""})
    answer = sandbox("parse", build_archive(root), files=["dags/a.py", "dags/b.py"])
    first, second = answer["files"]
    assert (first["dags"][0]["dag_id"], first["output"]) == ("a", "hello\n")
    assert second["errors"][0]["message"] == "ZeroDivisionError: division by zero"


def test_runs_answers_what_timetables_say(bucket: str, write_bundle: WriteBundle) -> None:
    """An author's timetable is asked with the present that the question names."""
    root = write_bundle({"dags/a.py": SOURCE})
    asked = {"file": "dags/a.py", "dag_id": "a", "last": None, "count": 64}
    queries = [asked | {"at": "2026-01-15T12:00:00+00:00"}]
    (answer,) = sandbox("runs", build_archive(root), queries=queries)["results"]
    assert (len(answer["runs"]), answer["owed"], answer["error"]) == (64, 10, None)


def test_answer_too_large_for_lambda_is_stored(bucket: str, write_bundle: WriteBundle) -> None:
    """What Lambda cannot answer is put where the caller said."""
    source = "from lamplighter import DAG\nfor n in range(30): DAG(f'd{n}', doc_md='x' * 200_000)"
    root = write_bundle({"dags/a.py": source})
    answer = sandbox("parse", build_archive(root), files=["dags/a.py"])
    assert answer == {"result_key": "results/1.json"}
    stored = aws.client("s3").get_object(Bucket=bucket, Key="results/1.json")["Body"].read()
    assert len(json.loads(stored)["files"][0]["dags"]) == 30


@pytest.mark.parametrize("verb", ["list", "parse", "runs"])
def test_archive_that_is_none_is_answered(bucket: str, verb: str) -> None:
    """A bad upload is the author's error, and as such an answer."""
    answer = sandbox(verb, Archive(b"no zip", "0" * 64, ()), files=[], questions=[])
    assert answer["error"].startswith("bundle 'b': the archive is not a zip file")


def test_archive_with_other_content_than_its_name_says_is_not_run(
    bucket: str, write_bundle: WriteBundle, tmp_path: Path
) -> None:
    """Whoever replaces a stored archive by another does not get its code run under that name."""
    evil = build_archive(write_bundle({"dags/a.py": f"open({str(tmp_path / 'ran')!r}, 'w')"}))
    answer = sandbox("parse", replace(evil, hash="0" * 64), files=["dags/a.py"])
    assert answer["error"].startswith("bundle 'b': the content of the archive does not match")
    assert not (tmp_path / "ran").exists()


def test_archive_that_is_missing_is_told(bucket: str) -> None:
    """An archive that is not there will not come by itself: the answer says what to do."""
    answer = call("sandbox", {"bucket": bucket, "key": "none.zip", "verb": "list"})

    assert answer == {"error": "there is no archive none.zip: push the bundle again"}


def test_bucket_that_is_missing_is_raised() -> None:
    """What S3 refuses otherwise is not the author's doing."""
    with mock_aws(), pytest.raises(ClientError, match="NoSuchBucket"):
        call("sandbox", {"bucket": "none", "key": "none.zip", "verb": "list"})


def test_verb_that_does_not_exist_is_raised(bucket: str, write_bundle: WriteBundle) -> None:
    """A caller that asks for something else is told."""
    with pytest.raises(ValueError, match="unknown verb 'run'"):
        sandbox("run", build_archive(write_bundle({"dags/a.py": ""})))
