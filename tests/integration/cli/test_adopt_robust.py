"""`lamplighter adopt` never fails on Python that can be parsed, however strange."""

import ast
import io
import tokenize
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pendulum import datetime

from lamplighter_cli.adopt.source import silent_about_escapes
from lamplighter_cli.adopt.translation import Translation, translate

HERE = Path(__file__).parent
AT = datetime(2026, 1, 10, 12, 30)
TEXTS = [
    path.read_text("utf-8-sig", errors="replace")
    for path in sorted((HERE / "airflow_files").rglob("*.py"))
]
AIRFLOW = """
from airflow import DAG
from airflow.decorators import dag, task
from airflow.operators.python import PythonOperator

with DAG("all", schedule="@daily") as all_functions:
"""
# Python's own tests of its grammar: nobody writes stranger files.
PYTHON_FILES = (
    *("test_grammar", "test_patma", "test_fstring", "test_decorators", "test_named_expressions"),
    *(
        "test_unpack_ex",
        "test_generators",
        "test_scope",
        "test_with",
        "test_dictcomps",
        "test_keyword",
    ),
    *("test_positional_only_arg", "test_asyncgen", "test_except_star", "test_syntax", "test_super"),
)
_NAME_NUMBER_STRING = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)


def tokens_of(text: str) -> list[tokenize.TokenInfo]:
    """Return the names and literals of a text that stand in one line."""
    try:
        found = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [
        each for each in found if each.type in _NAME_NUMBER_STRING and each.start[0] == each.end[0]
    ]


WORDS = sorted({token.string for text in TEXTS for token in tokens_of(text)})


@st.composite
def changed(draw: st.DrawFn) -> str:
    """Return one of the files with a few lines and words changed."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        lines = text.split("\n")
        one, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        tokens = tokens_of(text)
        match draw(st.sampled_from(["remove", "swap", "repeat", "word", "word", "word"])):
            case "remove":
                del lines[one]
            case "swap":
                lines[one], lines[other] = lines[other], lines[one]
            case "repeat":
                lines.insert(one, lines[other])
            case _ if tokens:
                token = draw(st.sampled_from(tokens))
                line, word = lines[token.start[0] - 1], draw(st.sampled_from(WORDS))
                lines[token.start[0] - 1] = line[: token.start[1]] + word + line[token.end[1] :]
        text = "\n".join(lines)
    return text


def translated(folder: Path, text: str) -> Translation | None:
    """Return what becomes of a file, which is Python if it is anything."""
    path = folder / "dags.py"
    path.write_text(text, encoding="utf-8")
    made = translate(path, path.name, folder, airflow=None, at=AT)
    if made is not None:
        for file in made.files.values():
            with silent_about_escapes():
                ast.parse(file)
        said = [finding.message for finding in made.report.all_findings]
        assert not any("please report" in message for message in said), said
    return made


@examples(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=changed())
def test_changed_file_is_reported(text: str, tmp_path: Path) -> None:
    """Whatever a file says, there is a report; only what is no Python is reported as such."""
    made = translated(tmp_path, text)
    try:
        with silent_about_escapes():
            ast.parse(text)
    except (SyntaxError, ValueError):
        assert made is not None
        assert made.report.all_findings
        assert not made.report.is_translated


@pytest.mark.parametrize("name", PYTHON_FILES)
def test_any_python_file_is_reported(name: str, tmp_path: Path) -> None:
    """Its functions are tasks of a DAG, and are moved or stay with a reason."""
    path = Path(ast.__file__).parent / "test" / f"{name}.py"
    if not path.is_file():
        pytest.skip("this Python has been installed without its own tests")
    text = path.read_text("utf-8")
    with silent_about_escapes():
        tree = ast.parse(text)
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    tasks = [f"    PythonOperator(task_id={each!r}, python_callable={each})" for each in names]
    made = translated(tmp_path, "\n".join([text, AIRFLOW, *tasks, "    pass\n"]))
    assert made is not None
    assert [len(dag.tasks) for dag in made.report.dags] == [len(names)]


def test_invalid_escapes_are_translated_without_a_warning(tmp_path: Path) -> None:
    """Patterns of regular expressions have them, and Python would warn at each parse."""
    made = translated(tmp_path, 'PATTERN = "\\d+"\n' + AIRFLOW + "    pass\n")
    assert made is not None
    assert made.report.is_translated


def test_deep_nesting_is_a_finding(tmp_path: Path) -> None:
    """A file that no recursion can walk over is reported, too."""
    made = translated(tmp_path, f"import airflow\nx = {'-' * 3_000}1\n")
    assert made is not None
    assert made.report.findings
