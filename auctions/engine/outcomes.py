"""Write what a decision brings: the bid's state, what it holds and pays, its receipt, and the event."""

from typing import Any, Final

from django.db.models import Model

from auctions.domain import transitions
from auctions.domain.lock import MarketTime, new_event, record
from auctions.domain.policy_errors import PolicyFailed, store_error
from auctions.engine import planning
from auctions.engine.decide import Made
from auctions.engine.team_credits import TeamCredits
from auctions.models import Bid, Commitment, DecisionRecord, Event, EventKind, FirstDecision, Market, Payment
from auctions.state import book as books
from auctions.state import queue_rows
from auctions.state.book import LiveBook
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision
from scheduling.model.types import Json

Receipt = DecisionRecord | FirstDecision
RECEIPTS: Final = (DecisionRecord, FirstDecision)


def current_core(market: Market, bid: Bid, book: LiveBook) -> CoreBid:
    """Return the bid in the positions of the inventory in force; rewrite its row if the inventory has changed since."""
    core = books.core_in_force(bid, market, book.snapshot)
    if bid.inventory_version != market.inventory_version:
        bid.core_bid, bid.inventory_version = core.to_json(), market.inventory_version
        bid.save(update_fields=["core_bid", "inventory_version"])
    return core


class Outcomes:
    """Outcomes of decisions of one moment that are in the book already; their rows are written together.

    The caller holds the market's lock and those of the budgets in `credits`, calls `write` at the end, and saves the
    market's counters.
    """

    def __init__(self, market: Market, book: LiveBook, moment: MarketTime, credits: TeamCredits) -> None:
        self._market, self._book, self._moment, self._credits = market, book, moment, credits
        self._holding: list[Bid] = []
        """Admitted bids whose payments are still to be held."""
        self._decided: list[transitions.Decided] = []
        self._rows: dict[type[Model], list[Any]] = {kind: [] for kind in (Event, *RECEIPTS, Commitment, Payment)}

    def add(self, bid: Bid, made: Made, *, stood_from: int | None = None) -> None:
        """Add an admission or a final rejection.

        `stood_from` is the slot of the bid's first decision if it stood since then.
        """
        decision, book = made.decision, self._book
        self._decided.append(self._admitted(bid, decision) if decision.admitted else transitions.rejected(bid))
        kind = EventKind.ADMITTED if decision.admitted else EventKind.REJECTED
        version = self._record(
            DecisionRecord,
            bid,
            made,
            kind,
            planning.to_payload(decision.moves),
            costs=list(decision.costs) if decision.costs else None,
            stood_from=stood_from,
        )
        if decision.moves or (decision.admitted and (book.running.queues is not None or not book.policy.binding)):
            self.write()
            self._write_plan(bid, decision, version=version)

    def add_standing(self, bid: Bid, made: Made, *, until: int, rule: Json) -> None:
        """Add a rejection after which the bid stands. Its event states the rule if another one was stated last."""
        self._decided.append(transitions.stands(bid, slot=self._moment.now, until=until))
        stated = {} if self._market.standing_rule == rule else {"rule": rule}
        self._market.standing_rule = rule
        self._record(FirstDecision, bid, made, EventKind.STANDING, {"until": until, **stated})

    def write(self) -> None:
        """Write the rows of the outcomes that were added since the last call."""
        transitions.write_decided(self._decided)
        for kind, rows in self._rows.items():
            if rows:
                kind._default_manager.bulk_create(rows)
        self._credits.hold(self._holding, at=self._moment.wall)
        self._holding.clear()
        self._decided.clear()
        for rows in self._rows.values():
            rows.clear()

    def _admitted(self, bid: Bid, decision: Decision) -> transitions.Decided:
        moment, schedule = self._moment, decision.schedule
        if schedule is not None:
            holdings = self._book.snapshot.holdings(schedule.placements)
            self._rows[Commitment] += planning.commitments(bid, holdings)
        self._rows[Payment].append(Payment(bid=bid, amount=decision.payment, created_at=moment.wall))
        self._holding.append(bid)
        window = _window(decision)
        return transitions.admitted(
            bid, value=decision.value, payment=decision.payment, window=window, slot=moment.slot
        )

    def _record(
        self, receipt: type[Receipt], bid: Bid, made: Made, kind: EventKind, payload: Json, **fields: object
    ) -> int:
        """Add the event and the receipt of a decision; return the event's version."""
        market, book, moment = self._market, self._book, self._moment
        against = market.ledger_version
        seen = {} if made.left is None else {"credits": made.left}
        event = new_event(market, kind, moment, bid=bid, payload={**payload, **seen})
        book.version = market.ledger_version
        self._rows[Event].append(event)
        self._rows[receipt].append(
            receipt(
                bid=bid,
                policy_id=book.policy_id,
                ledger_version=against,
                version=event.version,
                inventory_version=market.inventory_version,
                slot=moment.now,
                decided_at=moment.wall,
                decided_s=moment.seconds,
                latency_ms=made.latency_ms,
                standalone_value=made.decision.standalone_value,
                receipt=made.receipt,
                **fields,
            )
        )
        return event.version

    def _write_plan(self, bid: Bid, decision: Decision, *, version: int) -> None:
        """Write what an admission changed in plans and queues; its own rows are written already."""
        book, moment = self._book, self._moment
        if decision.schedule is not None and book.running.queues is not None:
            queue_rows.join(bid, decision.schedule.chunks, book.running.queues, book.snapshot)
        planning.write(book, decision.moves, moment, version=version)
        if decision.admitted and not book.policy.binding:
            planning.note([(bid, _window(decision))], moment, version=version)


def quarantine(market: Market, bid: Bid, book: LiveBook, moment: MarketTime, failed: PolicyFailed) -> None:
    """Quarantine a bid. Nothing else of the failed attempt was written."""
    transitions.quarantine(bid)
    event = record(market, EventKind.QUARANTINED, moment, bid=bid)
    store_error(failed, event, moment, policy_id=book.policy_id, bid=bid)


def _window(decision: Decision) -> transitions.Window:
    return (None, None) if decision.schedule is None else (decision.schedule.start, decision.schedule.completion)
