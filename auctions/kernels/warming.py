"""Load kernels into a server that already answers: first those of open markets, others on request.

Two separate processes compile, because compiling in the server would delay every page; the server and its worker, which
has a process of its own, then load the result. Until a market's kernels are loaded, a quote is answered with an error
that says so, and bids wait. Other markets are not affected. A process without a `Warming`, such as a worker of a larger
installation, compiles what it needs itself.
"""

import json
import logging
import os
import subprocess
from collections.abc import Callable, Iterable
from threading import Condition, Thread
from time import monotonic

from django.conf import settings

from auctions.domain.errors import NotReady
from auctions.kernels import compiling
from auctions.models import Market, PolicyVersion
from cluster import memory
from cluster.database.waiting import never_in_transaction
from scheduling import kernels
from scheduling.kernels import Group
from scheduling.model.errors import PolicyMissing
from scheduling.policies.base import Policy

SIDE_BY_SIDE = 2
"""Processes that compile at the same time."""
WORKERS = "workers"
"""The name of the lock that a worker has while it compiles what a market needs."""

log = logging.getLogger(__name__)
_current: "Warming | None" = None


class Warming:
    """The kernels that this process has requested, until it stops."""

    on_ready: Callable[[], None] = staticmethod(lambda: None)
    """Called after each group is loaded, in a separate thread."""

    def __init__(self, groups: Iterable[Group] = (), *, follows: bool = False) -> None:
        """Request these groups; a process that follows leaves compiling to another one that requests the same."""
        global _current
        self._follows = follows
        self._asked: set[Group] = set()
        self._ready: set[Group] = set()
        self._changed = Condition()
        self._children: list[subprocess.Popen[bytes]] = []
        self._closed = False
        self.ask(groups)
        _current = self

    @property
    def is_busy(self) -> bool:
        """Return whether a requested kernel is not loaded yet."""
        return self._asked != self._ready

    def has(self, groups: Iterable[Group]) -> bool:
        """Return whether these groups are loaded; groups that were not requested before are compiled from now on."""
        self.ask(groups)
        return self._ready.issuperset(groups)

    def wait(self, groups: Iterable[Group], *, at_most_s: float) -> bool:
        """Return the same after this time, or as soon as they are loaded."""
        if at_most_s > 0:
            never_in_transaction("The compiling of kernels")
        self.ask(groups)
        with self._changed:
            return self._changed.wait_for(lambda: self._ready.issuperset(groups), at_most_s)

    def ask(self, groups: Iterable[Group], *, follows: bool = False) -> None:
        """Compile these groups in this order, unless they have been requested already.

        With `follows` it leaves compiling to another process that has begun with these groups.
        """
        with self._changed:
            new = tuple(dict.fromkeys(group for group in groups if group not in self._asked))
            if not new or self._closed:
                return
            self._asked.update(new)
            reader, writer = os.pipe()
            parts = kernels.parts_of(new)
            follows = follows or self._follows
            for _ in range(1 if follows else min(SIDE_BY_SIDE, len(parts))):
                command = compiling.command([compiling.FOLLOW, *parts] if follows else parts)
                self._children.append(subprocess.Popen(command, cwd=settings.BASE_DIR, stdout=writer))  # noqa: S603
            os.close(writer)
        Thread(target=self._follow, args=(new, reader), name="warming", daemon=True).start()

    def close(self) -> None:
        """Terminate the compiling processes that have not finished."""
        global _current
        with self._changed:
            self._closed = True
        for child in self._children:
            child.terminate()
            child.wait()
        _current = None

    def _follow(self, groups: tuple[Group, ...], reader: int) -> None:
        """Load each group as soon as all of its parts are on disk."""
        left, done = list(groups), set[str]()
        with open(reader, encoding="ascii") as lines:
            for line in lines:
                done.add(json.loads(line).get("part", ""))
                for group in [group for group in left if done.issuperset(group.parts)]:
                    left.remove(group)
                    self._load(group)
        # Processes that were killed, or could not compile: it is done here after all, or the error is raised here.
        for group in left:
            if not self._closed:
                log.warning("the kernels %s are compiled in this process: the others ended before", group.name)
                self._load(group)
        if not self.is_busy:
            memory.pass_over_what_is_loaded()

    def _load(self, group: Group) -> None:
        try:
            kernels.warm_up(group)
        except Exception:  # callers of the kernels get the same error
            log.exception("the kernels %s cannot be compiled", group.name)
        with self._changed:
            self._ready.add(group)
            self._changed.notify_all()
        try:
            self.on_ready()
        except Exception:  # the next sweep finds what waits
            log.exception("nobody was woken when the kernels %s were there", group.name)


def _needed_by(market_id: int) -> tuple[Group, ...]:
    """Return the kernels that the policy of a market needs."""
    return kernels.needed_by(PolicyVersion.in_force(market_id).policy())


def groups_of_open_markets() -> tuple[Group, ...]:
    """Return the kernels that open markets need, in the order of the markets.

    A market whose policy this version does not have needs none: it must not keep others from being decided.
    """
    needed: dict[Group, None] = {}
    for pk in Market.objects.filter(is_open=True).order_by("pk").values_list("pk", flat=True):
        try:
            needed |= dict.fromkeys(_needed_by(pk))
        except PolicyMissing as error:
            log.error("%s", error)
    return tuple(needed)


def prepare(market_id: int, *, before_compiling: Callable[[], object] = lambda: None) -> bool:
    """Return whether a worker may process this market now.

    In a server it is False while other processes compile the kernels. Any other process loads them first, and compiles
    those that are not on disk; it is False while another worker compiles. So one worker compiles, and the others go on
    with other markets. `before_compiling` is called before this process compiles, so that it keeps no market from them.
    Call it outside transactions, which must not wait for a compiler.
    """
    groups = _needed_by(market_id)
    if _current is not None:
        return _current.has(groups)
    if all(compiling.is_kept(part) for part in kernels.parts_of(_not_loaded(groups))):
        compile_here(groups)
        return True
    with compiling.turn(WORKERS, wait=False) as is_mine:
        if is_mine:
            before_compiling()
            compile_here(groups)
    return is_mine


def load(market_id: int) -> None:
    """Load what a market needs into this process, and wait for what another process compiles."""
    compile_here(_needed_by(market_id))


def load_soon(market_id: int) -> None:
    """Let a server begin to load what a market needs, before it is asked for a quote; other processes need not."""
    if _current is not None:
        _current.ask(_needed_by(market_id))


def compile_here(groups: Iterable[Group]) -> None:
    """Load kernels into this process, and compile those that no other process compiles."""
    never_in_transaction("The compiling of kernels")
    new = _not_loaded(groups)
    if new:
        compiling.compile_all(kernels.parts_of(new))
        kernels.warm_up(*new)
        memory.pass_over_what_is_loaded()


def _not_loaded(groups: Iterable[Group]) -> list[Group]:
    return [group for group in groups if not kernels.is_warm(group)]


def words(market_id: int) -> str:
    """Return a message that says what a market waits for; empty if it waits for nothing."""
    if _current is None or not _current.is_busy:
        return ""
    policy = PolicyVersion.in_force(market_id).policy()
    return "" if _current.has(kernels.needed_by(policy)) else f"{_words(policy)}; bids wait and will be decided."


def check(*policies: Policy, patience_s: float = 0.0) -> None:
    """Raise NotReady, naming the first of these policies whose kernels are not loaded within `patience_s` seconds."""
    end = monotonic() + patience_s
    for policy in policies:
        groups = kernels.needed_by(policy)
        if _current is not None and not _current.wait(groups, at_most_s=max(0.0, end - monotonic())):
            raise NotReady(f"{_words(policy)}; ask again in a few seconds.")


def check_market(market_id: int) -> None:
    """Raise NotReady if the kernels of the market's policy are not loaded."""
    if _current is not None:
        check(PolicyVersion.in_force(market_id).policy())


def _words(policy: Policy) -> str:
    return f"The server is compiling the kernels of {policy.title.partition(':')[0]}"
