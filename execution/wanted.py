"""The machines that each bid holds now, from the market's commitments and from the heads of workers' queues."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from auctions.models import Bid, BidState, Commitment, Market
from auctions.readings import queues
from cluster import clock
from cluster.models import ClockKind, Cluster, MachineRole
from execution.models import ProcessRole
from execution.steps import Allocation, Machines, Wanted, merged

GOING = (BidState.PLANNED, BidState.RUNNING)
"""States of bids that hold machines now or later."""


@dataclass(frozen=True)
class Timeline:
    """The present of a cluster, and the wall time of its slots."""

    at: float
    """Present, slots: a number of slots and a fraction."""
    now_s: float
    """Present, seconds since 1970."""
    slot_s: float
    """Length of a slot on the wall clock, seconds; infinite while a virtual clock is stopped."""

    @property
    def slot(self) -> int:
        """The slot under way."""
        return int(self.at // 1)

    def wall(self, slot: float) -> float:
        """Return the time of a slot's beginning, seconds since 1970."""
        return self.now_s if slot == self.at else self.now_s + (slot - self.at) * self.slot_s

    def slot_at(self, wall_s: float) -> float:
        """Return the number of slots, with a fraction, at a time in seconds since 1970, by the present speed."""
        return self.at + (wall_s - self.now_s) / self.slot_s


def timeline(cluster: Cluster) -> Timeline:
    """Read the cluster's clock."""
    reading = clock.read(cluster)
    virtual = cluster.clock_speed if cluster.clock_running else 0.0
    speed = 1.0 if cluster.clock_kind == ClockKind.REAL else virtual
    slot_s = cluster.slot_seconds / speed if speed else float("inf")
    return Timeline(reading.seconds / cluster.slot_seconds, reading.wall.timestamp(), slot_s)


@dataclass(frozen=True)
class Held:
    """Machines that a bid holds in slots [start, end)."""

    bid: int
    machines: Machines
    start: float
    end: float


@dataclass(frozen=True)
class Span:
    """The machines that a bid holds in a part of a slot or in several slots."""

    allocation: Allocation
    until: float
    """End, slots."""
    last: bool
    """Whether the bid holds nothing afterwards."""

    def on_the_wall(self, time: Timeline) -> Wanted:
        """Return this with its end in seconds since 1970."""
        return Wanted(self.allocation, time.wall(self.until), self.last)


def wanted_now(held: Iterable[Held], time: Timeline) -> dict[int, Wanted]:
    """Return what each bid holds now, and until when it holds exactly this, by key of the bid."""
    return {bid: span.on_the_wall(time) for bid, span in spans_at(held, time.at).items()}


def spans_at(held: Iterable[Held], at: float) -> dict[int, Span]:
    """Return what each bid holds at a time in slots, by key of the bid."""
    of: dict[int, list[Held]] = defaultdict(list)
    for one in held:
        if one.end > at:
            of[one.bid].append(one)
    found: dict[int, Span] = {}
    for bid, mine in of.items():
        now = merged(one.machines for one in mine if one.start <= at)
        if not now:
            continue
        times = sorted({edge for one in mine for edge in (one.start, one.end) if edge > at})
        until = next(edge for edge in times if _at(mine, edge) != now)
        found[bid] = Span(now, until, last=until == times[-1])
    return found


class Holdings:
    """The machines that bids of markets hold now.

    Promises are read again when the market or the slot is another one.
    """

    def __init__(self) -> None:
        self._promised: dict[int, tuple[tuple[int, ...], list[Held], dict[int, Span]]] = {}

    def wanted(self, market: Market, time: Timeline) -> dict[int, Wanted]:
        """Return what each bid holds now; the row of the market is that of the version that this block reads."""
        held, spans = self._promises(market, time)
        if queued := held_in_queues(market, time):
            return wanted_now(held + queued, time)
        return {bid: span.on_the_wall(time) for bid, span in spans.items()}

    def _promises(self, market: Market, time: Timeline) -> tuple[list[Held], dict[int, Span]]:
        # Promises begin and end with slots, so nothing changes within a slot while the market does not.
        version = market.version, market.ledger_version, market.slot, time.slot
        known = self._promised.get(market.pk)
        if known is None or known[0] != version:
            held = held_by_promise(market, time)
            known = self._promised[market.pk] = version, held, spans_at(held, time.at)
        return known[1], known[2]


def _at(held: Iterable[Held], slot: float) -> tuple[Machines, ...]:
    return merged(one.machines for one in held if one.start <= slot < one.end)


def held_by_promise(market: Market, time: Timeline) -> list[Held]:
    """Return the machines that bids hold by commitments from now on."""
    rows = Commitment.objects.filter(bid__market=market, bid__state__in=GOING, end__gt=time.slot)
    columns = ("bid_id", "machine_type__role", "server_id", "machine_type_id", "count", "start", "end")
    return [
        Held(bid, Machines(_ROLES[role], server, machine, count), start, end)
        for bid, role, server, machine, count, start, end in rows.values_list(*columns)
    ]


def held_in_queues(market: Market, time: Timeline) -> list[Held]:
    """Return the workers that process bids' chunks now, and the parameter servers of these bids; empty without queues.

    A worker processes the chunk at the head of its queue. Its end is a forecast: a bid that arrives may come first.
    """
    busy = queues.stretches(market, start=time.slot, end=time.slot + 1)
    heads = [stretch for stretch in busy if stretch.start <= time.at < stretch.end]
    if not heads:
        return []
    numbers = {stretch.sequence for stretch in heads}
    bids = dict(Bid.objects.filter(market=market, sequence__in=numbers).values_list("sequence", "pk"))
    pss = queues.ps_at(market, busy, at=time.at)
    both = [(ProcessRole.WORKER, head) for head in heads] + [(ProcessRole.PS, ps) for ps in pss.values()]
    return [
        Held(bids[one.sequence], Machines(role, one.server_id, one.machine_type_id, one.count), one.start, one.end)
        for role, one in both
    ]


_ROLES: Mapping[str, str] = {MachineRole.WORKER: ProcessRole.WORKER, MachineRole.PS: ProcessRole.PS}
