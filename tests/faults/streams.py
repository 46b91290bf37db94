"""Event streams that are opened by hand, so that a hundred of them cost a test a hundred sockets and nothing else."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import requests


def session_of(address: str, user: str, password: str) -> requests.Session:
    """A browser's session, signed in."""
    session = requests.Session()
    session.trust_env = False
    page = session.get(f"{address}/login/", timeout=60)
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found is not None, page.text
    form = {"username": user, "password": password, "csrfmiddlewaretoken": found[1]}
    answer = session.post(f"{address}/login/", data=form, headers={"Referer": f"{address}/login/"}, timeout=60)
    assert answer.status_code == 200, answer.text
    return session


@dataclass
class Stream:
    """One open stream."""

    line: socket.socket

    def status(self) -> int:
        """HTTP status of the answer."""
        return int(self.line.recv(4096).split(b" ", 2)[1])

    def has_ended(self) -> bool:
        """Whether the server ends it within some seconds."""
        self.line.settimeout(10)
        try:
            while self.line.recv(4096):
                pass
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return True


@contextmanager
def streams(address: str, path: str, sessions: list[requests.Session], *, count: int) -> Iterator[list[Stream]]:
    """Open this number of streams while the block runs; the sessions take turns."""
    place = urlsplit(address)
    opened: list[Stream] = []
    try:
        for i in range(count):
            line = socket.create_connection((str(place.hostname), int(place.port or 80)), timeout=60)
            opened.append(Stream(line))
            cookie = sessions[i % len(sessions)].cookies["sessionid"]
            request = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nCookie: sessionid={cookie}\r\n\r\n"
            line.sendall(request.encode())
        yield opened
    finally:
        for stream in opened:
            stream.line.close()
