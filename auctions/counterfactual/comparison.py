"""Compare a market's record with its replay under another policy: job by job, and in total."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from auctions.counterfactual.outcome import Outcome
from auctions.counterfactual.record import Record
from auctions.counterfactual.replayed import ReplayedMarket
from auctions.domain.totals import VALUE_KEPT
from auctions.models import Bid, BidState
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.errors import SchedulingError
from scheduling.model.types import Json
from scheduling.policies.base import Policy

Progress = Callable[[int, int], None]
"""Called with the number of events replayed so far and their total number; it may raise to stop."""

GROUPS: Final = {
    BidState.COMPLETED: "completed",
    BidState.REJECTED: "rejected",
    BidState.STANDING: "standing",
    BidState.RUNNING: "running",
    BidState.PLANNED: "planned",
    BidState.CANCELLED: "ended",
    BidState.FAILED: "ended",
    BidState.WITHDRAWN: "withdrawn",
    BidState.QUARANTINED: "quarantined",
    BidState.SUBMITTED: "undecided",
}


class NotConserved(SchedulingError):
    """Bids were lost or counted twice: the replay is wrong, and none of its figures is valid."""


@dataclass(frozen=True)
class Side:
    """The outcome of one bid in one replay. Slots are numbers, money is in the bid's own unit."""

    state: BidState
    admitted: bool | None
    """None if not decided. A standing bid counts as rejected until it is admitted."""
    start: int | None
    completion: int | None
    payment: float
    value: float
    payoff: float
    reason: str
    explanation: str
    refund: float = 0.0
    """Refund of a failed job."""

    @classmethod
    def of(cls, outcome: Outcome, core: CoreBid, *, slot: int) -> "Side":
        """Return an outcome once slot `slot` has begun."""
        value = outcome.value(core.utility, arrival=core.arrival)
        return cls(
            state=outcome.state(slot),
            admitted=outcome.admitted,
            start=outcome.start,
            completion=outcome.completed,
            payment=outcome.payment,
            value=value,
            payoff=value - outcome.payment + outcome.refund,
            reason=outcome.reason,
            explanation=outcome.explanation,
            refund=outcome.refund,
        )

    @property
    def granted(self) -> tuple[object, ...]:
        """The fields that are compared."""
        return self.admitted, self.start, self.completion, self.payment, self.state


@dataclass(frozen=True)
class ComparedBid:
    """One bid, in the record and in the counterfactual replay."""

    sequence: int
    label: str
    owner: str
    arrival: int
    """Slot of arrival."""
    recorded: Side
    other: Side

    @property
    def changed(self) -> bool:
        """Whether admission, start, completion, payment or state differ."""
        return self.recorded.granted != self.other.granted

    @property
    def sides(self) -> tuple[Side, Side]:
        """The recorded side, and the other one."""
        return self.recorded, self.other

    def to_json(self) -> Json:
        """Return plain values, which `from_json` reads."""
        return {**asdict(self), "changed": self.changed}

    @classmethod
    def from_json(cls, document: Json) -> "ComparedBid":
        """Read what `to_json` wrote."""
        sides = {name: Side(**{**document[name], "state": BidState(document[name]["state"])}) for name in SIDES}
        return cls(**{**{key: value for key, value in document.items() if key != "changed"}, **sides})


SIDES: Final = ("recorded", "other")


@dataclass(frozen=True)
class Totals:
    """Totals over all bids of one replay.

    submitted = completed + rejected + standing + running + planned + ended + withdrawn + quarantined + undecided.
    """

    submitted: int
    completed: int
    rejected: int
    """Rejected for good."""
    standing: int
    """Rejected, and tried again."""
    running: int
    """Started, but not complete."""
    planned: int
    """Admitted, but not started."""
    ended: int
    """Cancelled, or failed."""
    withdrawn: int
    quarantined: int
    """The policy failed on them."""
    undecided: int
    welfare: float
    """Value of jobs that are complete or will be completed, money."""
    revenue: float
    """Payments, also of jobs that were cancelled or failed later, less refunds."""
    payoff: float
    """Welfare - revenue."""
    admitted: int
    acceptance: float | None
    """Share of admitted bids among the decided ones; None if no bid was decided."""
    mean_jct_slots: float | None
    """Mean of completion - arrival over jobs that are complete or have a planned completion; None if there are none."""
    common_mean_jct_slots: float | None
    """The same, over jobs that have a completion in both replays."""

    def __post_init__(self) -> None:
        parts = [getattr(self, name) for name in sorted(set(GROUPS.values()))]
        if self.submitted != sum(parts):
            raise NotConserved(f"{self.submitted} submitted, but {sum(parts)} counted")


@dataclass(frozen=True)
class Comparison:
    """A market's record, and the counterfactual under another policy."""

    version: int
    """The market's version up to which events were replayed."""
    slot: int
    """The last slot that had begun."""
    since: int
    """Sequence number of the first bid that the other policy decides."""
    rows: tuple[ComparedBid, ...]
    """Bids from `since` on."""
    recorded: Totals
    other: Totals
    earlier_changed: int
    """Jobs decided before `since` that would have had another start, completion or end."""
    failed_plans: int = 0
    """The number of times that the other policy failed to plan; jobs then kept what they held."""
    whole: bool = True
    """False if time ran out: then only the events up to `version` were replayed."""

    @property
    def decided(self) -> int:
        """Number of recorded decisions among the rows."""
        return sum(row.recorded.admitted is not None for row in self.rows)

    @property
    def changed(self) -> int:
        """Number of rows that would have been different."""
        return sum(row.changed for row in self.rows)

    def to_json(self) -> Json:
        """Return plain values."""
        return {
            "version": self.version,
            "slot": self.slot,
            "since": self.since,
            "decided": self.decided,
            "changed": self.changed,
            "earlier_changed": self.earlier_changed,
            "failed_plans": self.failed_plans,
            "whole": self.whole,
            "recorded": asdict(self.recorded),
            "other": asdict(self.other),
            "rows": [row.to_json() for row in self.rows],
        }


class Enough(Exception):
    """Raised by a progress function to stop the replay: the events replayed so far are compared."""


def nobody(done: int, total: int) -> None:
    """Do not report progress."""


def compare(
    record: Record, policy: Policy, *, since: int = 1, decided_from: int | None = None, progress: Progress = nobody
) -> Comparison:
    """Replay a record with bids from number `since` on decided by another policy, and compare both.

    With `decided_from`, these are instead the bids that were first decided in that version or later: owners take turns,
    so their numbers may be among those of bids that were decided before.

    Raises
    ------
    scheduling.model.errors.InvalidField
        If the market could not have changed to that policy then, or the policy cannot run on its servers.
    Enough
        If `progress` raises it before any event was replayed under the other policy.
    """
    start = record.decided_from(since) if decided_from is None else decided_from
    since = since if start is None else max(since, 1)
    recorded = _before(record, start, checkpoint=lambda: progress(0, 1))
    if decided_from is None:
        chosen = Bid.objects.filter(
            market_id=record.market_id, seal=None, sequence__gte=since, sequence__lte=record.submitted
        )
    else:
        chosen = record.decided_since(decided_from)
    columns = ("sequence", "label", "core_bid", "owner__username", "market_id")
    bids = list(chosen.select_related("owner").order_by("sequence").only(*columns))
    if decided_from is not None:
        since = min((bid.sequence for bid in bids), default=since)
    again = {str(bid.sequence) for bid in bids}
    other = recorded.fork()
    version = record.version if start is None else _replay_both(record, policy, start, (recorded, other), progress)
    for name in (str(bid.sequence) for bid in bids):
        for replayed in (recorded, other):
            replayed.outcomes.setdefault(name, Outcome())
    if version < record.version:
        bids = [bid for bid in bids if recorded.outcomes[str(bid.sequence)].admitted is not None]
    slot = record.slot if recorded.slot is None else recorded.slot
    rows = tuple(_row(bid, recorded, other, slot=slot) for bid in bids)
    return Comparison(
        version=version,
        slot=slot,
        since=since,
        rows=rows,
        recorded=_totals(len(bids), [row.recorded for row in rows], rows),
        other=_totals(len(bids), [row.other for row in rows], rows),
        earlier_changed=_changed_before(recorded, other, again),
        failed_plans=other.failed_plans,
        whole=version == record.version,
    )


def _replay_both(
    record: Record, policy: Policy, start: int, both: tuple[ReplayedMarket, ReplayedMarket], progress: Progress
) -> int:
    """Replay events from version `start` on, as recorded and under the policy; return the last replayed version."""
    recorded, other = both
    other.switch(policy)
    total, version = record.rows(since=start).count(), start - 1
    try:
        for done, event in enumerate(record.events(since=start)):
            progress(done, total)
            recorded.apply(event)
            other.apply(event)
            version = event.version
    except Enough:
        if version < start:
            raise
    return version


def _before(record: Record, start: int | None, *, checkpoint: Callable[[], None]) -> ReplayedMarket:
    """Return the state just before this event, or the state at the end if no bid was decided."""
    return record.before(record.version + 1 if start is None else start, checkpoint=checkpoint)


def _row(bid: Bid, recorded: ReplayedMarket, other: ReplayedMarket, *, slot: int) -> ComparedBid:
    core, name = CoreBid.from_json(bid.core_bid), str(bid.sequence)
    return ComparedBid(
        sequence=bid.sequence,
        label=bid.label,
        owner=bid.owner.get_username(),
        arrival=core.arrival,
        recorded=Side.of(recorded.outcomes[name], core, slot=slot),
        other=Side.of(other.outcomes[name], core, slot=slot),
    )


def _totals(submitted: int, sides: Sequence[Side], rows: Sequence[ComparedBid]) -> Totals:
    groups = Counter(GROUPS[side.state] for side in sides)
    welfare, revenue = sum(side.value for side in sides), sum(side.payment - side.refund for side in sides)
    over = (side for side in sides if side.state is not BidState.STANDING)
    decided = [side.admitted for side in over if side.admitted is not None]
    both = [all(_has_end(side) for side in (row.recorded, row.other)) for row in rows]
    pairs = list(zip(rows, sides, strict=True))
    return Totals(
        submitted=submitted,
        **{name: groups[name] for name in sorted(set(GROUPS.values()))},
        welfare=welfare,
        revenue=revenue,
        payoff=welfare - revenue,
        admitted=sum(decided),
        acceptance=sum(decided) / len(decided) if decided else None,
        mean_jct_slots=_mean(_jct(row, side) for row, side in pairs),
        common_mean_jct_slots=_mean(_jct(row, side) for (row, side), kept in zip(pairs, both, strict=True) if kept),
    )


def _has_end(side: Side) -> bool:
    return side.state in VALUE_KEPT and side.completion is not None


def _jct(row: ComparedBid, side: Side) -> int | None:
    return side.completion - row.arrival if _has_end(side) and side.completion is not None else None


def _mean(numbers: Iterable[int | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known else None


def _changed_before(recorded: ReplayedMarket, other: ReplayedMarket, again: Collection[str]) -> int:
    """Return how many jobs of other bids than these have another start, completion or end."""
    return sum(
        (a.start, a.completed, a.ended) != (b.start, b.completed, b.ended)
        for name, a in recorded.outcomes.items()
        if name not in again and (b := other.outcomes.get(name)) is not None
    )
