"""A market's record up to one version, and its replayed state before any decision."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from django.db.models import Max, Min, Q, QuerySet

from auctions.counterfactual import waypoints
from auctions.counterfactual.replayed import Receipts, ReplayedMarket
from auctions.domain.bid_conversion import core_bid
from auctions.domain.errors import Archived
from auctions.domain.inventory_snapshot import InventorySnapshot, snapshots_at
from auctions.domain.lock import ENDS, QUEUE_EVENTS
from auctions.history.recorded import Rows
from auctions.models import ADMITTED, Bid, DecisionRecord, Event, EventKind, FirstDecision, Market, Seal
from auctions.state.book import LiveBook
from auctions.state.history import recorded_history
from auctions.state.seals import state_at_cut
from cluster.database.paging import in_pages
from scheduling.book.running import RunningBook
from scheduling.book.state import Job
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, parse
from scheduling.model.schedule import Schedule
from scheduling.policies.standing import StandingBid, StandingRule
from scheduling.registry import POLICIES, recorded_policy

COLUMNS: Final = (
    "pk",
    "market_id",
    "sequence",
    "label",
    "owner_id",
    "core_bid",
    "resolved_request",
    "arrival_slot",
    "inventory_version",
)

Checkpoint = Callable[[], None]
"""Called at every replayed event; it may raise to stop."""


def never_stop() -> None:
    """Do nothing, and never stop."""


@dataclass(frozen=True)
class Record:
    """The record of a market up to one version; it never changes."""

    market_id: int
    version: int
    slot: int
    """The last slot that had begun."""
    submitted: int
    """The last sequence number that was given out."""
    cut: int = 0
    """Version of the last archived event."""

    @classmethod
    def of(cls, market: Market) -> "Record":
        """Return the record up to the present version."""
        columns = ("pk", "version", "slot", "submitted", "sealed_version")
        return cls(*Market.objects.values_list(*columns).get(pk=market.pk))

    def events(self, *, since: int = 0) -> Iterator[Event]:
        """Yield events from version `since` on, in order; the caller may write between any two."""
        return in_pages(self.rows(since=since), by="version")

    def rows(self, *, since: int = 0) -> "QuerySet[Event]":
        """Return the query of `events`."""
        found = Event.objects.filter(market_id=self.market_id, version__gte=since, version__lte=self.version)
        return found.order_by("version")

    def decided_from(self, sequence: int) -> int | None:
        """Return the version of the first decision on a bid of that number or later; None if there is none."""
        chosen = {"bid__market_id": self.market_id, "bid__sequence__gte": sequence, "version__lte": self.version}
        last = DecisionRecord.objects.filter(**chosen).aggregate(found=Min("version"))["found"]
        first = FirstDecision.objects.filter(**chosen).aggregate(found=Min("version"))["found"]
        return min((version for version in (last, first) if version is not None), default=None)

    def first_of_last(self, decisions: int) -> int | None:
        """Return the version of the first of the last `decisions` decisions; None if nothing was decided."""
        within = {"version__gt": self.cut, "version__lte": self.version}
        found = DecisionRecord.objects.filter(bid__market_id=self.market_id, **within)
        last = list(found.order_by("-version").values_list("version", flat=True)[:decisions])
        return last[-1] if last else None

    def decided_since(self, version: int) -> "QuerySet[Bid]":
        """Return the bids whose first decision was made in this version or later."""
        within = (version, self.version)
        found = Q(decision__version__range=within) | Q(first_decision__version__range=within)
        stood = FirstDecision.objects.filter(bid__market_id=self.market_id, version__lt=version)
        return Bid.objects.filter(found, market_id=self.market_id).exclude(pk__in=stood.values("bid_id"))

    def snapshots_from(self, version: int) -> Iterator[InventorySnapshot]:
        """Return the snapshot in force before this event, and all later ones."""
        inventories = self.rows().filter(kind__in=(EventKind.OPENED, EventKind.INVENTORY))
        last = inventories.filter(version__lt=version).aggregate(last=Max("version"))["last"]
        found = inventories if last is None else inventories.filter(version__gte=last)
        return (InventorySnapshot.from_json(event.payload) for event in in_pages(found, by="version", size=50))

    def before(self, version: int, *, checkpoint: Checkpoint = never_stop) -> ReplayedMarket:
        """Return the state after every event before this one, which can replay the other events.

        Raises Archived if that event is archived.
        """
        self._check_archived(version)
        if self._only_promises(version):
            return self._state_from_rows(version, later=True)
        bids = Bid.objects.filter(market_id=self.market_id, sequence__lte=self.submitted).only(*COLUMNS)
        state = self._at_cut(_initial_state(bids, self._receipts(Q())))
        for event in self.events(since=self.cut + 1):
            if event.version >= version:
                break
            checkpoint()
            state.apply(event)
        return state

    def book_before(self, version: int, *, checkpoint: Checkpoint = never_stop) -> ReplayedMarket:
        """Return the state before this event: its book, and only those bids that are under way.

        If jobs may have been moved, the replay begins at the nearest waypoint. Raises Archived if that event is
        archived.
        """
        self._check_archived(version)
        if self._only_promises(version):
            return self._state_from_rows(version, later=False)
        token = Market.objects.values_list("token", flat=True).get(pk=self.market_id)
        near = waypoints.nearest(token, version)
        if near is None or near[0] <= self.cut:
            near = self.cut + 1, self._at_cut(ReplayedMarket({}, Receipts()))
        since, state = near
        events = self.rows(since=since).filter(version__lt=version)
        state = self._continued(state, events)
        for event in in_pages(events, by="version"):
            checkpoint()
            state.apply(event)
            following = event.version + 1
            if following % waypoints.EVENTS == 0:
                waypoints.store(token, following, state.continued({}, Receipts()))
        return state

    def _market(self) -> Market:
        """Return the market with its key and its cut only, without a query."""
        return Market(pk=self.market_id, sealed_version=self.cut)

    def _check_archived(self, version: int) -> None:
        if self.cut and version <= self.cut:
            slot = Seal.objects.filter(market_id=self.market_id).order_by("-number")[0].slot
            raise Archived(f"What was decided before slot {slot} is archived; only later decisions can be made again.")

    def _at_cut(self, state: ReplayedMarket) -> ReplayedMarket:
        """Return the state after the last archived event, given the one before the first event."""
        market = self._market()
        sealed = state_at_cut(market)
        if sealed is not None:
            state.resume_sealed(sealed, market.pk, Rows(market))
        return state

    def _continued(self, state: ReplayedMarket, events: "QuerySet[Event]") -> ReplayedMarket:
        """Return a fork with the bids of these events, and with the bids under way if servers change."""
        known = Q(pk__in=events.filter(bid__isnull=False).values("bid_id"))
        if events.filter(kind=EventKind.INVENTORY).exists():
            known |= Q(sequence__in=[int(name) for name in state.under_way])
        bids = Bid.objects.filter(known, market_id=self.market_id).only(*COLUMNS)
        receipts = self._receipts(Q(version__in=events.values("version")), costs=False)
        return state.continued({bid.pk: bid for bid in bids}, receipts)

    def _receipts(self, chosen: Q, *, costs: bool = True) -> Receipts:
        """Return the receipts up to this version among the chosen ones, with the costs of each slot if wanted."""
        within = {"bid__market_id": self.market_id, "version__lte": self.version}
        last = DecisionRecord.objects.filter(chosen, **within)
        first = FirstDecision.objects.filter(chosen, **within)
        rows = last.exclude(costs=None).values_list("bid_id", "costs") if costs else ()
        return Receipts(
            last=dict(last.values_list("bid_id", "receipt")),
            first=dict(first.values_list("bid_id", "receipt")),
            stood=frozenset(last.exclude(stood_from=None).values_list("bid_id", flat=True)),
            costs={pk: tuple(found) for pk, found in rows if found},
        )

    def _only_promises(self, version: int) -> bool:
        """Return whether no granted schedule could move before this version, so that rows give the state then.

        They do not once events are archived, which name the turns of standing bids: a replay begins at the cut.
        """
        if self.cut:
            return False
        chosen = self.rows().filter(kind=EventKind.POLICY, version__lt=version)
        names = [payload["name"] for payload in chosen.values_list("payload", flat=True)]
        inventories = self.rows().filter(kind=EventKind.INVENTORY, version__lt=version, payload__has_key="moves")
        return bool(names) and all(POLICIES[name].binding for name in names) and not inventories.exists()

    def _going(self, version: int, *, now: int) -> dict[int, tuple[int, int]]:
        """Return jobs under way then, by key in order of admission: versions of their decision and its inventory."""
        gone = self.rows().filter(kind__in=sorted(ENDS), version__lt=version).values("bid_id")
        found = DecisionRecord.objects.filter(bid__market_id=self.market_id, version__lt=version)
        # An inclusive window holds a slot more than the job needs.
        found = found.filter(bid__state__in=sorted(ADMITTED), bid__completion_slot__gte=now - 1).exclude(bid__in=gone)
        rows = found.order_by("version").values_list("bid_id", "version", "inventory_version")
        return {pk: (decided, snapshot) for pk, decided, snapshot in rows}

    def _now(self, version: int) -> int:
        """Return the first slot that could be traded after the events before this one."""
        earlier = self.rows().filter(version__lt=version).exclude(kind__in=sorted(QUEUE_EVENTS))
        last, slots = earlier.last(), earlier.filter(kind=EventKind.SLOT).last()
        moved = 0 if last is None or last.kind == EventKind.SLOT else last.slot
        return moved if slots is None else max(moved, _traded(slots))

    def _state_from_rows(self, version: int, *, later: bool) -> ReplayedMarket:
        """Return the state before this event, from rows; only valid if no granted schedule could move.

        With `later`, it can replay the other events, so it also has their bids.
        """
        now = self._now(version)
        going = self._going(version, now=now)
        known, receipts = Q(pk__in=going), Q(bid__in=going)
        if later:
            decided = DecisionRecord.objects.filter(bid__market_id=self.market_id, version__lt=version)
            known |= Q(sequence__lte=self.submitted) & ~Q(pk__in=decided.values("bid_id"))
            receipts |= Q(version__gte=version)
        bids = Bid.objects.filter(known, market_id=self.market_id)
        state = _initial_state(bids.only(*COLUMNS), self._receipts(receipts, costs=later))
        self._resume_from_rows(state, version, now=now, going=going)
        if later:
            self._let_stand(state, version)
            kinds = sorted(QUEUE_EVENTS - {EventKind.SUBMITTED})
            for event in self.rows().filter(version__lt=version, kind__in=kinds, bid__in=state.bids):
                state.apply(event)
            for event in self.rows().filter(version__lt=version, payload__has_key="withdrawn"):
                for number in event.payload["withdrawn"]:
                    state.withdraw(number, event)
        return state

    def _let_stand(self, state: ReplayedMarket, version: int) -> None:
        """Add the bids that began to stand before this event, if they were not decided for good by then.

        The rule of their turns is the one that was stated last.
        """
        stating = Q(payload__has_key="rule") | Q(payload__has_key="standing")
        last_stated = self.rows().filter(stating, version__lt=version).order_by("-version")
        for payload in last_stated.values_list("payload", flat=True)[:1]:
            state.standing.rule = StandingRule.from_json(payload.get("standing", payload)["rule"])
        decided = DecisionRecord.objects.filter(bid__market_id=self.market_id, version__lt=version)
        rows = FirstDecision.objects.filter(bid__market_id=self.market_id, version__lt=version)
        firsts = list(rows.exclude(bid__in=decided.values("bid_id")).order_by("version"))
        if not firsts:
            return
        events = self.rows().filter(version__lt=version, version__gte=firsts[0].version)
        begun = dict(events.filter(kind=EventKind.STANDING).values_list("bid_id", "payload__until"))
        turns = events.filter(kind=EventKind.SLOT, payload__has_key="standing")
        tried = {
            number: slot
            for slot, turn in turns.values_list("payload__now", "payload__standing")
            for number in turn["tried"]
        }
        snapshots = snapshots_at(self.market_id, {row.inventory_version for row in firsts})
        for row in firsts:
            bid, snapshot = state.bids[row.bid_id], snapshots[row.inventory_version]
            core = core_bid(bid.resolved_request, snapshot, bid_id=str(bid.sequence), arrival=bid.arrival_slot)
            last = tried.get(bid.sequence, row.slot)
            one = StandingBid(bid.sequence, core, tried=last, until=begun[bid.pk], owner=bid.owner_id)
            state.let_stand(bid, one, Decision.from_json(parse(row.receipt)), snapshot)

    def _resume_from_rows(
        self, state: ReplayedMarket, version: int, *, now: int, going: Mapping[int, tuple[int, int]]
    ) -> None:
        """Set a replay that has the jobs under way to the state before this event."""
        earlier = self.rows().filter(version__lt=version)
        inventories = earlier.filter(kind__in=(EventKind.OPENED, EventKind.INVENTORY))
        snapshots = {event.version: InventorySnapshot.from_json(event.payload) for event in inventories}
        in_force = max(snapshots)
        snapshot, bids = snapshots[in_force], state.bids
        jobs = [
            _job(bids[pk], state.receipt_of(pk), snapshots[granted], snapshot, same=granted == in_force)
            for pk, (_, granted) in going.items()
        ]
        jobs = [job for job in jobs if not job.is_over(now)]
        ledger = snapshot.ledger(start=now)
        ledger.restore(Schedule(start=0, completion=0, placements=job.held) for job in jobs)
        chosen = earlier.filter(kind=EventKind.POLICY).last()
        slots = earlier.filter(kind=EventKind.SLOT).last()
        opened = min(snapshots)
        if chosen is None:
            raise ValueError("a decision was made before a policy was chosen")
        learned = recorded_history(self._market(), snapshot, in_force=in_force, before=version)
        known = {job.bid.id: job for job in jobs}
        running = RunningBook(ledger, learned.history, decided=learned.decided, jobs=known, offers=learned.offers)
        book = LiveBook(
            version=0,
            market_id=self.market_id,
            snapshot=snapshot,
            policy=recorded_policy(chosen.payload["name"], chosen.payload["parameters"]),
            policy_id=0,
            running=running,
        )
        start = inventories.get(version=opened).slot
        slot, since = (None, start) if slots is None else (slots.slot, _traded(slots))
        state.resume(book, slot=slot, since=since)


def _initial_state(bids: "QuerySet[Bid]", receipts: Receipts) -> ReplayedMarket:
    """Return the state before the first event, with these bids and receipts."""
    return ReplayedMarket({bid.pk: bid for bid in bids}, receipts)


def _traded(event: Event) -> int:
    """Return the first slot that could still be traded after this `slot` event."""
    return int(event.payload.get("now", event.slot + 1))


def _job(bid: Bid, receipt: str, granted: InventorySnapshot, snapshot: InventorySnapshot, *, same: bool) -> Job:
    """Return the job of a promise, in the positions of `snapshot`."""
    schedule = Decision.from_json(parse(receipt)).schedule
    if schedule is None:
        raise ValueError(f"bid {bid.sequence} was promised nothing")
    core = CoreBid.from_json(bid.core_bid)
    held = schedule.placements
    if not same:
        core = core_bid(bid.resolved_request, snapshot, bid_id=str(bid.sequence), arrival=bid.arrival_slot)
        held = tuple(sorted(snapshot.placements(granted.holdings(held))))
    return Job(core, held, schedule.completion, bound=True)
