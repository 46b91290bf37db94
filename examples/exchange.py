"""Workers and parameter servers exchange gradients over TCP: as a ring (all-reduce), or with sharded parameter servers.

Every wait is bounded: a peer that does not come, that ends or that sends nothing ends this process with an error.
"""

import contextlib
import selectors
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from contract import SIGNALS, Address, Job

Floats = NDArray[np.float64]

HELLO: Final = struct.Struct("!4s5I")
"""A fixed word, the generation, the sender's role (1: parameter server) and rank, numbers of workers and servers."""
WORD: Final = b"SPX1"
RETRY_S: Final = 0.05
HELLO_S: Final = 5.0
"""Longest wait for the greeting on a new connection, seconds."""
COUNT, LOSS, STOP = range(3)
"""Totals of a step: number of samples, sum of their losses, number of processes that have to stop."""
TOTALS: Final = 3


class PeerLost(Exception):
    """Another process of the job did not come, ended, or sent nothing for too long."""


class StoppedEarly(Exception):
    """SIGTERM came before the first step, while this process waited for the others."""


@dataclass(frozen=True)
class Waits:
    """Longest waits, seconds."""

    start_s: float = 30.0
    """For all processes to be there."""
    peer_s: float = 30.0
    """For the next byte of a peer; longer than any step."""


@dataclass(frozen=True, eq=False)
class Channel:
    """A connection to another process of the job."""

    socket: socket.socket
    peer: str


class Exchange(Protocol):
    """One way to combine the gradients of all workers."""

    def step(self, weights: Floats, gradient: Floats, totals: Floats) -> tuple[Floats, Floats]:
        """Return the weights after a step, and the totals of all processes: the same for every worker.

        Parameters
        ----------
        weights, gradient
            Shape (parameters,). The gradient is the sum over this worker's samples.
        totals
            Shape (TOTALS,): this worker's.
        """

    def finish(self, *, stopped: bool) -> None:
        """Return when every worker has called this: the checkpoint of the first is whole then.

        Parameters
        ----------
        stopped
            Whether there are steps left to do.
        """


def updated(weights: Floats, gradient: Floats, totals: Floats, rate: float) -> Floats:
    """Return the weights after a step of gradient descent with the sums over all workers."""
    result: Floats = weights - rate / totals[COUNT] * gradient
    return result


@dataclass(frozen=True)
class Ring:
    """All-reduce: each worker sends to the next one and receives from the previous one."""

    job: Job
    rate: float
    """Learning rate."""
    waits: Waits
    after: Channel | None = None
    before: Channel | None = None
    """The neighbours; None in a ring of one."""

    @classmethod
    def of(cls, job: Job, *, rate: float, waits: Waits) -> "Ring":
        """Connect to the neighbours."""
        if job.world == 1:
            return cls(job, rate, waits)
        after, before = (job.rank + 1) % job.world, (job.rank - 1) % job.world
        meeting = Meeting(job, waits.start_s)
        # Each worker waits for the greeting of the next one, so it has to greet the previous one meanwhile.
        with meeting.listen() as listener, ThreadPoolExecutor(1) as pool:
            accepted = pool.submit(meeting.accept, listener, [before])
            channel = meeting.connect("worker", after)
            return cls(job, rate, waits, channel, accepted.result()[before])

    def step(self, weights: Floats, gradient: Floats, totals: Floats) -> tuple[Floats, Floats]:
        """Sum over the ring; then every worker makes the same step."""
        sums = np.concatenate([totals, gradient])
        self._sum(sums)
        return updated(weights, sums[TOTALS:], sums, self.rate), sums[:TOTALS]

    def finish(self, *, stopped: bool) -> None:
        """Send some numbers around."""
        self._sum(np.zeros(self.job.world))

    def _sum(self, values: Floats) -> None:
        """Replace values by their sums over all workers: first each worker sums one part, then parts go around."""
        if self.after is None or self.before is None:
            return
        world, rank = self.job.world, self.job.rank
        parts = shards(values, world)
        received = np.empty(max(part.size for part in parts))
        for turn in range(world - 1):
            part = parts[(rank - turn - 1) % world]
            target = received[: part.size]
            transfer([(self.after, parts[(rank - turn) % world])], [(self.before, target)], self.waits.peer_s)
            part += target
        for turn in range(world - 1):
            part = parts[(rank - turn) % world]
            transfer([(self.after, parts[(rank - turn + 1) % world])], [(self.before, part)], self.waits.peer_s)


@dataclass(frozen=True)
class Servers:
    """The worker's side of parameter servers: it sends a part of the gradient to each, and receives new weights."""

    channels: Sequence[Channel]
    """Connections, in the order of the ranks of the parameter servers."""
    waits: Waits

    @classmethod
    def of(cls, job: Job, *, waits: Waits) -> "Servers":
        """Connect to every parameter server."""
        meeting = Meeting(job, waits.start_s)
        return cls([meeting.connect("ps", rank) for rank in range(len(job.parameter_servers))], waits)

    def step(self, weights: Floats, gradient: Floats, totals: Floats) -> tuple[Floats, Floats]:
        """Send gradients, receive weights. Each server adds its own wish to stop to the totals that it answers."""
        sent = [np.concatenate([totals, part]) for part in shards(gradient, len(self.channels))]
        answers = [np.empty_like(values) for values in sent]
        transfer(zip(self.channels, sent, strict=True), zip(self.channels, answers, strict=True), self.waits.peer_s)
        sums = answers[0][:TOTALS].copy()
        sums[STOP] = max(answer[STOP] for answer in answers)
        return np.concatenate([answer[TOTALS:] for answer in answers]), sums

    def finish(self, *, stopped: bool) -> None:
        """Say that this worker has ended: a count below zero. The servers answer when all workers have said so."""
        said = np.zeros(TOTALS)
        said[[COUNT, STOP]] = -1, stopped
        answers = [np.empty(TOTALS) for _ in self.channels]
        transfer([(one, said) for one in self.channels], zip(self.channels, answers, strict=True), self.waits.peer_s)


def serve(job: Job, weights: Floats, *, rate: float, waits: Waits) -> bool:
    """Keep one shard of the weights until all workers have ended; return whether there are steps left to do.

    Parameters
    ----------
    job
        A parameter server's.
    weights
        All weights at the start, shape (parameters,).
    """
    shard = shards(weights, job.world)[job.rank].copy()
    meeting = Meeting(job, waits.start_s)
    with meeting.listen() as listener:
        workers = meeting.accept(listener, range(len(job.workers)))
    channels = [workers[rank] for rank in sorted(workers)]
    begun = False
    while True:
        totals = np.empty((len(channels), TOTALS))
        try:
            transfer([], zip(channels, totals, strict=True), waits.peer_s)
        except PeerLost:
            if SIGNALS.terminated and not begun:
                raise StoppedEarly from None
            raise
        sums = totals.sum(axis=0)
        if sums[COUNT] < 0:
            transfer([(channel, sums) for channel in channels], [], waits.peer_s)
            _wait_for_end(channels, waits.peer_s)
            return bool(sums[STOP])
        sums[STOP] += SIGNALS.terminated
        gradients = np.empty((len(channels), shard.size))
        transfer([], zip(channels, gradients, strict=True), waits.peer_s)
        # Added in the order of ranks, whichever came first: the same bits in every run.
        shard = updated(shard, gradients.sum(axis=0), sums, rate)
        answer = np.concatenate([sums, shard])
        begun = True
        transfer([(channel, answer) for channel in channels], [], waits.peer_s)


def _wait_for_end(channels: Sequence[Channel], longest_s: float) -> None:
    """Wait until the workers have closed their connections: a server is not to be gone before they are."""
    for channel in channels:
        channel.socket.settimeout(longest_s)
        with contextlib.suppress(OSError):
            channel.socket.recv(1)


def shards(values: Floats, count: int) -> list[Floats]:
    """Return `count` views of equal sizes, as nearly as possible."""
    return np.array_split(values, count)


@dataclass
class _Rest:
    """The bytes that are still to be sent and received on one connection."""

    sending: memoryview = field(default_factory=lambda: memoryview(b""))
    receiving: memoryview = field(default_factory=lambda: memoryview(b""))

    @property
    def events(self) -> int:
        return (selectors.EVENT_WRITE if self.sending else 0) | (selectors.EVENT_READ if self.receiving else 0)


def transfer(
    sends: Iterable[tuple[Channel, Floats]], receives: Iterable[tuple[Channel, Floats]], longest_s: float
) -> None:
    """Send and receive all of these arrays at the same time.

    Raises
    ------
    PeerLost
        If a connection ends, or nothing can be sent or received for `longest_s` seconds.
    """
    rests: dict[Channel, _Rest] = {}
    for channel, values in sends:
        rests.setdefault(channel, _Rest()).sending = values.view(np.uint8).data
    for channel, values in receives:
        rests.setdefault(channel, _Rest()).receiving = values.view(np.uint8).data
    with selectors.DefaultSelector() as selector:
        for channel, rest in rests.items():
            if rest.events:
                selector.register(channel.socket, rest.events, channel)
        while selector.get_map():
            ready = selector.select(longest_s)
            if not ready:
                names = ", ".join(key.data.peer for key in selector.get_map().values())
                raise PeerLost(f"expected data from {names}, got none for {longest_s:g} s")
            for key, events in ready:
                rest = rests[key.data]
                _move(key.data, rest, events)
                if not rest.events:
                    selector.unregister(key.fileobj)
                elif rest.events != key.events:
                    selector.modify(key.fileobj, rest.events, key.data)


def _move(channel: Channel, rest: _Rest, events: int) -> None:
    """Send and receive what is possible without waiting."""
    try:
        if events & selectors.EVENT_WRITE:
            rest.sending = rest.sending[channel.socket.send(rest.sending) :]
        if events & selectors.EVENT_READ:
            received = channel.socket.recv_into(rest.receiving)
            if received == 0:
                raise PeerLost(f"expected data from {channel.peer}, got the end of the connection")
            rest.receiving = rest.receiving[received:]
    except BlockingIOError:
        pass
    except OSError as error:
        raise PeerLost(f"expected data from {channel.peer}, got {error}") from error


class Meeting:
    """Connections at the start. Peers start at different times, so everything is tried until a deadline."""

    def __init__(self, job: Job, longest_s: float) -> None:
        self.job = job
        self.deadline = time.monotonic() + longest_s
        self.longest_s = longest_s

    def listen(self) -> socket.socket:
        """Listen at this process's own address."""
        host, port = self._address(self.job.role, self.job.rank)
        while True:
            try:
                listener = socket.create_server((host, port), family=_family(host), backlog=64)
            except OSError as error:  # the process of the last generation may not have gone yet
                self._pause(f"expected to listen on {host}:{port}, got {error}")
                continue
            listener.settimeout(RETRY_S)
            return listener

    def accept(self, listener: socket.socket, ranks: Iterable[int]) -> Mapping[int, Channel]:
        """Accept one connection of each of these workers, by rank. Others are closed.

        Raises
        ------
        PeerLost
            If one does not come in time.
        StoppedEarly
            If SIGTERM comes first.
        """
        missing, found = set(ranks), dict[int, Channel]()
        while missing:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                self._check(f"expected workers {sorted(missing)} to connect, got none of them")
                continue
            said = self._greeting(connection)
            greeted = [rank for rank in missing if said == self._hello("worker", rank)]
            if not greeted or not self._greet(connection):
                connection.close()
                self._check(f"expected workers {sorted(missing)} to connect, got others")
                continue
            found[greeted[0]] = self._channel(connection, "worker", greeted[0])
            missing.remove(greeted[0])
        return found

    def connect(self, role: str, rank: int) -> Channel:
        """Connect to a peer.

        Raises
        ------
        PeerLost
            If it does not answer in time.
        StoppedEarly
            If SIGTERM comes first.
        """
        host, port = self._address(role, rank)
        while True:
            try:
                connection = socket.create_connection((host, port), timeout=HELLO_S)
            except OSError as error:
                self._pause(f"expected {role} {rank} to listen on {host}:{port}, got {error}")
                continue
            if self._greet(connection) and self._greeting(connection) == self._hello(role, rank):
                return self._channel(connection, role, rank)
            connection.close()
            self._pause(f"expected {role} {rank} of generation {self.job.generation} on {host}:{port}, got another")

    def _hello(self, role: str, rank: int) -> bytes:
        """Return what a process of this job says first: one of another generation says something else."""
        sizes = len(self.job.workers), len(self.job.parameter_servers)
        return HELLO.pack(WORD, self.job.generation, role == "ps", rank, *sizes)

    def _greet(self, connection: socket.socket) -> bool:
        try:
            connection.sendall(self._hello(self.job.role, self.job.rank))
        except OSError:
            return False
        return True

    def _greeting(self, connection: socket.socket) -> bytes:
        """Return what the other side said first; empty if it ended or said nothing."""
        connection.settimeout(min(HELLO_S, max(RETRY_S, self.deadline - time.monotonic())))
        try:
            return connection.recv(HELLO.size, socket.MSG_WAITALL)
        except OSError:
            return b""

    def _check(self, message: str) -> None:
        if SIGNALS.terminated:
            raise StoppedEarly
        if time.monotonic() > self.deadline:
            raise PeerLost(f"{message} for {self.longest_s:g} s")

    def _pause(self, message: str) -> None:
        self._check(message)
        time.sleep(RETRY_S)

    def _address(self, role: str, rank: int) -> Address:
        return (self.job.workers if role == "worker" else self.job.parameter_servers)[rank]

    def _channel(self, connection: socket.socket, role: str, rank: int) -> Channel:
        host, port = self._address(role, rank)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        return Channel(connection, f"{role} {rank} at {host}:{port}")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
