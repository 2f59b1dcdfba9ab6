"""Task groups: ids, defaults, links to what is in them, and what is refused."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lamplighter import DAG, PythonTask, SparkTask, TaskGroup, chain
from lamplighter.errors import DefinitionError

Link = Callable[[Any], object]
WRONG: Any = [1]
LOAD: Any = "load"


def task(task_id: str, **options: Any) -> PythonTask:
    """Return a task of the open DAG."""
    return PythonTask(task_id, job="jobs.a:run", **options)


def edges(dag: DAG) -> str:
    """Return what a DAG's tasks wait for, as in `a>b`; known from both ends."""
    down = {f"{t.task_id}>{other}" for t in dag.tasks.values() for other in t.downstream_task_ids}
    up = {f"{other}>{t.task_id}" for t in dag.tasks.values() for other in t.upstream_task_ids}
    assert down == up
    return " ".join(sorted(down))


def groups(dag: DAG) -> dict[str, tuple[str, ...]]:
    """Return the groups of each task."""
    return {task_id: task.group_ids for task_id, task in dag.tasks.items()}


# Ids.


def test_tasks_of_a_group_have_its_prefix() -> None:
    """In groups of groups the prefixes add up; tasks outside have none."""
    with DAG("orders") as dag:
        task("start")
        with TaskGroup("load"):
            task("a")
            with TaskGroup("checks"):
                task("b")
        task("end")
    assert groups(dag) == {
        "start": (),
        "load.a": ("load",),
        "load.checks.b": ("load", "load.checks"),
        "end": (),
    }


def test_group_without_prefix_still_has_its_tasks() -> None:
    """It adds nothing to the ids of its tasks and groups; its own may have a prefix."""
    with DAG("orders") as dag, TaskGroup("load"), TaskGroup("plain", prefix_group_id=False):
        task("a")
        with TaskGroup("inner"):
            task("b")
    assert groups(dag) == {
        "a": ("load", "load.plain"),
        "inner.b": ("load", "load.plain", "inner"),
    }


def test_group_of_another_dag_does_not_take_the_task() -> None:
    """A task with a DAG of its own, and a DAG inside the block, are in no group."""
    other = DAG("other")
    with DAG("orders"), TaskGroup("load"):
        task("a", dag=other)
        with DAG("third") as third:
            task("a")
    assert groups(other) == groups(third) == {"a": ()}


def test_group_joins_the_parent_and_the_dag_it_is_given() -> None:
    """Neither needs an open block, and a block can be opened again."""
    dag = DAG("orders")
    outer = TaskGroup("outer", dag=dag)
    with TaskGroup("inner", parent_group=outer) as inner:
        task("a")
    with inner:
        task("b")
    assert set(groups(dag)) == {"outer.inner.a", "outer.inner.b"}
    assert inner.parent_group is outer


def test_block_that_fails_is_closed() -> None:
    """What is made afterwards is not in the group."""
    with DAG("orders") as dag:
        with pytest.raises(KeyError), TaskGroup("load"):
            raise KeyError
        task("a")
    assert groups(dag) == {"a": ()}


def test_suffix_is_added_to_an_id_that_is_taken() -> None:
    """It is a number that no group has; a suffix takes the place of one that is there."""
    with DAG("orders"):
        task("load")
        found = [TaskGroup(name, add_suffix_on_collision=True).group_id for name in ("load",) * 3]
        found.append(TaskGroup("load__1", add_suffix_on_collision=True).group_id)
        found.append(TaskGroup("free", add_suffix_on_collision=True).group_id)
    assert found == ["load__1", "load__2", "load__3", "load__4", "free"]


def test_look_of_a_group_has_no_effect() -> None:
    """What Airflow shows on its page is accepted."""
    look = {"tooltip": "t", "ui_color": "red", "ui_fgcolor": "#000", "group_display_name": "G"}
    with DAG("orders") as dag, TaskGroup("g", **look):  # type: ignore[arg-type] # all are texts
        task("a")
    assert groups(dag) == {"g.a": ("g",)}


# Defaults.


def test_defaults_of_the_innermost_win_and_the_tasks_own_over_all() -> None:
    """DAG, group, group in it, task: each has what the one before has and it does not."""
    with DAG("orders", default_args={"retries": 1, "priority_weight": 1, "pool": "dag"}) as dag:
        with TaskGroup("outer", default_args={"retries": 2, "priority_weight": 2}):
            with TaskGroup("inner", default_args={"retries": 3}):
                task("a")
                task("b", retries=4)
            task("c")
        task("d")
    assert [(t.retries, t.priority_weight, t.pool) for t in dag.tasks.values()] == [
        (3, 2, "dag"),
        (4, 2, "dag"),
        (2, 2, "dag"),
        (1, 1, "dag"),
    ]


def test_default_of_another_kind_is_left_to_that_kind() -> None:
    """As for a DAG, tasks take what they know."""
    with DAG("orders") as dag, TaskGroup("g", default_args={"driver_cores": 2}):
        task("a")
        SparkTask("b", job="jobs.a:run")
    assert isinstance(spark := dag.tasks["g.b"], SparkTask)
    assert spark.driver_cores == 2


def test_default_without_effect_is_told() -> None:
    """What no task knows is a warning that names the group."""
    with (
        DAG("orders"),
        pytest.warns(
            UserWarning, match=r"DAG 'orders': task group 'g': default_args: 'email'"
        ) as w,
    ):
        TaskGroup("g", default_args={"email": "a@b", "retries": 1})
    assert w[0].filename == __file__


# Links.


def linked(link: Link) -> str:
    """Return the edges of two groups, of which the first has an order inside, and two tasks."""
    with DAG("orders") as dag:
        with TaskGroup("g", prefix_group_id=False) as one:
            first, *rest = task("a"), task("b"), task("c")
            first >> rest
        with TaskGroup("h", prefix_group_id=False) as two, TaskGroup("i", prefix_group_id=False):
            task("d") >> task("e")
        link(SimpleNamespace(g=one, h=two, x=task("x"), y=task("y")))
    return edges(dag).replace("a>b a>c ", "").replace("d>e", "").strip()


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (lambda t: t.g >> t.h, "b>d c>d"),
        (lambda t: t.h << t.g, "b>d c>d"),
        (lambda t: t.x >> t.g >> t.h >> t.y, "b>d c>d  e>y x>a"),
        (lambda t: t.y << t.h << t.g << t.x, "b>d c>d  e>y x>a"),
        (lambda t: t.x >> [t.g, t.h] >> t.y, "b>y c>y  e>y x>a x>d"),
        (lambda t: [t.x, t.y] >> t.g, "x>a y>a"),
        (lambda t: [t.x, t.g] << t.y, "y>a y>x"),
        (lambda t: chain(t.x, t.g, [t.h, t.y]), "b>d b>y c>d c>y  x>a"),
        (lambda t: chain([t.g, t.x], [t.h, t.y]), "b>d c>d  x>y"),
    ],
)
def test_links_of_groups_are_links_of_their_ends(link: Link, expected: str) -> None:
    """What comes before a group is before its roots; what comes after it, after its leaves."""
    assert linked(link) == expected


def test_task_made_after_the_link_is_not_linked() -> None:
    """A link is to what is in the group at that moment, as in Airflow."""
    with DAG("orders") as dag:
        with TaskGroup("g") as group:
            task("a")
        task("x") >> group
        with group:
            task("b")
    assert edges(dag) == "x>g.a"


def test_cycle_through_a_group_is_refused() -> None:
    """With the ids along it."""
    dag = DAG("orders")
    with TaskGroup("g", dag=dag) as group:
        task("a")
    x = task("x", dag=dag)
    x >> group >> x
    with pytest.raises(DefinitionError, match=r"cycle: g\.a >> x >> g\.a"):
        dag.validate()


# What is refused.


def nested(**options: Any) -> object:
    """Make a group in a group of another DAG."""
    return TaskGroup("g", parent_group=TaskGroup("p", dag=DAG("other")), dag=DAG("d"), **options)


def across_dags() -> object:
    """Link groups of two DAGs."""
    made = []
    for dag_id in ("one", "two"):
        with DAG(dag_id), TaskGroup("g") as group:
            task("a")
        made.append(group)
    return made[0] >> made[1]


def within(make: Callable[[], object], **options: Any) -> Callable[[], object]:
    """Return a function that makes something in a DAG with a task and a group `load`."""

    def made() -> object:
        with DAG("d", **options), TaskGroup("load") as group:
            task("a")
        with group.dag:
            return make()

    return made


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TaskGroup("g"), "task group 'g' belongs to no DAG: write it inside"),
        (nested, "DAG 'd': task group 'g': parent_group 'p' is of another DAG"),
        (across_dags, r"'g\.a' of DAG 'one' cannot be linked to task 'g\.a' of DAG 'two'"),
        (within(lambda: TaskGroup("load")), "a task or a group with the id 'load' already"),
        (within(lambda: task("load")), "a task and a group have the same id 'load'"),
        (within(lambda: task("load.a")), r"two tasks with the id 'load\.a'"),
        (within(lambda: TaskGroup("a.b")), r"task group 'a\.b': an id has no dots"),
        (within(lambda: TaskGroup("")), "an id must be a non-empty string"),
        (within(lambda: TaskGroup("a b")), "the id may hold letters"),
        (within(lambda: TaskGroup("g", default_args=WRONG)), "'g': default_args: must hold"),
        (within(lambda: task("x") >> TaskGroup("g")), "'g': it has no tasks to link"),
        (within(lambda: TaskGroup("g") >> task("x")), "'g': it has no tasks to link"),
        (within(lambda: chain(task("x"), LOAD)), "'load' is neither a task nor a task group"),
    ],
)
def test_mistake_is_a_sentence_that_names_the_group(make: Callable[[], object], words: str) -> None:
    """One line, with what is wrong."""
    with pytest.raises(DefinitionError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_id_that_becomes_too_long_is_refused() -> None:
    """Prefix and id have the limit of one id together."""
    with (
        pytest.raises(DefinitionError, match="the id has 202 characters"),
        DAG("d"),
        TaskGroup("g"),
    ):
        task("a" * 200)
