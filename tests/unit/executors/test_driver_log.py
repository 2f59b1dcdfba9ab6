"""The first exception in the log of a Spark driver."""

import gzip

import pytest

from lamplighter.executors.driver_log import first_exception

SPARK = "26/11/17 12:00:00 INFO SparkContext: Running Spark version 4.0.2\n" * 50


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            (
                f"{SPARK}Traceback (most recent call last):\n"
                '  File "/tmp/run_step.py", line 3, in <module>\n    import nothing\n'
                "ModuleNotFoundError: No module named 'nothing'\n"
                f"{SPARK}java.lang.IllegalStateException: SparkContext was stopped\n"
            ),
            "ModuleNotFoundError: No module named 'nothing'",
        ),
        (
            "Traceback (most recent call last):\n  File x\norders.Refused: too late\n",
            "orders.Refused: too late",
        ),
        (
            'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat x.y\n',
            "java.lang.OutOfMemoryError: Java heap space",
        ),
        (
            f"{SPARK}org.apache.spark.SparkException: Job aborted\n\tat a\nCaused by: b.CError: c",
            "org.apache.spark.SparkException: Job aborted",
        ),
        ("SyntaxError: invalid syntax", "SyntaxError: invalid syntax"),
        ("KeyError: " + "x" * 1_000 + "\n", "KeyError: " + "x" * 490),
        (f"{SPARK}26/11/17 ERROR Driver: no exception here\n", None),
        ("", None),
    ],
)
def test_first_exception_of_a_log_is_found(text: str, found: str | None) -> None:
    """The line that names the exception, of Python before Java; nothing if there is none."""
    assert first_exception(gzip.compress(text.encode())) == found


def test_log_that_is_cut_or_damaged_is_read_as_far_as_it_goes() -> None:
    """The beginning of a long log is enough, and what is no gzip file says nothing."""
    # Hardly compressible: the part that is read ends within the file.
    noise = "".join(f"INFO {number * 7_919 % 104_729:x}\n" for number in range(50_000))
    packed = gzip.compress(f"ValueError: bad\n{noise}\n".encode())
    assert first_exception(packed[: len(packed) // 2]) == "ValueError: bad"
    assert first_exception(b"\xff not gzip") is None
    assert first_exception(b"") is None
