"""A page of a web server on this machine, which can be changed and counts its requests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import patch


@dataclass
class Page:
    """The page, and how often it was requested."""

    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"rates"
    requests: int = 0


@contextmanager
def serving_page() -> Iterator[Page]:
    """Serve a page until the block ends; it is never reached through a proxy."""
    page = Page()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page.requests += 1
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            # Whoever has read enough hangs up.
            try:
                self.wfile.write(page.body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is there
            """Print nothing."""

    with (
        patch.dict("os.environ", no_proxy="127.0.0.1"),
        ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
    ):
        page.url = f"http://127.0.0.1:{server.server_port}/rates.csv"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield page
        finally:
            server.shutdown()
            thread.join()
