"""Asks the sandbox: the function that runs author code, and whose word is not taken for it."""

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from lamplighter import aws, settings
from lamplighter.bundles.following import Question
from lamplighter.bundles.importer import ParsedFile, Problem
from lamplighter.bundles.layout import bundle_key
from lamplighter.bundles.sandbox import MAX_FILES_PER_CALL
from lamplighter.errors import DefinitionError, TransientError

# As long as a Lambda can take.
_READ_SECONDS = 900.0
# Each may take its 30 seconds, one after the other.
_QUESTIONS_PER_CALL = 20


class Sandbox:
    """The sandbox, asked about one version of one bundle."""

    def __init__(self, bundle: str, version: str) -> None:
        self._bucket = settings.current().require("bucket")
        self._key = bundle_key(bundle, version)
        self._results = f"results/{bundle}/{version}"

    def parse(self) -> Iterator[ParsedFile]:
        """Yield what each DAG file defines; an answer that is none is an error of its file."""
        files = self._ask({"verb": "list"})["files"]
        for at in range(0, len(files), MAX_FILES_PER_CALL):
            asked = files[at : at + MAX_FILES_PER_CALL]
            answer = self._ask({"verb": "parse", "files": asked})
            # By position: author code may have had a hand in the name that an answer gives.
            for file, data in zip(asked, answer["files"], strict=True):
                yield _read_file(file, data)

    def coming_runs(self, questions: Sequence[Question]) -> dict[str, Any]:
        """Return what authors' timetables say about the runs to come, by DAG id."""
        found: dict[str, Any] = {}
        for at in range(0, len(questions), _QUESTIONS_PER_CALL):
            asked = list(questions[at : at + _QUESTIONS_PER_CALL])
            answers = self._ask({"verb": "runs", "questions": asked})["answers"]
            for question, answer in zip(asked, answers, strict=True):
                found[question["dag_id"]] = answer
        return found

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        result_key = f"{self._results}/{uuid.uuid4().hex}.json"
        event = {
            **question,
            "bucket": self._bucket,
            "key": self._key,
            "result_key": result_key,
        }
        answer = aws.client("lambda", read_seconds=_READ_SECONDS).invoke(
            FunctionName=settings.current().require("sandbox_function"),
            Payload=json.dumps(event).encode(),
        )
        payload: dict[str, Any] = json.loads(answer["Payload"].read())
        if answer.get("FunctionError"):
            # The function itself failed: out of time or memory, or not allowed to read. No author
            # can mend that; the message is delivered again and parked if it stays so.
            raise TransientError(f"the sandbox failed: {payload.get('errorMessage', payload)}")
        if "result_key" in payload:
            body = aws.client("s3").get_object(Bucket=self._bucket, Key=result_key)
            payload = json.loads(body["Body"].read())
        if "error" in payload:
            raise DefinitionError(payload["error"])
        return payload


def _read_file(file: str, data: Any) -> ParsedFile:
    try:
        return ParsedFile.from_json({**data, "file": file})
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        problem = Problem(file, None, f"the sandbox gave an answer that is none: {error!r}")
        return ParsedFile(file, errors=[problem])
