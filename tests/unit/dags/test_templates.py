"""Templates: the names they know, what they refuse, and that nobody gets out."""

from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter.dags import templates
from lamplighter.dags.templates import MACROS, MAX_RENDERED, MAX_TEMPLATE, dated, render
from lamplighter.errors import DefinitionError

START = datetime(2026, 1, 30, 6)
END = datetime(2026, 1, 31, 6)
DATED: dict[str, Any] = {
    **dated(START, START, END),
    "macros": MACROS,
    "params": {"x": 5, "list": [1, 2]},
    "run_id": "scheduled__2026-01-30T06:00:00+00:00",
}
UNDATED: dict[str, Any] = {**dated(None, None, None), "macros": MACROS, "params": {}}


def fill(text: str, names: dict[str, Any] = DATED) -> str:
    """Return a template filled in."""
    return render(text, names, what="task 'load': arguments")


def problem(text: str, names: dict[str, Any] = DATED) -> str:
    """Return the error that a template gives."""
    with pytest.raises(DefinitionError) as caught:
        fill(text, names)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ ds }}", "2026-01-30"),
        ("{{ ds_nodash }}", "20260130"),
        ("{{ ts }}", "2026-01-30T06:00:00+00:00"),
        ("{{ ts_nodash }}", "20260130T060000"),
        ("{{ ts_nodash_with_tz }}", "20260130T060000+0000"),
        ("{{ next_ds }}", "2026-01-31"),
        ("{{ next_ds_nodash }}", "20260131"),
        ("{{ logical_date }}", "2026-01-30T06:00:00+00:00"),
        ("{{ data_interval_start }}", "2026-01-30T06:00:00+00:00"),
        ("{{ data_interval_end }}", "2026-01-31T06:00:00+00:00"),
        ("{{ data_interval_end | ds }}", "2026-01-31"),
        ("{{ data_interval_end | ds_nodash }}", "20260131"),
        ("{{ data_interval_end | ts }}", "2026-01-31T06:00:00+00:00"),
        ("{{ data_interval_end | ts_nodash }}", "20260131T060000"),
        ("{{ data_interval_end | ts_nodash_with_tz }}", "20260131T060000+0000"),
        ("{{ logical_date.add(days=1) | ds }}", "2026-01-31"),
        ("{{ logical_date.add(days=1) }}", "2026-01-31T06:00:00+00:00"),
        ("{{ data_interval_start.strftime('%H') }}", "06"),
        ("{{ (logical_date - macros.timedelta(hours=7)) | ds }}", "2026-01-29"),
        ("{{ macros.ds_add(ds, -30) }}", "2025-12-31"),
        ("{{ macros.ds_add('2024-02-28', 1) }}", "2024-02-29"),
        ("{{ macros.ds_format(ds, '%Y-%m-%d', '%d.%m.%y') }}", "30.01.26"),
        ("{{ params.x }}/{{ params['x'] }}", "5/5"),
        ("{% for each in params.list %}[{{ each }}]{% endfor %}", "[1][2]"),
        ("{{ run_id | replace(':', '') }}", "scheduled__2026-01-30T060000+0000"),
        ("s3://lake/{{ ds }}/{{ params.x * 2 }}", "s3://lake/2026-01-30/10"),
        ("{{ params.x * 3 // 2 - 1 }}", "6"),
        ("{{ macros.timedelta(hours=6) * 2 }}", "12:00:00"),
        ("{{ '%s-%02d' % (ds, params.x) }}", "2026-01-30-05"),
        ("{{ '{:03d}/{}'.format(params.x, ds) }}", "005/2026-01-30"),
        ("{{ {'day': ds, 'n': params.x} | tojson }}", '{"day": "2026-01-30", "n": 5}'),
        ("{{ params.list | map('string') | join(',') }}", "1,2"),
        ("{{ params.get('z', 'none') }}", "none"),
        ("{% set day = logical_date.add(days=1) %}{{ day | ds }}", "2026-01-31"),
        ("{% for n in range(3) %}{% if not loop.first %},{% endif %}{{ n }}{% endfor %}", "0,1,2"),
        ("{% for k, v in params.items() if k == 'list' %}{{ v | sum }}{% endfor %}", "3"),
        (
            "{% for f in ['a', 'b'] %}{% for n in params.list %}{{ f~n }}{% endfor %}{% endfor %}",
            "a1a2b1b2",
        ),
        ("{{ range(1, 4) | join('-') }} {{ [params.x, 7] | max }}", "1-2-3 7"),
        ("{# a remark #}{{ params.y | default('none') }}", "none"),
    ],
)
def test_template_of_a_dated_run_is_filled_in(text: str, expected: str) -> None:
    """The names, filters and macros of a dated run give what Airflow's give."""
    assert fill(text) == expected


def test_text_without_braces_stays_as_it_is() -> None:
    """What is no template is not touched, whatever else is in it, and however long it is."""
    text = "50% of $x }} #} 'quoted'\n" * 10_000
    assert fill(text) == text


def test_end_of_template_keeps_its_newline() -> None:
    """Whoever ends a template with a newline and wants it gone must say so, as in Jinja."""
    assert fill("{{ ds }}x") == "2026-01-30x"


def test_datetime_of_another_zone_prints_its_offset() -> None:
    """An instant prints as ISO in the form that is used everywhere, never as Python writes it."""
    text = fill("{{ logical_date.in_timezone('Europe/Zurich') }}")
    assert " " not in text
    assert text in {"2026-01-30T07:00:00+01:00", "2026-01-30T06:00:00+00:00"}


# What is not there.

NAMES_OF_DATES = [
    "logical_date",
    "data_interval_start",
    "data_interval_end",
    "ds",
    "ds_nodash",
    "ts",
    "ts_nodash",
    "ts_nodash_with_tz",
    "next_ds",
    "next_ds_nodash",
]


@pytest.mark.parametrize("name", NAMES_OF_DATES)
@pytest.mark.parametrize("form", ["{{{{ {} }}}}", "{{{{ {} | upper }}}}", "{{{{ {} ~ 'x' }}}}"])
def test_date_in_an_undated_run_is_a_clear_error(name: str, form: str) -> None:
    """Without a logical date the error says so, and what to use instead."""
    text = problem(form.format(name), UNDATED)

    assert text.startswith("task 'load': arguments: ")
    assert f"{name!r} has no value, because the run has no logical date" in text
    assert "dag_run.run_after" in text


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("execution_date", "logical_date"),
        ("next_execution_date", "data_interval_end"),
        ("prev_execution_date", "data_interval_start"),
        ("prev_ds", "macros.ds_add(ds, -1)"),
        ("prev_ds_nodash", "macros.ds_add(ds, -1)"),
        ("tomorrow_ds", "macros.ds_add(ds, 1)"),
        ("tomorrow_ds_nodash", "macros.ds_add(ds, 1)"),
        ("yesterday_ds", "macros.ds_add(ds, -1)"),
        ("yesterday_ds_nodash", "macros.ds_add(ds, -1)"),
        ("conn", "a secret"),
    ],
)
@pytest.mark.parametrize("names", [DATED, UNDATED], ids=["dated", "undated"])
def test_name_that_airflow_dropped_names_its_successor(
    name: str, instead: str, names: dict[str, Any]
) -> None:
    """An old name is an error that says what to write."""
    text = problem(f"{{{{ {name} }}}}", names)

    assert f"{name!r} is gone: write " in text
    assert instead in text


def test_replacements_of_dropped_names_are_right() -> None:
    """What the errors tell an author to write works."""
    assert fill("{{ macros.ds_add(ds, -1) | replace('-', '') }}") == "20260129"
    assert fill("{{ macros.ds_add(ds, 1) }}") == "2026-01-31"
    assert fill("{{ data_interval_start.subtract(days=1) | ds }}") == "2026-01-29"


@pytest.mark.parametrize(
    "text",
    [
        "{{ nope }}",
        "{{ params.nope }}",
        "{{ params['nope'] }}",
        "{{ params.x.nope.deeper }}",
        "{% if nope %}x{% endif %}",
        "{% for each in nope %}x{% endfor %}",
        "{{ nope is none }}{{ nope }}",
        "{{ nope == 5 }}",
        "{{ [nope] | join }}",
    ],
)
def test_name_without_a_value_is_an_error(text: str) -> None:
    """A name that is misspelt never becomes an empty text."""
    assert "nope" in problem(text)


def test_error_of_template_names_task_and_text() -> None:
    """The error says where the template is, what it is, and what is wrong."""
    text = problem("--day {{ dss }}")
    assert text == "task 'load': arguments: '--day {{ dss }}': 'dss' is undefined"


@pytest.mark.parametrize("text", ["{{ params.ds }}", "{{ params.execution_date }}"])
def test_missing_param_is_not_explained_by_the_runs_dates(text: str) -> None:
    """A parameter that happens to have the name of a date is simply not there."""
    assert "has no attribute" in problem(text)


@pytest.mark.parametrize(
    "text",
    [
        "{{ }}",
        "{{ ds",
        "{% if %}",
        "{% for x in %}",
        "{{ ds | nope }}",
        "{% do 1 %}",
        "{% include 'x' %}",
        "{% extends 'x' %}",
        "{% import 'x' as y %}",
        "{{ 1 / 0 }}",
        "{{ 'a' + 1 }}",
        "{{ ''.join([1]) }}",
        "{{ 'a'.index('b') }}",
        "{{ '{}'.format() }}",
        "{{ '{x}'.format() }}",
        "{{ '%d' % 'a' }}",
        "{{ ''.encode('nope') }}",
        "{{ ds | ds }}",
        "{{ '' | dictsort }}",
        "{{ 5 | slice(0) | list }}",
        "{{ logical_date | tojson }}",
        "{{ logical_date.in_timezone('Nowhere/Never') }}",
        "{{ logical_date.add(years=100000) }}",
        "{{ macros.timedelta(days=10000000000) }}",
        "{{ macros.ds_add('yesterday', 1) }}",
        "{{ macros.ds_add(ds, 'one') }}",
        "{{ macros.ds_add(ds, 100000000) }}",
        "{{ macros.ds_format('x', '%Y', '%Y') }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ " + "(" * 4_000 + "1" + ")" * 4_000 + " }}",
        "{{ " + "not " * 2_000 + "1 }}",
        "{% for a in range(2) %}" * 25 + "x" + "{% endfor %}" * 25,
        "{{ cycler().next() }}",
    ],
    ids=lambda text: text[:30],
)
def test_template_that_cannot_be_filled_in_is_one_clear_error(text: str) -> None:
    """Bad syntax, bad types and bad values are the author's error, and no other kind."""
    assert problem(text).startswith("task 'load': arguments: ")


# Out of the sandbox.


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ ''['__class__'] }}",
        "{{ ''|attr('__class__') }}",
        "{{ ().__class__.__base__.__subclasses__() }}",
        "{{ logical_date.__class__ }}",
        "{{ logical_date.__reduce__() }}",
        "{{ logical_date.tzinfo.__init__ }}",
        "{{ macros.ds_add.__globals__ }}",
        "{{ macros.ds_add.__code__ }}",
        "{{ macros.timedelta.__subclasses__() }}",
        "{{ macros.timedelta.mro() }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ lipsum.__globals__ }}",
        "{{ self.__init__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ '{x.__class__}'.format_map({'x': 1}) }}",
        "{% set f = '{0.__class__.__mro__}'.format %}{{ f(1) }}",
        "{{ [1] | map(attribute='__class__') | join }}",
        "{{ ''.__init_subclass__() }}",
        "{{ params.__setitem__('x', 1) }}",
        "{{ (1).__add__(2) }}",
    ],
)
def test_way_out_of_the_sandbox_is_shut(text: str) -> None:
    """No attribute that leads to Python's insides can be read."""
    problem(text)


@pytest.mark.parametrize(
    "text",
    [
        "{{ params.update(x=6) }}",
        "{{ params.pop('x') }}",
        "{{ params.clear() }}",
        "{{ params.setdefault('y', 1) }}",
        "{{ params.list.append(3) }}",
        "{{ params.list.sort() }}",
        "{% set params.x = 6 %}",
        "{{ macros.update(ds_add=1) }}",
    ],
)
def test_template_that_changes_what_it_was_given_is_refused(text: str) -> None:
    """One template cannot change what the next one sees."""
    names = {**DATED, "params": {"x": 5, "list": [1, 2]}, "macros": dict(MACROS)}

    problem(text, names)

    assert names["params"] == {"x": 5, "list": [1, 2]}
    assert names["macros"] == dict(MACROS)


@pytest.mark.parametrize(
    "text",
    [
        "{{ 10 ** 10000 }}",
        "{{ 10 ** (10 ** 10) }}",
        "{{ ((10 ** 100) ** 100) ** 20 > 1 }}",
        "{{ 'a' * 20000000 }}",
        "{{ 20000000 * 'a' }}",
        "{{ ('a' * 20000000) | length }}",
        "{{ '%20000000d' % 1 }}",
        "{{ '{:>20000000}'.format(1) }}",
        "{{ 'a'.ljust(20000000) }}",
        "{{ 'a' | center(20000000) }}",
        "{{ ('a' * 10000) * 10000 * 10000 }}",
        "{{ ('ab' * 10000) * 2 }}",
        "{{ [1] * 10000 * 2 * 10000 * 10000 }}",
        "{{ range(100001) | list }}",
        "{{ range(0, 1000000000) | list }}",
        "{% for a in range(99999) %}{{ 'xx' }}{% endfor %}",
    ],
)
def test_template_that_would_fill_the_memory_is_refused(text: str) -> None:
    """Huge powers, products, repetitions and ranges end before they begin."""
    problem(text)


def test_template_that_is_too_long_is_refused() -> None:
    """A template has its limit, and one at the limit passes."""
    assert "at most 10,000 characters" in problem("{{ ds }}".ljust(MAX_TEMPLATE + 1))
    assert fill("{{ ds }}".ljust(MAX_TEMPLATE)).startswith("2026-01-30")


def test_template_that_becomes_too_long_is_refused() -> None:
    """What a template becomes has its limit, too."""
    names = {"text": "x" * MAX_RENDERED}
    assert len(fill("{{ text }}", names)) == MAX_RENDERED
    assert "becomes more than 65,536 bytes" in problem("{{ text }}y", names)
    assert "becomes more than" in problem("{{ text }}", {"text": "é" * (MAX_RENDERED - 1)})


def test_error_of_a_long_template_stays_short() -> None:
    """An error quotes the beginning of a template only."""
    assert len(problem("{{ nope }}" + "x" * 9_000)) < 400


def test_text_that_many_tasks_have_is_parsed_once_when_it_is_checked() -> None:
    """A push of a thousand DAGs that are alike costs no more than one; an error is told to each."""
    for text, says in (("{{ ds }} of many tasks", None), ("{{ dss }} of many", "did you mean ds?")):
        with patch.object(templates, "_parsed", wraps=templates._parsed) as parsed:
            for number in range(3):
                with DAG(f"dag{number}") as dag:
                    SparkTask("t", job="jobs.x:main", arguments=[text])
                if says is None:
                    dag.check_limits()
                    continue
                with pytest.raises(DefinitionError, match=f"DAG 'dag{number}': .*{says[:-1]}"):
                    dag.check_limits()
        assert parsed.call_count == 1
