"""Which deployment a command talks to: that of the environment, or of an emulator."""

import os
from typing import Annotated

import typer


def _use(url: str) -> str:
    if url:
        # Where botocore looks, whichever of our libraries makes the client.
        os.environ["AWS_ENDPOINT_URL"] = url
    return url


EndpointUrl = Annotated[
    str,
    typer.Option(
        "--endpoint-url", callback=_use, help="Talk to this address instead of AWS: an emulator."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
