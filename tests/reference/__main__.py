"""Writes docs/reference from the code: `python -m tests.reference`, or `make reference`."""

from tests.reference.pages import write

if __name__ == "__main__":
    print(f"reference: {', '.join(write()) or 'nothing'} changed")  # noqa: T201 - a program
