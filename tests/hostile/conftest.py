"""Fake EMR Serverless for jobs, and how much was tried at each edge."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from tests.integration.functions.conftest import emr, executing, whole_execution
from tests.limits import SEED

__all__ = ["emr", "executing", "whole_execution"]


@dataclass
class Fuzz:
    """A generator of hostile inputs, and the count of those that were tried."""

    random: Random
    # How many to try; ten times as many in the long form.
    rounds: int
    tried: Counter[str] = field(default_factory=Counter)


@pytest.fixture(params=["short", pytest.param("full", marks=pytest.mark.full)])
def fuzz(
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> Iterator[Fuzz]:
    """Yield a generator that begins with the seed of the session; tell what was tried with it."""
    is_full = request.param == "full"
    name = f"{request.config.stash[SEED]} {request.node.originalname}"
    given = Fuzz(Random(name), rounds=2_000 if is_full else 200)
    yield given
    record_property("hostile inputs", given.tried.total())
    told = ", ".join(f"{count} {what}" for what, count in sorted(given.tried.items()))
    with capsys.disabled():
        sys.stdout.write(f"\n{request.node.originalname}: {told}\n")
