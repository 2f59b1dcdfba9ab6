"""The `@dag` decorator: a function whose body defines the tasks."""

import functools
from collections.abc import Callable
from typing import Any

from lamplighter.dags.context import note_factory
from lamplighter.dags.dag import DAG


class DagFactory:
    """A decorated function; calling it makes the DAG."""

    def __init__(self, function: Callable[..., object], dag_id: str, options: Any) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.dag_id = dag_id
        self.options = options
        self.was_called = False
        note_factory(self)

    def __call__(self, *args: Any, **kwargs: Any) -> DAG:
        """Run the function's body inside a new DAG, and return that DAG."""
        self.was_called = True
        with DAG(self.dag_id, **{"doc_md": self.function.__doc__, **self.options}) as made:
            self.function(*args, **kwargs)
        return made


def dag(dag_id: str | Callable[..., object] = "", **options: Any) -> Any:
    """Turn a function into a maker of one DAG, named after the function unless `dag_id` is given.

    The options are those of `DAG`. Call the function once, or the DAG does not exist.
    """
    if callable(dag_id):
        return DagFactory(dag_id, dag_id.__name__, options)

    def decorate(function: Callable[..., object]) -> DagFactory:
        return DagFactory(function, dag_id or function.__name__, options)

    return decorate
