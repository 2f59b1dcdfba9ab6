"""An executor with as much capacity as a test says."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from lamplighter.executors.emr import EmrServerless


@contextmanager
def capacity(of_all: Mapping[str, float], of_one: Mapping[str, float]) -> Iterator[None]:
    """Let the executor have so much for all jobs; one needs some, times its `driver_cores`."""

    def footprint(_: EmrServerless, sizes: Mapping[str, str]) -> Mapping[str, float]:
        times = float(sizes.get("driver_cores", 1))
        return {name: amount * times for name, amount in of_one.items()}

    with (
        patch.object(EmrServerless, "capacity", lambda _: of_all),
        patch.object(EmrServerless, "footprint", footprint),
        # The sizes are none that EMR Serverless has.
        patch.object(EmrServerless, "check", lambda *_: []),
    ):
        yield
