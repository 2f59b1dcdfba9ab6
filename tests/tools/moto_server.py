"""Runs a guarded moto in a process of its own, so that only the client's work is measured.

    python -m tests.tools.moto_server --port 5000

Owns: moto behind a socket on 127.0.0.1, with the lock of `moto_guard`. Refuses: other addresses,
and requests of web pages; any access key is accepted, because nothing here runs what is stored.
"""

import argparse
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from lamplighter_local.dev.server import QuietHandler
from lamplighter_local.emulator.guarded import guarded
from lamplighter_local.emulator.moto_guard import guard
from tests.tools.loopback_process import serving


@contextmanager
def moto_server() -> Iterator[str]:
    """Return the address of an empty emulator of AWS, which is gone when the block ends."""
    command = [sys.executable, "-m", "tests.tools.moto_server", "--until-input-ends"]
    with serving(command) as endpoint:
        yield endpoint


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=0, help="any free one by default")
    parser.add_argument("--until-input-ends", action="store_true", help="end with standard input")
    options = parser.parse_args()
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server(
        "127.0.0.1", options.port, application, threaded=True, request_handler=QuietHandler
    )
    server.app = guarded(application, port=server.server_port, key=None)
    if options.until_input_ends:
        threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
    print(server.server_port, flush=True)  # noqa: T201 - see `loopback_process`
    with guard():
        server.serve_forever()


def _end_with_input(server: BaseWSGIServer) -> None:
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
