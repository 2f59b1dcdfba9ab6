"""The code of bundles: each finds its own modules, whatever others call theirs."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lamplighter import aws, runtime
from lamplighter.errors import DefinitionError
from lamplighter.identifiers import bundle_key
from lamplighter.streams import watchers
from lamplighter.streams.watchers import Watcher, unpacked
from lamplighter_local.stack import LocalStack
from lamplighter_operations.push import push_bundle
from tests.unit.streams.scripted import SINCE

TRIGGER = """
from lamplighter.triggers.base import BaseEventTrigger
{imports}

class Here(BaseEventTrigger):
    def __init__(self, **kwargs):
        self.says = {says}

    def serialize(self):
        return "watching.Here", {{}}
"""

Push = Callable[..., str]


@pytest.fixture(name="push")
def make_push(stack: LocalStack, tmp_path: Path) -> Push:
    """Return a function that pushes files as a bundle, and returns the version."""

    def push(bundle: str, files: dict[str, str]) -> str:
        root = tmp_path / bundle
        for name, text in {"dags/empty.py": "", **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        assert stack.settings.bucket
        return push_bundle(root, bundle).version

    return push


def says(bundle: str, version: str, path: str = "watching.Here") -> object:
    """Build the trigger of a bundle, and return what it says."""
    trigger = {"type": path, "data": {}}
    return Watcher("a", "w", trigger, bundle, version, ("dag",), SINCE).build().says  # type: ignore[attr-defined] # of the class above


def trigger(words: str, imports: str = "") -> str:
    """Return a file with a trigger that says something."""
    return TRIGGER.format(says=words, imports=imports)


def test_bundles_may_have_modules_of_the_same_name(push: Push) -> None:
    """Each trigger is of its own bundle, in whichever order they are built."""
    one = push("one", {"triggers/watching.py": trigger("'one'")})
    two = push("two", {"triggers/watching.py": trigger("'two'")})
    before = {name: sys.modules.get(name) for name in ("watching", "triggers")}
    built = [says("one", one), says("two", two), says("one", one)]
    assert built == ["one", "two", "one"]
    assert {name: sys.modules.get(name) for name in before} == before


def test_trigger_is_found_by_its_folder_too(push: Push) -> None:
    """A trigger may be written as `triggers.watching` or as `watching`, as its file imports it."""
    one = push("one", {"triggers/watching.py": trigger("'one'")})
    two = push("two", {"triggers/watching.py": trigger("'two'")})
    path = "triggers.watching.Here"
    assert [says("one", one, path), says("two", two, path)] == ["one", "two"]


def test_new_version_replaces_the_old_one(push: Push) -> None:
    """What was pushed later is what runs, and the old one's files are gone."""
    first = push(
        "one",
        {
            "triggers/watching.py": trigger("words.HERE", "import words"),
            "triggers/words.py": "HERE = 1",
        },
    )
    assert says("one", first) == 1
    folder = unpacked("one", first)
    second = push("one", {"triggers/words.py": "HERE = 2"})
    assert says("one", second) == 2
    assert not folder.exists()


def test_trigger_imports_at_its_top_what_its_bundle_has(push: Push) -> None:
    """Modules, packages without an `__init__` and vendored ones in `lib` are found."""
    imports = "import words\nfrom inner import deep\nimport vendored"
    version = push(
        "one",
        {
            "triggers/watching.py": trigger("(words.HERE, deep.HERE, vendored.HERE)", imports),
            "triggers/words.py": "HERE = 1",
            "triggers/inner/deep.py": "HERE = 2",
            "lib/vendored.py": "HERE = 3",
        },
    )
    assert says("one", version) == (1, 2, 3)
    assert not {"words", "inner", "inner.deep", "vendored"} & set(sys.modules)


def test_bundle_is_fetched_once(push: Push, stack: LocalStack) -> None:
    """A function that lives on keeps what it has unpacked."""
    version = push("one", {"triggers/watching.py": trigger("'one'")})
    folder = unpacked("one", version)
    assert unpacked("one", version) is folder
    assert stack.settings.bucket


def test_module_that_raises_leaves_nothing_behind(push: Push) -> None:
    """A file that cannot be imported does not stand in the way of its next version."""
    broken = push(
        "one",
        {
            "triggers/watching.py": "import words\nraise KeyError('x')",
            "triggers/words.py": "HERE = 1",
        },
    )
    with pytest.raises(KeyError):
        says("one", broken)
    path = list(sys.path)
    assert not {"watching", "words"} & set(sys.modules)
    assert not any("lamplighter-bundle-" in place for place in path)
    sound = push(
        "one",
        {
            "triggers/watching.py": trigger("words.HERE", "import words"),
            "triggers/words.py": "HERE = 2",
        },
    )
    assert says("one", sound) == 2


def test_class_that_is_not_there_is_the_authors_error(push: Push) -> None:
    """The error names it, as for any document that cannot be read."""
    version = push("one", {"triggers/watching.py": ""})
    with pytest.raises(DefinitionError, match=r"watching\.Here cannot be imported"):
        says("one", version)


def test_archive_that_cannot_be_opened_leaves_no_folder(
    push: Push, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A function that tries it again and again does not fill its disk."""
    version = push("one", {})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()

    def fail(*_: object) -> Path:
        raise DefinitionError("it is no archive")

    monkeypatch.setattr(watchers, "open_stored", fail)
    runtime.current().caches.clear()
    with pytest.raises(DefinitionError, match="no archive"):
        unpacked("one", version)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_archive_with_other_content_than_its_name_says_is_refused(
    push: Push, stack: LocalStack
) -> None:
    """A trigger is not built from an archive that was replaced after it was pushed."""
    runtime.current().caches.clear()
    version = push("one", {"triggers/watching.py": trigger("'one'")})
    other = push("one", {"triggers/watching.py": trigger("'other'")})
    s3, bucket = aws.client("s3"), stack.settings.bucket
    content = s3.get_object(Bucket=bucket, Key=bundle_key("one", other))["Body"].read()
    s3.put_object(Bucket=bucket, Key=bundle_key("one", version), Body=content)
    with pytest.raises(DefinitionError, match="bundle 'one': the content of the archive"):
        says("one", version)
    assert says("one", other) == "other"
