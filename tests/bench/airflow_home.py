"""A home for Airflow that is thrown away, whatever Airflow is set up on this machine.

Owns: the settings that every measurement of Airflow shares. Airflow reads them when it is imported,
so this module needs only Python, and is used first.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def temporary_home(**more: str) -> Iterator[Path]:
    """Make a home, and the settings for it together with those given."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(_settings(home), **more)
        yield Path(home)


def _settings(home: str) -> dict[str, str]:
    return {
        "AIRFLOW_HOME": home,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS": "tests.bench.airflow_database.CONNECT_ARGS",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
