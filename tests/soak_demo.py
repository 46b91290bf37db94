"""The demo with viewers, for as long as one likes: `python -m tests.soak_demo --minutes 8`.

Three viewers open a page of a market every two seconds, with all that the page fetches, and each keeps an event stream
open; 50 bids come at once every twenty seconds; a health check asks every second. No answer may be a failure of the
server and every bid is decided. A long run, on a machine of two cores that is idle otherwise, is also judged by its
times and by the memory of the server's processes: 99 % of answers take less than 300 ms, and memory levels off.
"""

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any, Final

import numpy as np
import requests

from tests.processes import Process, children, end_on_sigterm, free_port, python_env, wait_until

VIEWERS: Final = ("operator", "bidder", "ada")
EVERY_S: Final = 2.0
"""Between two pages of a viewer."""
BULK_EVERY_S: Final = 20.0
BULK: Final = 50
SLOWEST: Final = 5
"""Number of longest answers that are printed with their addresses."""
LABEL: Final = "soak"
LONGEST_ANSWER_S: Final = 60.0
DECIDED_S: Final = 120.0
"""Longest wait of the last bids for their decisions."""
STOP_S: Final = 60.0
"""Longest time in which the demo stops its jobs, its executor and its server, one after the other."""
MEMORY_EVERY_S: Final = 2.0
LONG_S: Final = 240.0
"""A run as long as this is judged by times and memory."""
LATE_S: Final = 0.3
"""99 % of answers take less."""
MOST_GROWTH: Final = 0.05
"""Largest growth of the server's memory over the later half of a long run; markets keep all their bids."""

BY_HAND: Final = re.compile(r"clusters/([\w-]+)/bids .*?-d '({.*?})'", re.DOTALL)
"""The bid to each market that the demo prints."""
FETCHED: Final = re.compile(r'data-(?:tiles|figure|part|version)="([^"]+)"')
FOLDED: Final = re.compile(r'<details class="on-demand">.*?</details>', re.DOTALL)
"""The part of a page that is fetched once a reader opens it."""
LINKED: Final = re.compile(r'(?:src|href)="(/static/[^"]+)"')
MARKET: Final = re.compile(r"(/markets/|/clusters/)[^/]+")
NUMBER: Final = re.compile(r"/\d+(?=/|$)")


@dataclass(frozen=True)
class Answer:
    """One request and what came of it."""

    path: str
    status: int
    """0: no answer."""
    seconds: float
    at: float
    """Seconds after the beginning."""
    note: str = ""

    @property
    def what(self) -> str:
        """The path without query, and without what differs between markets, bids and versions of files."""
        path = MARKET.sub(r"\1M", NUMBER.sub("/N", self.path.partition("?")[0]))
        return "/static/..." if path.startswith("/static/") else path


@dataclass
class Soak:
    """What was seen in one run."""

    seconds: float
    answers: list[Answer] = field(default_factory=list)
    memory: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    """Seconds after the beginning, and MB that each of the server's processes holds."""
    cpu_s: dict[str, float] = field(default_factory=dict)
    """Processor time of the server's processes, by name."""
    bids: int = 0
    """Sent at once, by 50."""
    undecided: int = 0

    @property
    def failures(self) -> list[Answer]:
        """Answers that are the server's fault, and requests without an answer. A busy database's 503 does not count."""
        return [a for a in self.answers if a.status == 0 or (a.status >= 500 and a.status != 503)]

    @property
    def growth(self) -> float:
        """Growth of the memory over the later half, by linear regression, relative to its level then."""
        later = [(at, sum(mb.values())) for at, mb in self.memory if at >= self.seconds / 2]
        if len(later) < 2:
            return 0.0
        at, mb = np.array(later).T
        slope = float(np.polyfit(at, mb, 1)[0])
        return slope * (self.seconds / 2) / float(mb[0])

    @property
    def p99_s(self) -> float:
        """99 % of answers, without health checks, took no longer."""
        pages = [a.seconds for a in self.answers if a.what != "/healthz"]
        return float(np.percentile(pages, 99)) if pages else 0.0

    def problems(self) -> list[str]:
        """What may not be, in words."""
        found = [f"{a.status or 'no answer'} after {a.seconds:.1f} s: {a.path} {a.note}" for a in self.failures]
        if not any(a.status == 200 for a in self.answers):
            found.append("no page was answered")
        if self.undecided:
            found.append(f"{self.undecided} bids are not decided")
        if self.seconds >= LONG_S and self.p99_s >= LATE_S:
            found.append(f"1 % of answers take {self.p99_s * 1000:.0f} ms or more")
        if self.seconds >= LONG_S and self.growth > MOST_GROWTH:
            found.append(f"the memory grows by {self.growth:.0%} in {self.seconds / 2:.0f} s")
        return found

    def lines(self) -> Iterator[str]:
        """A table of times, and what the server used."""
        yield f"{'request':<48}{'answers':>8}{'p50':>8}{'p99':>8}{'longest':>9}   ms"
        pages = [a for a in self.answers if a.what != "/healthz"]
        yield _row("all but health checks", pages)
        kinds = sorted({a.what for a in self.answers})
        yield from (_row(kind, [a for a in self.answers if a.what == kind]) for kind in kinds)
        slowest = sorted(self.answers, key=lambda a: a.seconds, reverse=True)[:SLOWEST]
        yield "longest: " + ", ".join(f"{a.path} {a.seconds:.1f} s (at {a.at:.0f} s)" for a in slowest)
        statuses = Counter(a.status for a in self.answers)
        yield "status: " + ", ".join(f"{status or 'none'} x {n}" for status, n in sorted(statuses.items()))
        used = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self.cpu_s.items())
        yield f"processor time in {self.seconds:.0f} s: {used}; {self.bids} bids came by {BULK}"
        steps = self.memory[:: max(1, len(self.memory) // 8)]
        for name in self.cpu_s:
            course = ", ".join(f"{mb[name]:.0f}" for _, mb in [*steps, *self.memory[-1:]])
            yield f"memory of {name}: {course} MB"
        yield f"memory of all: {self.growth:+.1%} over the later half"


def _row(name: str, answers: Sequence[Answer]) -> str:
    ms = np.array([a.seconds for a in answers]) * 1000
    p50, p99, longest = np.percentile(ms, 50), np.percentile(ms, 99), ms.max()
    return f"{name:<48}{len(ms):>8}{p50:>8.0f}{p99:>8.0f}{longest:>9.0f}"


class Visitor:
    """A user who is signed in; every request is recorded."""

    def __init__(self, base: str, soak: Soak, began: float) -> None:
        self._base, self._soak, self._began = base, soak, began
        self._session = requests.Session()
        self._session.trust_env = False
        self._static: set[str] = set()

    def sign_in(self, name: str, password: str) -> None:
        """As on the page."""
        self._session.get(f"{self._base}/login/", timeout=LONGEST_ANSWER_S).raise_for_status()
        fields = {"username": name, "password": password, "csrfmiddlewaretoken": self._session.cookies["csrftoken"]}
        answer = self._session.post(
            f"{self._base}/login/", fields, headers={"Referer": f"{self._base}/login/"}, timeout=LONGEST_ANSWER_S
        )
        answer.raise_for_status()

    def take_token(self, name: str, password: str) -> None:
        """For REST."""
        body = {"username": name, "password": password}
        answer = requests.post(f"{self._base}/api/v1/token", json=body, timeout=LONGEST_ANSWER_S)
        self._session.headers["Authorization"] = f"Token {answer.json()['token']}"

    def ask(self, path: str, body: object = None) -> str:
        """The text of an answer, empty without one."""
        began = time.monotonic()
        method, text, status, note = "GET" if body is None else "POST", "", 0, ""
        try:
            answer = self._session.request(method, f"{self._base}{path}", json=body, timeout=LONGEST_ANSWER_S)
            status, text = answer.status_code, answer.text
            note = text[:300] if status >= 400 else ""
        except requests.RequestException as error:
            note = str(error)
        ended = time.monotonic()
        self._soak.answers.append(Answer(path, status, ended - began, ended - self._began, note))
        return text if status < 400 else ""

    def read(self, path: str) -> Any:
        """An answer of REST."""
        return json.loads(self.ask(path))

    def open(self, path: str, *, unfold: bool = False) -> str:
        """A page with all it fetches; styles and scripts once, as a browser keeps them.

        What is folded is fetched if `unfold` is set, as when a reader opens that part.
        """
        page = self.ask(path)
        for found in LINKED.findall(page):
            if found not in self._static:
                self._static.add(found)
                self.ask(found)
        for found in FETCHED.findall(page if unfold else FOLDED.sub("", page)):
            self.ask(found.replace("&amp;", "&"))
        return page

    def listen(self, market: str, until: threading.Event) -> None:
        """Keep a market's event stream open, and open it again when it ends."""
        while not until.is_set():
            try:
                with self._session.get(
                    f"{self._base}/markets/{market}/events", stream=True, timeout=LONGEST_ANSWER_S
                ) as stream:
                    for _ in stream.iter_lines():
                        if until.is_set():
                            return
            except requests.RequestException:
                until.wait(1.0)


def _view(visitor: Visitor, markets: Sequence[str], number: int, until: threading.Event) -> None:
    """Open the home page, then a page every two seconds: overviews, lists of bids, and bids, of one market after
    another.

    What is folded on the page of a bid is opened on one page in four.
    """
    visitor.open("/")
    began = time.monotonic()
    for turn in count():
        market = markets[(turn + number) % len(markets)]
        match (turn // len(markets)) % 4:
            case 0 | 2:
                visitor.open(f"/markets/{market}/")
            case 1:
                visitor.open(f"/markets/{market}/bids/")
                visitor.open("/")
            case _:
                listed = re.findall(rf"/markets/{market}/bids/\d+/", visitor.ask(f"/markets/{market}/bids/"))
                if listed:
                    visitor.open(listed[turn % len(listed)], unfold=(turn // 16) % 4 == turn % 4)
        if until.wait(max(0.0, began + (turn + 1) * EVERY_S - time.monotonic())):
            return


def _bulk(visitor: Visitor, found: Soak, bodies: dict[str, Any], until: threading.Event) -> None:
    """50 bids of different sizes at once to one market after another."""
    for turn, (market, body) in enumerate(cycle(bodies.items())):
        if until.wait(BULK_EVERY_S / 4 if turn == 0 else BULK_EVERY_S):
            return
        bids = [{**body, "epochs": 1 + i % 30, "label": f"{LABEL} {turn}"} for i in range(BULK)]
        if visitor.ask(f"/api/v1/clusters/{market}/bids/bulk", {"bids": bids}):
            found.bids += BULK


def _check_health(visitor: Visitor, until: threading.Event) -> None:
    while not until.wait(1.0):
        visitor.ask("/healthz")


def _measure(processes: Mapping[str, int], found: Soak, began: float, until: threading.Event) -> None:
    while not until.wait(MEMORY_EVERY_S):
        held = {name: _memory_mb(pid) for name, pid in processes.items()}
        found.memory.append((time.monotonic() - began, held))


def _memory_mb(process: int) -> float:
    """Return what a process holds; of memory that it shares with others, its share."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    return int(rollup.partition("\nPss:")[2].split()[0]) / 1000


def _cpu_s(process: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Demo:
    """A demo that runs."""

    base: str
    process: Process
    server: dict[str, int]
    """The numbers of its server's processes, by name."""
    passwords: dict[str, str]
    bodies: dict[str, Any]
    """Submit a bid to each market, as the demo prints it for manual bids."""


@contextmanager
def demo(var: Path, *options: str) -> Iterator[Demo]:
    """What `make demo` runs, on data of its own."""
    port = free_port()
    command = [sys.executable, "manage.py", "demo", "--port", str(port), *options]
    process = Process(command, log=var / "demo.log", env=python_env(var))
    try:
        wait_until(lambda: "Ctrl-C ends it" in process.text() or not process.alive, what="the demo")
        assert process.alive, process.text()
        servers = [pid for pid in children(process.pid) if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(servers) == 1, f"these of the demo's processes serve: {servers}"
        wait_until(lambda: len(children(servers[0])) == 2, what="the worker")
        web, worker = children(servers[0])
        bodies = {name: json.loads(body) for name, body in BY_HAND.findall(process.text())}
        passwords = json.loads((var / "demo.json").read_text())
        server = {"supervisor": servers[0], "web": web, "worker": worker}
        yield Demo(f"http://127.0.0.1:{port}", process, server, passwords, bodies)
    finally:
        process.popen.send_signal(signal.SIGTERM)
        process.end(STOP_S)


def run(var: Path, *, seconds: float) -> Soak:
    """Let the demo run with its viewers for so long, in an empty directory."""
    with demo(var) as world:
        return watch(world, seconds=seconds)


def watch(world: Demo, *, seconds: float) -> Soak:
    """Let viewers look at the demo for so long, once every market has decided a bid."""
    markets, began = list(world.bodies), time.monotonic()
    warm = Visitor(world.base, Soak(seconds), began)
    warm.take_token("operator", world.passwords["operator"])
    wait_until(lambda: all(_decides(warm, market) for market in markets), what="a decision in every market")
    found, began, until = Soak(seconds), time.monotonic(), threading.Event()
    used_s = {name: _cpu_s(pid) for name, pid in world.server.items()}
    visitors = {name: Visitor(world.base, found, began) for name in (*VIEWERS, "bulk", "health")}
    visitors["bulk"].take_token("ada", world.passwords["ada"])
    work: list[Callable[[], None]] = [
        partial(_measure, world.server, found, began, until),
        partial(_check_health, visitors["health"], until),
        partial(_bulk, visitors["bulk"], found, world.bodies, until),
    ]
    for number, name in enumerate(VIEWERS):
        visitors[name].sign_in(name, world.passwords[name])
        work.append(partial(_view, visitors[name], markets, number, until))
        work.append(partial(visitors[name].listen, markets[number], until))
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    until.set()
    found.cpu_s = {name: _cpu_s(pid) - used_s[name] for name, pid in world.server.items()}
    for thread in threads:
        thread.join(LONGEST_ANSWER_S)
    found.undecided = _undecided(warm, markets)
    return found


def _decides(visitor: Visitor, market: str) -> bool:
    """Whether the market has decided a bid."""
    found = visitor.read(f"/api/v1/clusters/{market}/summary")
    return bool(found["admitted"] + found["rejected"])


def _undecided(visitor: Visitor, markets: Sequence[str]) -> int:
    """Return the number of bids of the burst that have no decision at the end."""
    deadline = time.monotonic() + DECIDED_S
    while True:
        lists = [visitor.read(f"/api/v1/clusters/{m}/bids?state=submitted&page_size=200")["results"] for m in markets]
        left = sum(bid["label"].startswith(LABEL) for bids in lists for bid in bids)
        if not left or time.monotonic() > deadline:
            return int(left)
        time.sleep(0.5)


def main() -> None:
    """Print what was seen; status 1 if there was a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0)
    seconds = 60 * parser.parse_args().minutes
    end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="shadowprice-soak-") as directory:
        found = run(Path(directory), seconds=seconds)
        problems = found.problems()
        print("\n".join([*found.lines(), *(problems or ["no problems"])]), flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
