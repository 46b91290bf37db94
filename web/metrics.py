"""Metrics of processes in the format of Prometheus: answers of web processes, and steps of workers and submissions.

Each process counts in files of its own in `settings.METRICS_DIR`, which all processes of a host share (containers: a
volume). Whichever process is asked adds all of them up. Files of ended processes stay, since what they counted still
counts. Every metric has labels, so that a process that counts nothing makes no file.
"""

import logging
import os
import socket
from collections.abc import Callable
from time import perf_counter, time_ns
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, values
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the buckets of every histogram, seconds."""

METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
"""Methods that have a label of their own: a client may invent others."""
RESERVED_BYTES: Final = 1 << 18
"""Size of a new file."""
LARGEST_ENTRY_BYTES: Final = 64
"""Bytes of an entry of a file besides its key."""

of_rooms: list[Collector] = []
"""Collectors that rooms above the one of the markets have added."""

log = logging.getLogger(__name__)


def _process() -> str:
    """The name of this process in the names of its files; containers that share a volume have numbers in common.

    The library asks before it opens a file, whose directory it takes from the environment; a process may have got
    another environment since this module was imported.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(settings.METRICS_DIR)
    return f"{socket.gethostname()}-{os.getpid()}"


class _Reserved(MmapedDict):
    """A file whose space on the disk is reserved before it is written: on a full disk the kernel would end the process.

    Raises OSError if there is no space.
    """

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        if not read_mode:
            with open(filename, "ab") as file:
                os.posix_fallocate(file.fileno(), 0, RESERVED_BYTES)
        super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        if self._used + len(key.encode()) + LARGEST_ENTRY_BYTES > self._capacity:
            os.posix_fallocate(self._f.fileno(), 0, 2 * self._capacity)
        super()._init_value(key)  # type: ignore[no-untyped-call]


if settings.METRICS_DIR is not None:
    setattr(values, "MmapedDict", _Reserved)  # noqa: B010 (the library's types do not export it)
    values.ValueClass = values.MultiProcessValue(_process)  # type: ignore[no-untyped-call]

_OWN: Final = CollectorRegistry()
"""The metrics of this process alone."""
ANSWERS: Final = Histogram(
    "shadowprice_http_seconds",
    "Time to the beginning of an answer, by the name of the address.",
    ["method", "route", "status"],
    buckets=BUCKETS,
    registry=_OWN,
)
STEPS: Final = Histogram(
    "shadowprice_step_seconds",
    "Time of a step of storing or deciding bids, many bids at a time.",
    ["work", "step", "policy"],
    buckets=BUCKETS,
    registry=_OWN,
)

STREAM_READS: Final = Counter(
    "shadowprice_stream_reads",
    "Queries of versions for event streams, by what caused them.",
    ["cause"],
    registry=_OWN,
)
STREAM_SUBSCRIPTIONS: Final = Counter(
    "shadowprice_stream_subscriptions",
    "Subscriptions to announcements of the broker that began, and that were lost.",
    ["outcome"],
    registry=_OWN,
)
CONNECTIONS_ENDED: Final = Counter(
    "shadowprice_connections_ended",
    "Connections that were refused or ended because of a limit, by the limit.",
    ["cause"],
    registry=_OWN,
)


KNOWN_LABELS: Final = (
    (STREAM_READS, ("stream", "announcement", "check", "poll")),
    (STREAM_SUBSCRIPTIONS, ("begun", "lost")),
    (CONNECTIONS_ENDED, ("head", "body", "large head", "queue", "address", "all", "room")),
)
"""The counters of web processes, each with all its labels."""


class Laps:
    """Times of the steps of one piece of work; nothing is counted before `count`."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._began = perf_counter()
        self._began_ns = time_ns()
        self._steps: list[tuple[str, float]] = []

    def lap(self, step: str) -> None:
        """End a step, which began at the end of the previous one."""
        now = perf_counter()
        self._steps.append((step, now - self._began))
        self._began = now

    def times(self) -> dict[str, tuple[int, int]]:
        """Return begin and end of each step, nanoseconds of the wall clock."""
        found, began = {}, self._began_ns
        for step, seconds in self._steps:
            ended = began + int(seconds * 1e9)
            found[step], began = (began, ended), ended
        return found

    def count(self, *, policy: str) -> None:
        """Count the steps."""
        for step, seconds in self._steps:
            _observe(STEPS, (self._work, step, policy), seconds)


def count_answers(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware that measures the time of each answer; an event stream counts to its beginning."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        began = perf_counter()
        response = get_response(request)
        route = request.resolver_match.view_name if request.resolver_match else "unknown"
        method = request.method if request.method in METHODS else "other"
        _observe(ANSWERS, (str(method), route, str(response.status_code)), perf_counter() - began)
        return response

    return middleware


def _observe(histogram: Histogram, labels: tuple[str, ...], seconds: float) -> None:
    """Count a time; a disk without space must not stop what is measured."""
    try:
        histogram.labels(*labels).observe(seconds)
    except OSError as error:
        log.warning("a time is not counted in the metrics (%s)", error)


def begin_at_zero() -> None:
    """Write the counters of this web process as 0: Prometheus sees no increase if the first value of a label is 1."""
    for counter, labels in KNOWN_LABELS:
        for label in labels:
            _add(counter, label, 0)


def add_one(counter: Counter, label: str) -> None:
    """Add one to a counter."""
    _add(counter, label, 1)


def _add(counter: Counter, label: str, number: int) -> None:
    """Add to a counter; a disk without space must not stop what is counted."""
    try:
        counter.labels(label).inc(number)
    except OSError as error:
        log.warning("an event is not counted in the metrics (%s)", error)


def forget() -> None:
    """Delete what processes that have ended have counted; none of this host may run."""
    if settings.METRICS_DIR is not None:
        for file in settings.METRICS_DIR.glob("*.db"):
            file.unlink()


def exposition(*collectors: Collector) -> bytes:
    """Return the metrics of all processes of this host, and those of the collectors, as Prometheus reads them."""
    registry = _OWN
    if settings.METRICS_DIR is not None:
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(settings.METRICS_DIR))  # type: ignore[no-untyped-call]
    others = CollectorRegistry()
    for collector in collectors:
        others.register(collector)
    return bytes(generate_latest(registry)) + bytes(generate_latest(others))
