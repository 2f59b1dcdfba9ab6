"""Templates that want time or memory without end: refused where defined, harmless where stored."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter.bundles.importer import ParsedFile
from lamplighter.bundles.parsing import combine
from lamplighter.dags.templates import MACROS, MAX_RENDERED, dated, render
from lamplighter.errors import DefinitionError
from lamplighter.registry.definition import without_refused
from lamplighter.serialization import decode_dag, encode_dag, to_json
from lamplighter.store.models import DagVersions
from lamplighter_local.dag_objects import parsed_dag
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.stack import LocalStack, local_stack
from tests.integration.functions.job_messages import (
    JOB,
    of_run,
    one_task,
    queue_run,
    states,
    submit,
)
from tests.integration.functions.job_messages import step as step_of
from tests.tools.call_counter import counted_calls
from tests.tools.definitions import register_found

NOON = datetime(2026, 1, 5, 12)
HARMLESS = "{{ run_id }}"


def again(text: str, *, times: int) -> str:
    """Return a template that says something over and over."""
    return text * times


# By text alone. Each of these had no end, or none within the time of the function.
HOSTILE = {
    "loop in loop": again("{% for a in range(99999) %}", times=2) + again("{% endfor %}", times=2),
    "product of ranges": again("{% for a in range(100) %}", times=3)
    + again("{% endfor %}", times=3),
    "range of a computed number": "{% for a in range(9 * 9 * 9) %}{% endfor %}",
    "range of a power": "{{ range(9 ** 9 ** 9) | length }}",
    "range of a param": "{% for a in range(params.n) %}{% endfor %}",
    "range in a list": "{{ range(100000) | list }}",
    "loop over a text": "{% for a in run_id %}{% endfor %}",
    "loop over letters": "{% for a in 'abc' | list %}{% endfor %}",
    "loop over a variable": "{% set s = params.list + params.list %}{% for a in s %}{% endfor %}",
    "loop over an interval": "{% for a in data_interval_end - data_interval_start %}{% endfor %}",
    "recursive loop": "{% for a in params.list recursive %}{{ loop(params.list) }}{% endfor %}",
    "power": "{{ 10 ** 10 }}",
    "tower of powers": "{{ 9 ** 9 ** 9 ** 9 }}",
    "repeated text": "{{ 'x' * 3 }}",
    "repeated from the left": "{{ 3 * 'x' }}",
    "repeated list": "{{ [1] * 3 }}",
    "repeated join": "{{ ('a' ~ 'b') * 3 }}",
    "center": "{{ run_id | center(99999999) }}",
    "ljust": "{{ run_id.ljust(99999999) }}",
    "rjust": "{{ run_id.rjust(9) }}",
    "zfill": "{{ run_id.zfill(99999999) }}",
    "expandtabs": "{{ '\t'.expandtabs(99999999) }}",
    "indent": "{{ run_id | indent(99999999) }}",
    "wordwrap": "{{ run_id | wordwrap(1, wrapstring='xxxxxxxxxx') }}",
    "format with a width": "{{ '{:>99999999}'.format(1) }}",
    "format with a computed width": "{{ '{:>{}}'.format(1, 99999999) }}",
    "percent with a width": "{{ '%99999999d' % 1 }}",
    "percent with a computed width": "{{ '%*d' % (99999999, 1) }}",
    "filter format": "{{ '%99999999d' | format(1) }}",
    "translate": "{{ 'a'.translate({97: 'xxxxxxxx'}) }}",
    "batch filled up": "{{ params.list | batch(99999999, 'x') | list }}",
    "slice of nothing": "{{ params.list | slice(99999999) | list }}",
    "method by another name": "{% set f = run_id.ljust %}{{ f(99999999) }}",
    "method as an item": "{{ run_id['ljust'](99999999) }}",
    "method by a filter": "{{ (run_id | attr('ljust'))(99999999) }}",
    "day of no week": "{{ logical_date.next(2.5) }}",
    "day of a far week": "{{ logical_date.nth_of('year', 99999999, 0) }}",
    "days of an interval": "{{ (data_interval_end - logical_date).range('microseconds') | list }}",
    "list of lists": "{% set a = [1] %}" + again("{% set a = [a, a] %}", times=60) + "{{ a }}",
    "mapping of mappings": "{% set a = 1 %}" + again("{% set a = {1: a, 2: a} %}", times=60),
    "stars": "{{ [].index(*params.list) }}",
    "macro": "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "block": "{% block a %}{{ self.a() }}{% endblock %}",
    "call": "{% call params.f() %}x{% endcall %}",
    "set of a block": "{% set a %}x{% endset %}",
    "filter of a block": "{% filter upper %}x{% endfilter %}",
    "with": "{% with a = 1 %}{% endwith %}",
    "namespace": "{% set a = namespace(x=1) %}{% set a.x = 2 %}",
    "include": "{% include 'x' %}",
    "import": "{% import 'x' as x %}",
    "extends": "{% extends 'x' %}",
    "variable of ours": "{% set params = 1 %}",
    "deep": "{{ " + "(" * 60 + "1" + ")" * 60 + " }}{{ " + again("-", times=60) + "1 }}",
    "too deep to be parsed": "{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}",
}
# By what a run is given: the text is in order, and what it asks for is not.
LARGE: dict[str, Any] = {
    "text": "x" * 300_000,
    "list": list(range(50_000)),
    "same": ["aaaa"] * 20_000,
    "n": 99_999_999,
    "small": [1, 2, 3],
}
GREEDY = {
    "all of a large text": "{{ params.text }}",
    "letters of a large text": "{{ params.text | replace('x', 'yyyyyyyy') | length }}",
    "large text for small ones": "{{ 'aaaa' | replace('a', params.text) | length }}",
    "method replace": "{{ params.text.replace('x', 'yyyyyyyy') | length }}",
    "large text between": "{{ params.list | map('string') | join(params.text) | length }}",
    "method join": "{{ params.text.join(params.same) | length }}",
    "doubled": "{% set a = params.text %}" + again("{% set a = a ~ a %}", times=40),
    "added up": "{% set a = 'xx' %}" + again("{% set a = a + a %}", times=60),
    "replaced": "{% set a = 'xx' %}" + again("{% set a = a | replace('x', 'xxxx') %}", times=60),
    "joined": "{% set a = 'xx' %}" + again("{% set a = a | join(a) %}", times=60),
    "formatted": "{% set a = 'xx' %}" + again("{% set a = '{0}{0}'.format(a) %}", times=60),
    "percent": "{% set a = 'xx' %}" + again("{% set a = '%s%s' % (a, a) %}", times=60),
    "lists": "{% set a = params.small %}" + again("{% set a = a + a %}", times=60),
    "product": "{% set a = 9 %}" + again("{% set a = a * a %}", times=60),
    "sum": "{% set a = params.n * params.n %}" + again("{% set a = a * a + a %}", times=60),
    "repeated": "{{ params.n * params.text }}",
    "computed format": "{{ ('{:' ~ params.n ~ '}').format(1) }}",
    "computed percent": "{{ ('%' ~ params.n ~ 'd') % 1 }}",
    "product of lists": again("{% for a in params.list %}", times=3)
    + again("{% endfor %}", times=3),
    "product of a list": "{% for a in params.list %}{{ params.text in params.text }}{% endfor %}",
    "body of a loop": "{% for a in params.list %}"
    + "{% if a or 1 %}{% endif %}" * 300
    + "{% endfor %}",
    "output of a loop": "{% for a in params.list %}" + "x" * 100 + "{% endfor %}",
    "sorted": again("{{ params.list | sort | first }}", times=200),
    "compared": again("{{ params.text == params.text ~ 'x' }}", times=200),
    "searched": again("{{ params.same.count('aaab') }}", times=200),
    "long search": "{{ params.text.count('y' ~ params.text) }}",
    "long path": "{{ params.list | map(attribute='" + "a." * 4_000 + "a', default=1) | list }}",
    "tested for all": "{{ params.list | select('in', params.list) | list }}",
    "indented": "{{ params.small | tojson(indent=params.n) }}",
    "sum of lists": "{{ [params.list, params.list] | sum(start=[]) | length }}",
    "rounded up": "{{ 1.5 | round(params.n, 'ceil') }}",
    "rounded down": "{{ params.n | round(-99999999) < 1 and params.n * params.text }}",
    "days of all time": "{{ (logical_date - logical_date.subtract(years=2000)) | list }}",
    "format of a date": "{{ macros.ds_format(ds, params.text, '%Y') }}",
}


def names(**params: Any) -> dict[str, Any]:
    """Return the variables of a dated run."""
    start, end = NOON, NOON.add(days=1)
    return {**dated(start, start, end), "macros": MACROS, "params": params, "run_id": "run"}


def defined(text: str) -> DAG:
    """Return a DAG with a template that nobody has looked at."""
    with DAG("dag") as dag:
        SparkTask("t", job=JOB, arguments=[text])
    return dag


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_template_is_refused_where_it_is_defined(text: str) -> None:
    """It has no document, so no sandbox answers with it, and the author is told in one line."""
    with pytest.raises(DefinitionError) as caught:
        encode_dag(defined(text))
    assert "DAG 'dag': tasks: task 't': arguments: " in str(caught.value)
    assert "\n" not in str(caught.value)


def forged(text: str) -> dict[str, Any]:
    """Return what a sandbox would answer that did not look at a template."""
    found = parsed_dag(defined(HARMLESS))
    document = json.loads(to_json(found["document"]).replace(HARMLESS, "HERE"))
    document["tasks"][0]["arguments"] = [text]
    return {**found, "document": document}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_template_of_a_forged_document_is_refused(text: str) -> None:
    """What the sandbox says is verified: an author's code may have tampered with it."""
    (problem,) = without_refused(combine([ParsedFile("dags/a.py", dags=[forged(text)])])).errors
    assert "task 't': arguments: " in problem.message


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_template_that_is_stored_can_still_be_read(text: str) -> None:
    """A run of an earlier definition must end, so its document is not refused as a whole."""
    assert decode_dag(forged(text)["document"]).tasks["t"].options()["arguments"] == (text,)


@pytest.mark.parametrize("text", [*HOSTILE.values(), *GREEDY.values()], ids=[*HOSTILE, *GREEDY])
def test_hostile_template_that_is_rendered_ends_with_an_error(text: str) -> None:
    """Wherever it came from, and whatever it is given, rendering ends soon and in one line."""
    with pytest.raises(DefinitionError) as caught:
        render(text, names(**LARGE), what="task 't': arguments")
    assert str(caught.value).startswith("task 't': arguments: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1_500


# Pieces of templates: whatever is put together from them ends, within the limit of its output.
_VALUES = st.sampled_from(
    ["params.text", "params.list", "params.same", "params.n", "params.small", "ds", "7", "'a'", "a"]
)
_ENDS = st.sampled_from(
    """
    |length |list |string |upper |sort |join('x') |join(params.text) |replace('x',params.text)
    |map('string') |map('upper')|list |unique|list |tojson |sum |max |first |last |int |round(9)
    |reverse|list |urlencode |truncate(9999) |select('eq',a)|list .split('a') .count('a')
    .replace('a','bb') [:9] [::-1] .join(params.small|map('string'))
    """.split()  # noqa: SIM905 - as they are written
)
_OPERATORS = st.sampled_from(["+", "~", "*", "//", "%", "-", "==", "in", "<", "and", "or"])
_expressions = st.recursive(
    _VALUES,
    lambda inner: st.one_of(
        st.builds("({}{})".format, inner, _ENDS),
        st.builds("({} {} {})".format, inner, _OPERATORS, inner),
        st.builds("[{}, {}]".format, inner, inner),
    ),
    max_leaves=8,
)
_statements = st.one_of(
    _expressions.map("{{{{ {} }}}}".format),
    _expressions.map("{{% set a = {} %}}".format),
    _expressions.map("{{% for a in params.small %}}{{{{ {} }}}}{{% endfor %}}".format),
    st.just("{% set a = a ~ a %}{% set a = a ~ a %}"),
)


@given(st.lists(_statements, max_size=12))
def test_random_template_ends_within_its_limits(statements: list[str]) -> None:
    """Rendering gives a text of at most 64 KB or a `DefinitionError`, and no other kind."""
    text = "{% set a = 'a' %}" + "".join(statements)
    try:
        rendered = render(text, names(**LARGE), what="task 't': arguments")
    except DefinitionError:
        return
    assert len(rendered.encode()) <= MAX_RENDERED


# In a batch of `submit`.


@pytest.fixture(scope="module")
def deployment() -> Iterator[tuple[LocalStack, FakeEmr]]:
    """Yield a deployment whose jobs run on a fake EMR Serverless."""
    emr = FakeEmr()
    with local_stack(at=NOON, on=emr) as stack:
        yield stack, emr


def store_hostile(text: str, dag_id: str) -> None:
    """Put a template into the stored document of a DAG, as an earlier version might have."""
    version = DagVersions.get(dag_id, "000001")
    text_now = version.document or gzip.decompress(version.document_gzip or b"").decode()
    document = json.loads(text_now)
    for task in document["tasks"]:
        task["arguments"] = [text if each == HARMLESS else each for each in task["arguments"]]
    version.document, version.document_gzip = None, gzip.compress(to_json(document).encode())
    version.save()


@pytest.mark.parametrize("kind", [*HOSTILE, *GREEDY])
def test_hostile_template_fails_its_own_step_only(
    deployment: tuple[LocalStack, FakeEmr], kind: str
) -> None:
    """The run's other step starts, as do the other runs of the batch, before and after it."""
    stack, emr = deployment
    bad, first, last = (f"{name}-{kind.replace(' ', '-')}" for name in ("bad", "first", "last"))
    with DAG(bad, params=LARGE) as dag:
        SparkTask("a", job=JOB)
        SparkTask("b", job=JOB, arguments=[HARMLESS], retries=3)
    queue_run(one_task(first), dag, one_task(last))
    store_hostile({**HOSTILE, **GREEDY}[kind], bad)

    assert submit(of_run(first), of_run(bad), of_run(last)) == []

    assert [job.dag for job in emr.jobs[-3:]] == [first, bad, last]
    assert states(stack, bad) == ["running", "submitted", "failed"]
    assert (step_of("b", bad).error or "").startswith("task 'b': arguments: ")


# What `check` says about a template that is only wrong.


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{ dss }}", "'dss' is not a variable of templates; did you mean ds?"),
        ("{{ execution_date }}", "'execution_date' is gone: write logical_date"),
        ("{{ param.x }}", "'param' is not a variable of templates; did you mean params?"),
        ("{{ ds | upperx }}", "there is no filter 'upperx' in templates; did you mean upper?"),
        ("{{ ds is definedx }}", "there is no test 'definedx' in templates; did you mean defined?"),
        ("{{ ds.upperx() }}", "there is no method 'upperx' in templates; did you mean upper?"),
        (
            "{{ macros.ds_ad(ds, 1) }}",
            "there is no macro 'ds_ad' in templates; did you mean ds_add?",
        ),
        ("{{ ds", "unexpected end of template"),
    ],
)
def test_misspelt_template_is_an_error_with_a_hint(text: str, problem: str) -> None:
    """A name that nothing gives a value never reaches a run."""
    with pytest.raises(DefinitionError, match="task 't': arguments") as caught:
        encode_dag(defined(text))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "text", ["{{ x | default('y') }}", "{% if x is defined %}{{ 1 }}{% endif %}"]
)
def test_name_that_may_be_missing_is_no_error(text: str) -> None:
    """Who provides for a name without a value may use it."""
    assert encode_dag(defined(text))["dag_id"] == "dag"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{ params.day }}", "has no attribute 'day'"),
        ("{{ ds | ds }}", "cannot"),
        ("{{ logical_date.add(dayz=1) }}", "dayz"),
        ("{{ params.day }}{{ conf.x }}", None),
        ("{{ triggering_asset_events['a'][0].extra.day }}", None),
        ("{{ params.known }} {{ ds }} {{ ti.try_number }}", None),
    ],
)
def test_template_that_fails_with_sample_values_is_a_warning(
    text: str, problem: str | None
) -> None:
    """What a run is given may put it right; a template of what is unknown is not tried."""
    with DAG("dag", params={"known": 1}) as dag:
        SparkTask("t", job=JOB, arguments=[text])
    report = without_refused(combine([ParsedFile("dags/a.py", dags=[parsed_dag(dag)])]))

    assert report.errors == ()
    found = [warning.message for warning in report.warnings]
    assert len(found) == (problem is not None)
    assert all(str(problem) in message or "with sample values" in message for message in found)


def test_push_of_a_hostile_template_starts_no_job_and_asks_for_nothing(
    deployment: tuple[LocalStack, FakeEmr],
) -> None:
    """`register` refuses the DAG of a sandbox that was deceived, and registers the other one."""
    with counted_calls() as calls:
        report = register_found(
            {
                "dags/a.py": [forged(HOSTILE["loop in loop"])],
                "dags/b.py": [parsed_dag(one_task("good"))],
            },
            "deceived",
        )
    assert report.new == ["good"]
    assert [problem.file for problem in report.errors] == ["dags/a.py"]
    assert calls["StartJobRun"] == 0
