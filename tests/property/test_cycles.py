"""Law: a cycle is found exactly when there is one, and what is reported is one."""

from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st

from lamplighter.dags.links import find_cycle

calmly = settings(deadline=None, derandomize=True, database=None, max_examples=200)

NODES = [f"t{number}" for number in range(7)]
graphs = st.fixed_dictionaries(
    {node: st.sets(st.sampled_from(NODES), max_size=3) for node in NODES}
)


def reaches_itself(graph: dict[str, set[str]]) -> bool:
    """Return whether some node is its own descendant, by taking in neighbours until none is new."""
    reach = {node: set(children) for node, children in graph.items()}
    for middle, node in product(graph, repeat=2):
        if middle in reach[node]:
            reach[node] |= reach[middle]
    return any(node in reach[node] for node in graph)


@calmly
@given(graphs)
def test_cycle_is_found_where_one_is(graph: dict[str, set[str]]) -> None:
    """The answer is empty exactly when no node can reach itself."""
    assert bool(find_cycle(graph)) == reaches_itself(graph)


@calmly
@given(graphs)
def test_cycle_found_is_a_cycle(graph: dict[str, set[str]]) -> None:
    """What is reported follows edges, ends where it began and passes no other node twice."""
    cycle = find_cycle(graph)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle)) == len(cycle) - 1
        assert all(child in graph[parent] for parent, child in pairwise(cycle))


@calmly
@given(graphs)
def test_cycle_found_twice_is_the_same(graph: dict[str, set[str]]) -> None:
    """The answer does not depend on the order in which a set happens to be walked."""
    assert find_cycle({node: sorted(graph[node]) for node in graph}) == find_cycle(
        {node: sorted(graph[node], reverse=True) for node in graph}
    )


def test_cycle_search_survives_long_chains() -> None:
    """A chain as long as a DAG may be, and longer, does not exhaust the stack."""
    chain = {str(number): [str(number + 1)] for number in range(5000)} | {"5000": list[str]()}
    assert find_cycle(chain) == []
    assert len(find_cycle(chain | {"5000": ["0"]})) == 5002


def test_cycle_search_ignores_shared_descendants() -> None:
    """Two ways to one task are no cycle, however many layers of them there are."""
    layers = {
        f"{layer}{side}": [f"{layer + 1}a", f"{layer + 1}b"] for layer in range(40) for side in "ab"
    }
    assert find_cycle(layers | {"40a": [], "40b": []}) == []
