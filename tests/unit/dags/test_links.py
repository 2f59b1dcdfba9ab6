"""The order between tasks: arrows, chains, cycles."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lamplighter import DAG, SparkTask, chain
from lamplighter.errors import DefinitionError

Link = Callable[[Any], object]


def linked(link: Link) -> str:
    """Return the edges between four tasks after `link`, as in `ab ac`."""
    with DAG("orders") as dag:
        link(SimpleNamespace(**{name: SparkTask(name, job="jobs.a:run") for name in "abcd"}))
    tasks = dag.tasks.values()
    down = {f"{task.task_id}{other}" for task in tasks for other in task.downstream_task_ids}
    up = {f"{other}{task.task_id}" for task in tasks for other in task.upstream_task_ids}
    assert down == up
    return " ".join(sorted(down))


LINKS: list[tuple[Link, str]] = [
    (lambda t: t.a >> t.b, "ab"),
    (lambda t: t.a << t.b, "ba"),
    (lambda t: t.a >> t.b >> t.c >> t.d, "ab bc cd"),
    (lambda t: t.a << t.b << t.c << t.d, "ba cb dc"),
    (lambda t: t.a >> [t.b, t.c], "ab ac"),
    (lambda t: t.a >> (t.b, t.c), "ab ac"),
    (lambda t: t.a << [t.b, t.c], "ba ca"),
    (lambda t: [t.a, t.b] >> t.c, "ac bc"),
    (lambda t: [t.a, t.b] << t.c, "ca cb"),
    (lambda t: t.a >> [t.b, t.c] >> t.d, "ab ac bd cd"),
    (lambda t: t.a << [t.b, t.c] << t.d, "ba ca db dc"),
    (lambda t: [t.a, t.b] >> t.c >> t.d, "ac bc cd"),
    (lambda t: t.a >> t.b << t.c, "ab cb"),
    (lambda t: (t.a >> t.b, t.a >> t.b), "ab"),
    (lambda t: t.a >> [], ""),
    (lambda t: chain(t.a, t.b, t.c, t.d), "ab bc cd"),
    (lambda t: chain(t.a, [t.b, t.c], t.d), "ab ac bd cd"),
    (lambda t: chain([t.a, t.b], [t.c, t.d]), "ac bd"),
    (lambda t: chain((t.a, t.b), t.c, t.d), "ac bc cd"),
    (lambda t: chain(t.a), ""),
    (lambda _: chain(), ""),
]


@pytest.mark.parametrize(("link", "edges"), LINKS, ids=[edges or "none" for _, edges in LINKS])
def test_tasks_linked_by_author_have_edges(link: Link, edges: str) -> None:
    """Arrows and chains make exactly the listed edges, known from both ends."""
    assert linked(link) == edges


CYCLES: list[tuple[Link, str]] = [
    (lambda t: t.a >> t.a, "a >> a"),
    (lambda t: t.a >> t.b >> t.a, "a >> b >> a"),
    (lambda t: chain(t.a, t.b, t.c, t.d, t.b), "b >> c >> d >> b"),
    (lambda t: [t.a, t.b] >> t.c >> [t.d, t.a], "a >> c >> a"),
]


@pytest.mark.parametrize(("link", "cycle"), CYCLES, ids=[cycle for _, cycle in CYCLES])
def test_tasks_in_a_cycle_are_named(link: Link, cycle: str) -> None:
    """A cycle is an error that names the DAG and every task along it."""
    with pytest.raises(DefinitionError, match=f"DAG 'orders': tasks: .*cycle: {cycle}$"):
        linked(link)


def test_cycle_without_block_is_found() -> None:
    """A DAG whose tasks were given `dag=` is judged by `validate`."""
    dag = DAG("orders")
    one, other = (SparkTask(name, dag=dag, job="jobs.a:run") for name in "ab")
    one >> other >> one
    with pytest.raises(DefinitionError, match="cycle: a >> b >> a"):
        dag.validate()


def test_link_between_dags_is_refused() -> None:
    """Tasks of two DAGs cannot be linked; the error names both and the way to do it."""
    one, other = (SparkTask("t", dag=DAG(name), job="jobs.a:run") for name in ("orders", "fx"))
    with pytest.raises(DefinitionError, match=r"'orders'.*'fx'.*asset"):
        one >> other
    assert not one.downstream_task_ids


@pytest.mark.parametrize("other", [None, "b", 5, [None], ["b"], [["b"]]], ids=repr)
@pytest.mark.parametrize(
    "link",
    [lambda a, other: a >> other, lambda a, other: a << other, chain],
    ids=["right", "left", "chain"],
)
def test_link_to_other_thing_is_named(link: Callable[[SparkTask, Any], object], other: Any) -> None:
    """Only tasks can be linked; anything else is an error that names the task and the thing."""
    task = SparkTask("a", dag=DAG("orders"), job="jobs.a:run")
    with pytest.raises(DefinitionError, match="'a'"):
        link(task, other)


@pytest.mark.parametrize(("left", "right"), [("ab", "c"), ("a", "bc"), ("abc", "d"), ("", "a")])
def test_chain_of_unequal_lists_is_refused(left: str, right: str) -> None:
    """Two lists that follow one another in a chain have one length."""
    dag = DAG("orders")
    made = {name: SparkTask(name, dag=dag, job="jobs.a:run") for name in "abcd"}
    with pytest.raises(DefinitionError, match="same length"):
        chain([made[name] for name in left], [made[name] for name in right])


def test_link_to_a_set_links_each_member() -> None:
    """Tasks may stand in a set, on either side."""
    dag = DAG("orders")
    a, b, c = (SparkTask(name, dag=dag, job="jobs.a:run") for name in "abc")
    a >> {b, c}
    assert a.downstream_task_ids == {"b", "c"}
    assert b.upstream_task_ids == c.upstream_task_ids == {"a"}
