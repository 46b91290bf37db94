"""State transitions of a bid; only this module writes a bid's state.

    submitted -> planned | running | standing | rejected | withdrawn | quarantined
    standing -> planned | running | rejected | withdrawn | quarantined
    quarantined -> submitted | standing | withdrawn
    planned -> running | cancelled | failed
    running -> planned | completed | cancelled | failed

A running job is completed when its last slot has passed, or earlier if its training ends before.

A running job returns to planned only at the very beginning of its first slot, if a plan moves it before it has held
anything.

Each transition is a compare-and-swap: it names the states that it may leave, and fails if the row is in another state.
`replan` and `end` instead check the rows that they are given, which are read under the market's lock.
Decisions do both, and many are written with one statement: `admitted`, `rejected` and `stands` change only the objects,
and `write_decided` writes their rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import F

from auctions.domain.errors import WrongState
from auctions.models import Bid, BidState, Market
from cluster import changes
from cluster.database.prepared import Prepared
from cluster.database.updating import update_rows

STEPS: Final = {
    BidState.SUBMITTED: {
        BidState.PLANNED,
        BidState.RUNNING,
        BidState.STANDING,
        BidState.REJECTED,
        BidState.WITHDRAWN,
        BidState.QUARANTINED,
    },
    BidState.STANDING: {
        BidState.PLANNED,
        BidState.RUNNING,
        BidState.REJECTED,
        BidState.WITHDRAWN,
        BidState.QUARANTINED,
    },
    BidState.QUARANTINED: {BidState.SUBMITTED, BidState.STANDING, BidState.WITHDRAWN},
    BidState.PLANNED: {BidState.RUNNING, BidState.CANCELLED, BidState.FAILED},
    BidState.RUNNING: {BidState.PLANNED, BidState.COMPLETED, BidState.CANCELLED, BidState.FAILED},
}


Window = tuple[int | None, int | None]
"""First slot and completion; None if nothing is planned."""


@dataclass(frozen=True)
class Begun:
    """Sequence numbers of the jobs that started and of those that were completed when slots passed."""

    running: list[int]
    completed: list[int]


@dataclass(frozen=True)
class Decided:
    """A bid that was decided; its object has its new state, and its row does not have it yet."""

    bid: Bid
    was: BidState
    """State of the row."""


DECIDED_FIELDS: Final = (
    "state", "value", "payment", "start_slot", "completion_slot", "tried_slot", "stands_until",
)  # fmt: skip


_SEQUENCES: Final = Bid.objects.order_by("sequence").values_list("sequence")
_WITHDRAWN = Prepared(lambda market: _SEQUENCES.filter(market=market, unrecorded_withdrawal=True), int)
_STARTING = Prepared(
    lambda market, slot: _SEQUENCES.filter(market=market, state=BidState.PLANNED, start_slot__lte=slot), int, int
)
_ENDING = Prepared(
    lambda market, slot: _SEQUENCES.filter(market=market, state=BidState.RUNNING, completion_slot__lte=slot), int, int
)


def admitted(bid: Bid, *, value: float, payment: float, window: Window, slot: int) -> Decided:
    """Admit the bid, with a schedule in slots [start, completion) if any; it is running if it starts by `slot`."""
    start, completion = window
    fields = {"value": value, "payment": payment, "start_slot": start, "completion_slot": completion}
    return _decided(bid, _state(start, slot), fields)


def replan(windows: Sequence[tuple[Bid, Window]], *, slot: int) -> None:
    """Give planned and running jobs another start and completion. 200 jobs need no more statements than one."""
    for bid, (start, completion) in windows:
        state = _state(start, slot)
        if state != bid.state and state not in STEPS[BidState(bid.state)]:
            raise _wrong_state(bid, BidState(bid.state), _origins(state), state)
        bid.state, bid.start_slot, bid.completion_slot = state, start, completion
    update_rows([bid for bid, _ in windows], ["state", "start_slot", "completion_slot"])


def rejected(bid: Bid) -> Decided:
    """Reject a waiting or standing bid."""
    return _decided(bid, BidState.REJECTED, {})


def stands(bid: Bid, *, slot: int, until: int) -> Decided:
    """Let a waiting bid stand that was rejected in slot `slot`; it is tried again up to slot `until`."""
    return _decided(bid, BidState.STANDING, {"tried_slot": slot, "stands_until": until})


def write_decided(decided: Sequence[Decided]) -> None:
    """Write these bids' rows with one statement; raise WrongState if a row is in another state than its object was."""
    bids = [one.bid for one in decided]
    if update_rows(bids, DECIDED_FIELDS, only_if=("state", [one.was for one in decided])) == len(bids):
        return
    found = dict(Bid.objects.filter(pk__in=[bid.pk for bid in bids]).values_list("pk", "state"))
    for bid, was in ((one.bid, one.was) for one in decided):
        if found[bid.pk] not in (was, bid.state):
            raise _wrong_state(bid, BidState(found[bid.pk]), [was], BidState(bid.state))
    raise WrongState(f"Expected to decide {len(bids)} bids, but some rows were decided before.")


def tried(bids: Sequence[Bid], *, slot: int) -> None:
    """Note that these standing bids were tried again in slot `slot`; this takes one query."""
    for bid in bids:
        bid.tried_slot = slot
    if bids:
        Bid.objects.filter(pk__in=[bid.pk for bid in bids]).update(tried_slot=slot, tries=F("tries") + 1)


def end(bids: Sequence[Bid]) -> None:
    """Reject standing bids that are not tried again; this takes one query.

    The rows are read under the market's lock, as in `replan`.
    """
    for bid in bids:
        if bid.state != BidState.STANDING:
            raise _wrong_state(bid, BidState(bid.state), [BidState.STANDING], BidState.REJECTED)
        bid.state = BidState.REJECTED
    if bids:
        Bid.objects.filter(pk__in=[bid.pk for bid in bids]).update(state=BidState.REJECTED)


def withdraw(bid: Bid) -> bool:
    """Withdraw a bid that is not decided, or that stands; return whether it stood.

    Then it has no event of its own: `recorded_withdrawals` gives it to the event of the next slot.
    """
    stood = Bid.objects.filter(pk=bid.pk, state=BidState.STANDING).exists()
    _move(bid, BidState.WITHDRAWN, "bid withdrawn", unrecorded_withdrawal=stood)
    return stood


def recorded_withdrawals(market: Market) -> list[int]:
    """Return the numbers of the standing bids withdrawn since the last slot began; the caller's event names them."""
    numbers = [number for (number,) in _WITHDRAWN(market.pk)]
    if numbers:
        Bid.objects.filter(market=market, unrecorded_withdrawal=True).update(unrecorded_withdrawal=False)
    return numbers


def quarantine(bid: Bid) -> None:
    """Quarantine a waiting or standing bid that the policy failed to decide."""
    _move(bid, BidState.QUARANTINED)


def retry(bid: Bid) -> None:
    """Put a quarantined bid back in the decision queue, in its old place; one that stood stands again."""
    _move(bid, BidState.SUBMITTED if bid.stands_until is None else BidState.STANDING, "bid put back in the queue")


def cancel(bid: Bid, *, slot: int) -> None:
    """Cancel a job that its owner no longer wants."""
    _move(bid, BidState.CANCELLED, "job cancelled", ended_slot=slot)


def check_can_fail(bid: Bid) -> None:
    """Raise WrongState unless the bid, as it was read, is a job that can fail."""
    origins, state = _origins(BidState.FAILED), BidState(bid.state)
    if state not in origins:
        raise _wrong_state(bid, state, origins, BidState.FAILED)


def fail(bid: Bid, *, slot: int, reason: str, refund: float) -> None:
    """End a job that cannot continue, and record the refund."""
    _move(bid, BidState.FAILED, "job failed", ended_slot=slot, end_reason=reason, refund=refund)


def complete(bid: Bid, *, slot: int) -> None:
    """Complete a running job whose training ended before its last slot; its planned completion stays in the row."""
    _move(bid, BidState.COMPLETED, "job completed early", ended_slot=slot)


def begin(market: Market, slot: int) -> Begun:
    """Begin slot `slot`: jobs that start by then become running, and running jobs that end by then become completed."""
    bids = Bid.objects.filter(market=market)
    running = [number for (number,) in _STARTING(market.pk, slot)]
    if running:
        bids.filter(state=BidState.PLANNED, start_slot__lte=slot).update(state=BidState.RUNNING)
    completed = [number for (number,) in _ENDING(market.pk, slot)]
    if completed:
        bids.filter(state=BidState.RUNNING, completion_slot__lte=slot).update(state=BidState.COMPLETED)
    return Begun(running=running, completed=completed)


def _state(start: int | None, slot: int) -> BidState:
    return BidState.RUNNING if start is not None and start <= slot else BidState.PLANNED


def _decided(bid: Bid, state: BidState, fields: Mapping[str, float | int | None]) -> Decided:
    was = BidState(bid.state)
    if state not in STEPS.get(was, ()):
        raise _wrong_state(bid, was, _origins(state), state)
    bid.state = state
    for name, value in fields.items():
        setattr(bid, name, value)
    return Decided(bid, was)


def _move(bid: Bid, state: BidState, what: str = "", **fields: float | str | None) -> None:
    """Write the state; `what` names the change in the record of who changed what, if a request makes it."""
    origins = _origins(state)
    is_noted = bool(what) and changes.in_request()
    # The row was perhaps changed since the object was read, for example as slots passed.
    before = Bid.objects.values("state", *fields).get(pk=bid.pk) if is_noted else {}
    if not Bid.objects.filter(pk=bid.pk, state__in=origins).update(state=state, **fields):
        found = BidState(Bid.objects.values_list("state", flat=True).get(pk=bid.pk))
        raise _wrong_state(bid, found, origins, state)
    bid.state = state
    for name, value in fields.items():
        setattr(bid, name, value)
    if is_noted:
        cluster = bid.market.cluster.name
        pairs = {name: (was, getattr(bid, name)) for name, was in before.items() if name != "unrecorded_withdrawal"}
        name = f"bid {bid.sequence} of {cluster}"
        changes.note(bid, what, pairs, cluster=cluster, team=bid.team_id, name=name)


def _origins(state: BidState) -> list[BidState]:
    return [origin for origin, targets in STEPS.items() if state in targets]


def _wrong_state(bid: Bid, found: BidState, origins: list[BidState], state: BidState) -> WrongState:
    expected = " or ".join(origin.label.lower() for origin in origins)
    message = (
        f"Bid {bid.sequence} is {found.label.lower()}; only a bid that is {expected} can become {state.label.lower()}."
    )
    if state is BidState.CANCELLED and BidState.WITHDRAWN in STEPS.get(found, ()):
        message += " It can be withdrawn."
    return WrongState(message)
