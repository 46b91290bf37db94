"""Run the demo: one server process, virtual clocks that only run meanwhile, and the streams of bids."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import IO, cast

from django.db import connection

from auctions.kernels import compiling
from auctions.kernels.warming import SIDE_BY_SIDE
from auctions.models import Bid, DecisionRecord, Market
from cluster import clock
from cluster.models import Cluster
from demo import client
from demo.jobs import Offer
from scheduling import kernels
from scheduling.registry import make_policy

HOST = "127.0.0.1"
PORTS = range(8000, 8020)
START_S = 60.0
RETRY_S = 1.0
STOP_S = 15.0
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LONGEST_NAP_S = 0.5
"""The clock's speed may be changed in the admin: look at it again this often."""

LONG_S = 20.0
"""A wait longer than this many seconds is reported."""

Say = Callable[[str], None]
Deciding = Callable[[], frozenset[str]]
"""The clusters whose markets decide: their kernels are compiled."""


class DemoError(Exception):
    """An error that stops the demo; its message is for the user."""


@dataclass
class Tally:
    """Counts of the stream's outcomes."""

    sent: int = 0
    refused: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Stream:
    """The bids to be sent to one market."""

    cluster: Cluster
    offers: Iterator[Offer]
    send: Callable[[Offer], None]
    tally: Tally = field(default_factory=Tally)


def choose_port(wanted: int | None) -> int:
    """The wanted port, or the first free one of the usual; raises DemoError when busy."""
    for port in PORTS if wanted is None else (wanted,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((HOST, port))
                return port
    if wanted is None:
        raise DemoError(f"Ports {PORTS[0]} to {PORTS[-1]} are all in use; choose another with PORT=...")
    raise DemoError(f"Port {wanted} is in use; choose another with PORT=...")


@contextmanager
def interruptible() -> Iterator[None]:
    """End the block with KeyboardInterrupt on Ctrl-C, SIGTERM and SIGHUP, also where a shell had them ignored."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Server:
    """The server as a child process, which loads kernels and waits until its database is there."""

    base: str
    """Its address."""
    child: subprocess.Popen[bytes]

    def open(self) -> None:
        """Let it serve; returns once it answers."""
        with suppress(OSError), cast(IO[bytes], self.child.stdin) as line:  # it may have ended, which is reported below
            line.write(b"\n")
        deadline = monotonic() + START_S
        while not client.is_up(self.base):
            if self.child.poll() is not None:
                raise DemoError(f"The server ended at once with status {self.child.returncode}.")
            if monotonic() > deadline:
                raise DemoError(f"The server did not answer within {START_S:.0f} s.")
            time.sleep(0.1)


@contextmanager
def compiled(policies: Iterable[str], *, root: Path) -> Iterator[None]:
    """Let two processes compile what these policies need, in this order, from now on."""
    parts = kernels.parts_of(group for name in policies for group in kernels.needed_by(make_policy(name, {})))
    command = compiling.command(parts)
    # In sessions of their own: Ctrl-C reaches this process alone, which then ends them.
    children = [
        subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
        for _ in range(min(SIDE_BY_SIDE, len(parts)))
    ]
    for child in children:
        Thread(target=child.wait, name="compiling", daemon=True).start()  # none stays as a zombie
    try:
        yield
    finally:
        for child in children:
            child.terminate()
            child.wait()


@contextmanager
def server(port: int, policies: Iterable[str], *, root: Path) -> Iterator[Server]:
    """The server, which loads what these policies need once it is compiled, while the block sets up its database."""
    command = [sys.executable, "manage.py", "serve", "--host", HOST, "--port", str(port), "--wait", *policies]
    # In a session of its own: Ctrl-C reaches this process alone, which then ends the child in good order.
    child = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
    try:
        yield Server(f"http://{HOST}:{port}", child)
    finally:
        child.terminate()
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def settle_clock(cluster: Cluster) -> float:
    """Stop the clock at the time of the recorded market; return this time, seconds after the epoch.

    If a demo was killed, its clock continued to run; the time since then is discarded.
    """
    at_s = clock.read(cluster).seconds
    if cluster.clock_running:
        market = Market.objects.get(cluster=cluster)
        last = Bid.objects.filter(market=market).order_by("-sequence").values_list("submitted_s", flat=True).first()
        at_s = min(at_s, max(market.slot * cluster.slot_seconds, last or 0.0))
    clock.set_clock(cluster, running=False, at_s=max(at_s, 0.0))
    return cluster.clock_offset_s


@contextmanager
def time_passing(*, takes_s: float, others: Mapping[str, float]) -> Iterator[Callable[[Cluster], None]]:
    """Yield a function that starts a virtual clock; all stop after the block.

    A slot takes `takes_s` seconds, or what `others` says by name of the cluster.
    """
    running: list[Cluster] = []

    def start(cluster: Cluster) -> None:
        running.append(cluster)
        clock.set_clock(cluster, running=True, speed=cluster.slot_seconds / others.get(cluster.name, takes_s))

    try:
        yield start
    finally:
        # Ctrl-C may have left a read unfinished. Once another process writes, this connection then writes nothing more.
        connection.close()
        for cluster in running:
            cluster.refresh_from_db()
            clock.set_clock(cluster, running=False)


def feed(streams: Iterable[Stream], *, deciding: Deciding, start: Callable[[Cluster], None], say: Say) -> None:
    """Send each offer when its market's running clock reaches its time, for ever or until there are no more.

    Each market's time begins when the market decides; the others go on meanwhile.
    """
    asleep, waiting = list(streams), dict[Stream, Offer]()
    reported: set[str] = set()
    undecided: dict[Stream, int] = {}
    while asleep or waiting:
        ready = deciding() if asleep else frozenset()
        for stream in [stream for stream in asleep if stream.cluster.name in ready]:
            asleep.remove(stream)
            offer = next(stream.offers, None)
            if offer is not None:
                _begin(stream, offer, start)
                waiting[stream], undecided[stream] = offer, _decisions(stream)
        for stream in [stream for stream, before in undecided.items() if _decisions(stream) > before]:
            del undecided[stream]
            say(f"{stream.cluster.name}: first decision {_age_s():.0f} s after the start.")
        if not waiting:
            time.sleep(LONGEST_NAP_S)
            continue
        left_s = {stream: _left_s(stream.cluster, offer.at_s) for stream, offer in waiting.items()}
        soonest = min(left_s, key=lambda stream: left_s[stream])
        offer, wait_s = waiting[soonest], left_s[soonest]
        if wait_s > 0:
            if wait_s > LONG_S and offer.key not in reported:
                reported.add(offer.key)
                say(f"The next job arrives in {wait_s:.0f} s.")
            time.sleep(min(LONGEST_NAP_S, wait_s))
            continue
        _send(offer, soonest, say)
        following = next(soonest.offers, None)
        if following is None:
            del waiting[soonest]
        else:
            waiting[soonest] = following


def _begin(stream: Stream, offer: Offer, start: Callable[[Cluster], None]) -> None:
    """Let a market's time pass from now on; a market without bids begins with the first one."""
    if not Bid.objects.filter(market__cluster=stream.cluster).exists():
        clock.set_clock(stream.cluster, running=False, at_s=offer.at_s)
    start(stream.cluster)


def feed_at_once(stream: Stream, *, at_most: int, deciding: Deciding, say: Say) -> None:
    """Send each offer after setting the stopped clock to its time: the same bids give the same decisions."""
    while stream.cluster.name not in deciding():
        time.sleep(LONGEST_NAP_S)
    for offer in islice(stream.offers, at_most):
        clock.set_clock(stream.cluster, running=False, at_s=offer.at_s)
        _send(offer, stream, say)


def _age_s() -> float:
    """Seconds since this process began."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def _decisions(stream: Stream) -> int:
    return DecisionRecord.objects.filter(bid__market__cluster=stream.cluster).count()


def _send(offer: Offer, stream: Stream, say: Say) -> None:
    while True:
        try:
            stream.send(offer)
        except client.Unreachable as error:
            # The key makes a second try safe.
            say(f"no answer ({error}); trying again")
            time.sleep(RETRY_S)
            continue
        except client.Refused as error:
            stream.tally.refused.append(f"{offer.key}: {error}")
            say(f"{offer.key} was refused: {error}")
            return
        stream.tally.sent += 1
        return


def _left_s(cluster: Cluster, at_s: float) -> float:
    """Wall seconds until the cluster's clock reads `at_s`."""
    cluster.refresh_from_db()
    return (at_s - clock.read(cluster).seconds) / cluster.clock_speed
