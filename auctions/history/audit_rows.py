"""Checks that compare rows with rows."""

from collections import Counter
from collections.abc import Iterator

from django.db.models import Count, F, Q, QuerySet, Sum

from auctions.domain.lock import ENDS, MOVES_THE_LEDGER
from auctions.domain.totals import VALUE_KEPT
from auctions.models import (
    ADMITTED,
    Bid,
    BidState,
    Certificate,
    DecisionRecord,
    Event,
    EventKind,
    FirstDecision,
    Market,
    Payment,
    PolicyError,
    PolicyVersion,
)
from cluster.database.paging import in_pages
from scheduling.model.decision import Decision, parse

TOLERANCE = 1e-6
"""Relative error allowed between sums of money that were added in different orders."""

FAILURES = ("plan_failed", "unkept", "unpriced")
"""Keys by which events record that the policy failed on a plan, a promise or prices."""

PLANNING = (EventKind.SLOT, *sorted(ENDS), EventKind.INVENTORY, EventKind.POLICY)
"""Events at which the policy plans again; not for a job that failed because of an inventory (key `by`)."""

DOCUMENTS = ("bid__body", "bid__resolved_request", "bid__core_bid")
"""Columns of bids that checks of receipts do not read; they are the largest."""

INVENTORIES = frozenset({EventKind.OPENED, EventKind.INVENTORY})

DECIDED = ADMITTED | {BidState.REJECTED}


def events_contiguous(market: Market) -> list[str]:
    """Check that versions go on from the last archived one without gaps.

    The market's versions must be those of the last events of their kinds.
    """
    cut = market.sealed_version
    rows = list(Event.objects.filter(market=market, version__gt=cut).order_by("version").values_list("version", "kind"))
    problems = [
        f"event version {found} stands where {expected} should"
        for expected, (found, _) in enumerate(rows, start=cut + 1)
        if found != expected
    ][:1]
    if cut + len(rows) != market.version:
        problems.append(f"market.version is {market.version}, but there are {cut + len(rows)} events")
    inventories = Event.objects.filter(market=market, kind__in=INVENTORIES, version__lte=cut)
    rows = [*inventories.order_by("version").values_list("version", "kind"), *rows]
    for name, kinds in (
        ("ledger_version", MOVES_THE_LEDGER),
        ("inventory_version", INVENTORIES),
    ):
        last = max((version for version, kind in rows if kind in kinds), default=0)
        if getattr(market, name) != last:
            problems.append(f"market.{name} is {getattr(market, name)}; the last such event is version {last}")
    return problems


def sequence_without_gaps(market: Market) -> list[str]:
    """Check that sequence numbers are 1, 2, ..., submitted in that order."""
    numbers = list(Bid.objects.filter(market=market).order_by("sequence").values_list("sequence", flat=True))
    problems = [f"bid {n} is missing" for n in sorted(set(range(1, market.submitted + 1)) - set(numbers))]
    problems += [f"bid {n} was never given out" for n in numbers if n > market.submitted]
    events = Event.objects.filter(market=market, kind=EventKind.SUBMITTED).order_by("version")
    last = 0
    for number in events.values_list("bid__sequence", flat=True):
        if number <= last:
            problems.append(f"bid {number} was submitted after bid {last}")
        last = max(last, number)
    return problems


def bids_accounted_for(market: Market) -> list[str]:
    """Check that bids' states and events have equal counts.

    Submitted = admitted + rejected + waiting + standing + withdrawn + quarantined.
    """
    states = dict(Bid.objects.filter(market=market, seal=None).order_by().values_list("state").annotate(n=Count("pk")))
    events = Event.objects.filter(market=market).exclude(bid__seal__isnull=False)
    kinds = dict(events.order_by().values_list("kind").annotate(n=Count("pk")))
    kinds[EventKind.REJECTED] = kinds.get(EventKind.REJECTED, 0) + len(ended_versions(market))
    unrecorded = Bid.objects.filter(market=market, unrecorded_withdrawal=True).count()
    kinds[EventKind.WITHDRAWN] = kinds.get(EventKind.WITHDRAWN, 0) + len(withdrawn_versions(market)) + unrecorded
    expected = {
        "submitted": (sum(states.values()), kinds.get(EventKind.SUBMITTED, 0)),
        "quarantined": (states.get(BidState.QUARANTINED, 0), _quarantined(market)),
        "completed early": (
            Bid.objects.filter(market=market, seal=None, state=BidState.COMPLETED, ended_slot__isnull=False).count(),
            kinds.get(EventKind.COMPLETED, 0),
        ),
        "admitted": (sum(states.get(s, 0) for s in ADMITTED), kinds.get(EventKind.ADMITTED, 0)),
        **{
            kind.value: (states.get(BidState(kind.value), 0), kinds.get(kind, 0))
            for kind in (EventKind.REJECTED, EventKind.WITHDRAWN, EventKind.CANCELLED, EventKind.FAILED)
        },
    }
    return [
        f"{rows} bids are {name}, {events} events say so" for name, (rows, events) in expected.items() if rows != events
    ]


def _quarantined(market: Market) -> int:
    """Return the number of bids that are quarantined by their events: neither retried nor withdrawn since."""
    events = Event.objects.filter(market=market).exclude(bid__seal__isnull=False)
    times = Count("pk", filter=Q(kind=EventKind.QUARANTINED)) - Count("pk", filter=Q(kind=EventKind.RETRIED))
    aside = events.order_by().values("bid").annotate(times=times).filter(bid__isnull=False, times__gt=0)
    withdrawn = events.filter(kind=EventKind.WITHDRAWN, bid__in=aside.values("bid"))
    return aside.count() - withdrawn.count()


def policy_errors_kept(market: Market) -> list[str]:
    """Check that there is one error for every quarantine and every failed plan, price or promise, and no other error.

    Each error must name the policy in force, and `market.planning_failed` must match the last plan.
    """
    events = Event.objects.filter(market=market).order_by("version")
    failed = Q(kind=EventKind.QUARANTINED) | Q(payload__has_any_keys=FAILURES)
    failures = events.filter(failed, version__gt=market.sealed_version)
    expected = {
        version: (bid if kind == EventKind.QUARANTINED else None, at)
        for version, kind, bid, at in failures.values_list("version", "kind", "bid", "at")
    }
    rows = PolicyError.objects.filter(market=market, version__gt=market.sealed_version).select_related("policy")
    found = {row.version: (row.bid_id, row.at) for row in rows}
    problems = [
        f"the error of event version {version} is missing, differs, or belongs to no event"
        for version in sorted(expected.keys() | found.keys())
        if expected.get(version) != found.get(version)
    ]
    last = events.filter(kind__in=PLANNING).exclude(payload__has_key="by").last()
    if market.planning_failed != (last is not None and last.payload.get("plan_failed", False)):
        problems.append(f"market.planning_failed is {market.planning_failed}; the last plan says otherwise")
    chosen = _chosen(market)
    return problems + [
        f"the error of version {row.version} names policy version {row.policy.number}"
        for row in rows
        if row.policy.number != _in_force(chosen, row.version + 1)
    ]


def _chosen(market: Market) -> list[tuple[int, int]]:
    """Return version and policy number of each event that chose a policy, in order."""
    events = Event.objects.filter(market=market, kind=EventKind.POLICY).order_by("version")
    return [(version, payload["number"]) for version, payload in events.values_list("version", "payload")]


def _in_force(chosen: list[tuple[int, int]], version: int) -> int:
    """Return the number of the policy in force just before an event."""
    return max((number for since, number in chosen if since < version), default=0)


def one_receipt_each(market: Market) -> list[str]:
    """Check that a decided bid has one receipt and one deciding event of the same version, and other bids have none."""
    events = Event.objects.filter(market=market, kind__in=(EventKind.ADMITTED, EventKind.REJECTED))
    events = events.filter(bid__seal=None)
    ended = ended_versions(market)
    versions = dict(events.values_list("bid_id", "version")) | dict(ended)
    counted = Counter([*events.values_list("bid_id", flat=True), *(pk for pk, _ in ended)])
    receipts = dict(DecisionRecord.objects.filter(bid__market=market).values_list("bid_id", "version"))
    problems = []
    for pk, sequence, state in Bid.objects.filter(market=market, seal=None).values_list("pk", "sequence", "state"):
        expected = 1 if state in DECIDED else 0
        if counted[pk] != expected or (pk in receipts) != bool(expected):
            problems.append(f"bid {sequence} ({state}) has {counted[pk]} decisions and {int(pk in receipts)} receipts")
        elif expected and versions[pk] != receipts[pk]:
            problems.append(f"bid {sequence}: receipt of version {receipts[pk]}, event of version {versions[pk]}")
    return problems


def _slots(market: Market) -> "QuerySet[Event]":
    """Return the events of slots that are not archived."""
    return Event.objects.filter(market=market, kind=EventKind.SLOT, version__gt=market.sealed_version)


def withdrawn_versions(market: Market) -> list[tuple[int, int]]:
    """Return the numbers of bids that were withdrawn while they stood, with the versions of the events naming them."""
    slots = _slots(market).filter(payload__has_key="withdrawn")
    rows = slots.order_by("version").values_list("version", "payload__withdrawn")
    return [(number, version) for version, numbers in rows for number in numbers]


def ended_versions(market: Market) -> list[tuple[int, int]]:
    """Return the keys of standing bids that ended when slots began, with the versions of these slots' events."""
    keys = dict(Bid.objects.filter(market=market).exclude(stands_until=None).values_list("sequence", "pk"))
    slots = _slots(market).filter(payload__has_key="standing")
    rows = slots.order_by("version").values_list("version", "payload__standing")
    # A number of no bid that stood is kept as it is, so that the counts differ.
    return [(keys.get(number, -number), version) for version, turn in rows for number in turn["ended"]]


def receipts_match_rows(market: Market) -> list[str]:
    """Check that state, value, payment, slot and standalone value of each decided bid are those of its receipt."""
    problems = []
    firsts = FirstDecision.objects.filter(bid__market=market, bid__seal=None).select_related("bid").defer(*DOCUMENTS)
    for first in in_pages(firsts, by="pk"):
        decision, number = Decision.from_json(parse(first.receipt)), first.bid.sequence
        said = (decision.bid_id, decision.slot, decision.standalone_value, decision.admitted)
        if said != (str(number), first.slot, first.standalone_value, False):
            problems.append(f"bid {number}: the row of its first decision is not what the receipt says")
    for row in _records(market):
        problems += receipt_otherwise(row.bid, row)
    return problems


def receipt_otherwise(bid: Bid, row: DecisionRecord) -> list[str]:
    """Return what the rows of a bid and of its decision say otherwise than the receipt."""
    decision = Decision.from_json(parse(row.receipt))
    pairs = {
        "bid_id": (decision.bid_id, str(bid.sequence)),
        "admitted": (decision.admitted, bid.state in ADMITTED),
        "value": (decision.value if decision.admitted else None, bid.value),
        "payment": (decision.payment if decision.admitted else None, bid.payment),
        "slot": (decision.slot, row.slot),
        "standalone_value": (decision.standalone_value, row.standalone_value),
    }
    return [
        f"bid {bid.sequence}: {name} is {found} in the row, {said} in the receipt"
        for name, (said, found) in pairs.items()
        if said != found
    ]


def policies_match_events(market: Market) -> list[str]:
    """Check that each policy version matches the event that chose it.

    Each decision, and the market itself, must name the version in force.
    """
    versions = {p.number: p for p in PolicyVersion.objects.filter(market=market)}
    events = list(Event.objects.filter(market=market, kind=EventKind.POLICY).order_by("version"))
    problems = []
    if sorted(versions) != [event.payload["number"] for event in events]:
        problems.append(f"policy versions {sorted(versions)} are not those of the events")
        return problems
    for event in events:
        row = versions[event.payload["number"]]
        if (row.name, row.parameters) != (event.payload["name"], event.payload["parameters"]):
            problems.append(f"policy version {row.number} differs from event version {event.version}")
    chosen = _chosen(market)
    if market.policy_number != (in_force := _in_force(chosen, market.version + 1)):
        problems.append(f"the market names policy version {market.policy_number}; {in_force} is in force")
    columns = ("version", "policy__number", "policy__market", "bid__sequence")
    last = DecisionRecord.objects.filter(bid__market=market).values_list(*columns)
    first = FirstDecision.objects.filter(bid__market=market).values_list(*columns)
    for version, number, owner, sequence in (*last, *first):
        if owner != market.pk:
            problems.append(f"bid {sequence} names a policy version of another market")
            continue
        in_force = _in_force(chosen, version)
        if number != in_force:
            problems.append(f"bid {sequence} names policy version {number}; {in_force} was in force")
    return problems


def states_match_slot(market: Market) -> list[str]:
    """Check that planned jobs start later, running jobs have started and not ended, and completed jobs have ended.

    A job that was complete early ended no later than its planned completion.
    """
    bids, slot = Bid.objects.filter(market=market), market.slot
    wrong = bids.filter(
        Q(state=BidState.PLANNED, start_slot__lte=slot)
        | Q(state=BidState.RUNNING, start_slot__gt=slot)
        | Q(state=BidState.RUNNING, completion_slot__lte=slot)
        | Q(state=BidState.COMPLETED, ended_slot=None, completion_slot__gt=slot)
        | Q(state=BidState.COMPLETED, ended_slot__gt=F("completion_slot"))
    )
    return [
        f"bid {bid.sequence} is {bid.state} in slot {slot}, its window is [{bid.start_slot}, {bid.completion_slot})"
        for bid in wrong.order_by("sequence")
    ]


def payments_rational(market: Market) -> list[str]:
    """Check that 0 <= payment <= value."""
    bids = Bid.objects.filter(market=market, payment__isnull=False).order_by("sequence")
    return [
        f"bid {sequence} pays {payment} for {value}"
        for sequence, payment, value in bids.values_list("sequence", "payment", "value")
        if payment is None or value is None or not 0 <= payment <= value
    ]


def charges_match(market: Market) -> list[str]:
    """Check that every admitted bid has one charge, equal to its payment, and no other bid has one."""
    charges = dict(Payment.objects.filter(bid__market=market).values_list("bid_id", "amount"))
    bids = Bid.objects.filter(market=market).order_by("sequence").values_list("pk", "sequence", "state", "payment")
    return [
        f"bid {sequence} ({state}) was billed {payment} and charged {charges.get(pk)}"
        for pk, sequence, state, payment in bids
        if charges.get(pk) != (payment if state in ADMITTED else None)
    ]


def welfare_adds_up(market: Market) -> list[str]:
    """Check that the sum of values = sum of payoffs in the receipts + sum of charges."""
    live = Bid.objects.filter(market=market, seal=None)
    values = live.filter(state__in=sorted(ADMITTED)).aggregate(v=Sum("value"))["v"] or 0.0
    charged = Payment.objects.filter(bid__market=market, bid__seal=None).aggregate(v=Sum("amount"))["v"] or 0.0
    payoffs = sum(float(parse(row.receipt)["payoff"]) for row in _records(market))
    if abs(values - payoffs - charged) > TOLERANCE * max(1.0, abs(values)):
        return [f"values sum to {values}, payoffs to {payoffs}, charges to {charged}"]
    return []


def welfare_below_bound(market: Market) -> list[str]:
    """Check that welfare does not exceed a proved bound."""
    records = DecisionRecord.objects.filter(bid__market=market)
    granted = records.filter(bid__state__in=sorted(ADMITTED))
    total = granted.aggregate(v=Sum("bid__value"))["v"] or 0.0
    standalone_values = records.aggregate(v=Sum("standalone_value"))["v"] or 0.0
    problems = []
    if total > standalone_values * (1 + TOLERANCE):
        problems.append(f"values sum to {total}, standalone values to {standalone_values}")
    row = Certificate.objects.filter(market=market).first()
    if row is not None:
        # A cancelled job frees machines for other jobs: only the welfare without it is bounded.
        kept = granted.filter(version__lte=row.version, bid__state__in=sorted(VALUE_KEPT))
        then = kept.aggregate(v=Sum("bid__value"))["v"] or 0.0
        if then > row.value * (1 + TOLERANCE):
            problems.append(f"values up to version {row.version} sum to {then}, the certified bound is {row.value}")
    return problems


def _records(market: Market) -> Iterator[DecisionRecord]:
    rows = DecisionRecord.objects.filter(bid__market=market, bid__seal=None).select_related("bid").defer(*DOCUMENTS)
    return in_pages(rows, by="pk")
