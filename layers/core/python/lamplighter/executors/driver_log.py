"""What the log of a Spark driver says about its end. Pure."""

import re
import zlib

# The line after the frames of a Python traceback names the exception.
_PYTHON = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", re.MULTILINE)
_JAVA = re.compile(
    r'^(?:Exception in thread "[^"\n]*" )?((?:[\w$]+\.)*[\w$]*(?:Exception|Error)\b.*)',
    re.MULTILINE,
)
# A log is small when a program fails early, and is only looked into that far.
MAX_BYTES = 2_000_000
_MAX_TEXT_BYTES = 20_000_000
_LONGEST_LINE = 500


def first_exception(packed: bytes) -> str | None:
    """Return the first exception in a log, given the beginning of its gzip file."""
    try:
        text = zlib.decompressobj(wbits=31).decompress(packed, _MAX_TEXT_BYTES)
    except zlib.error:
        return None
    lines = text.decode("utf-8", "replace")
    found = _PYTHON.search(lines) or _JAVA.search(lines)
    return found[1].strip()[:_LONGEST_LINE] if found else None
