"""A receiver of webhooks on a loopback port, which answers as a test wants and keeps what it was sent."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from threading import Thread
from typing import Any


@dataclass
class Receiver:
    """What was received, and how the next requests are answered."""

    url: str = ""
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    before: Callable[[Any], None] = lambda _handler: None
    """Called with the handler before the answer."""
    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """Path, headers and body of each request."""


@contextmanager
def receiver(tls: SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver that listens while the block runs, encrypted if `tls` is given."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.received.append((self.path, headers, self.rfile.read(length)))
            found.before(self)
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A sender that goes away is no error."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    found.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}/hook"
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
