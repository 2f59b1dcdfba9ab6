"""The `@dag` decorator: a function that makes a DAG."""

from datetime import datetime

import pytest

from lamplighter import DAG, SparkTask, dag
from lamplighter.errors import DefinitionError
from lamplighter.timetables.interval import CronDataIntervalTimetable

START = datetime(2024, 1, 1)


def test_function_decorated_barely_names_dag() -> None:
    """Without parentheses, the DAG is called like the function."""

    @dag
    def orders() -> None:
        SparkTask("load", job="jobs.a:run")

    made = orders()
    assert isinstance(made, DAG)
    assert (made.dag_id, list(made.tasks)) == ("orders", ["load"])


def test_function_decorated_with_options_passes_them() -> None:
    """The options of the decorator are those of the DAG."""

    @dag(schedule="@hourly", start_date=START, tags=["x"], default_args={"retries": 2})
    def orders() -> None:
        SparkTask("load", job="jobs.a:run")

    made = orders()
    assert made.timetable == CronDataIntervalTimetable("@hourly", "UTC")
    assert (made.tags, made.tasks["load"].retries) == (("x",), 2)


@pytest.mark.parametrize("by_keyword", [True, False])
def test_function_decorated_with_id_obeys(by_keyword: bool) -> None:
    """The id may be given, by position or by keyword."""

    @(dag(dag_id="orders.daily") if by_keyword else dag("orders.daily"))
    def orders() -> None:
        """Nothing to do."""

    assert orders().dag_id == "orders.daily"


def test_function_with_empty_parentheses_names_dag() -> None:
    """Empty parentheses are the same as none."""

    @dag()
    def orders() -> None:
        """Nothing to do."""

    assert orders().dag_id == "orders"


def test_docstring_of_function_becomes_documentation() -> None:
    """The docstring documents the DAG unless `doc_md` does."""

    def orders() -> None:
        """Loads orders."""

    assert dag(orders)().doc_md == "Loads orders."
    assert dag(doc_md="# Orders")(orders)().doc_md == "# Orders"


def test_function_called_with_arguments_gets_them() -> None:
    """A decorated function may have arguments, to make its tasks from."""

    @dag
    def orders(*names: str, retries: int = 0) -> None:
        for name in names:
            SparkTask(name, job="jobs.a:run", retries=retries)

    made = orders("a", "b", retries=3)
    assert [task.retries for task in made.tasks.values()] == [3, 3]


def test_function_called_twice_makes_two() -> None:
    """Each call makes a DAG of its own, equal to the others."""

    @dag
    def orders() -> None:
        SparkTask("load", job="jobs.a:run")

    first, second = orders(), orders()
    assert first is not second
    assert first == second


def test_function_decorated_keeps_its_face() -> None:
    """The decorated function still has its name and docstring."""

    @dag("other")
    def orders() -> None:
        """Loads orders."""

    assert (orders.__name__, orders.__doc__) == ("orders", "Loads orders.")


def test_decorator_with_wrong_option_names_dag() -> None:
    """A wrong option is named together with the DAG when the function is called."""

    @dag(schedule_interval="@daily")
    def orders() -> None:
        """Nothing to do."""

    with pytest.raises(DefinitionError, match="DAG 'orders': schedule_interval: "):
        orders()


def test_function_that_makes_a_cycle_fails() -> None:
    """What the body defines is judged when it has ended."""

    @dag
    def orders() -> None:
        one, other = (SparkTask(name, job="jobs.a:run") for name in "ab")
        one >> other >> one

    with pytest.raises(DefinitionError, match=r"DAG 'orders': tasks: .*cycle"):
        orders()


def test_function_that_fails_closes_its_dag() -> None:
    """An error in the body is the author's own, and no DAG stays open."""

    @dag
    def orders() -> None:
        raise KeyError("author")

    with pytest.raises(KeyError, match="author"):
        orders()
    with pytest.raises(DefinitionError, match="belongs to no DAG"):
        SparkTask("load", job="jobs.a:run")
