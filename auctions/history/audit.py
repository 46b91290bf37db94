"""Check the invariants of markets on a live database: each check returns the rows that break it."""

from collections.abc import Callable
from dataclasses import dataclass

from auctions.history import (
    audit_history,
    audit_outages,
    audit_publications,
    audit_queues,
    audit_rows,
    audit_schedules,
    audit_standing,
)
from auctions.history.replay import UNREADABLE, replayed_once
from auctions.models import Market
from auctions.state import storage

Check = Callable[[Market], list[str]]

CHECKS: dict[str, Check] = {
    "events are contiguous": audit_rows.events_contiguous,
    "sequence numbers have no gaps": audit_rows.sequence_without_gaps,
    "every bid is accounted for": audit_rows.bids_accounted_for,
    "bids are what was sent": audit_history.bids_as_sent,
    "states are what events made them": audit_history.states_follow_events,
    "every decided bid has one receipt": audit_rows.one_receipt_each,
    "receipts match rows": audit_rows.receipts_match_rows,
    "policies' errors are those of events": audit_rows.policy_errors_kept,
    "policies are as their events say": audit_rows.policies_match_events,
    "states agree with the slot": audit_rows.states_match_slot,
    "standing bids had their turns": audit_standing.standing_bids_in_order,
    "payments are between zero and value": audit_rows.payments_rational,
    "payments are charged once, as decided": audit_rows.charges_match,
    "slots cost what was paid": audit_outages.costs_match,
    "failed jobs are paid back what was not delivered": audit_outages.refunds_match,
    "nobody holds a server out of service": audit_outages.nobody_is_out_of_service,
    "welfare is payoff plus revenue": audit_rows.welfare_adds_up,
    "welfare is below its certified bound": audit_rows.welfare_below_bound,
    "the certificate adds up": audit_history.certificate_adds_up,
    "published figures are those of events": audit_publications.figures_match,
    "slots are kept as they began": audit_history.slots_as_they_began,
    "commitments are the schedules granted": audit_schedules.commitments_match,
    "plans are what events made them": audit_schedules.plans_match,
    "no server is over capacity": audit_schedules.within_capacity,
    "nothing starts before arrival and upload": audit_schedules.after_arrival_and_delay,
    "admitted jobs get their whole work": audit_schedules.work_done,
    "workers did what a replay finds": audit_queues.segments_match,
    "no worker does two things at once": audit_queues.one_thing_at_a_time,
    "no parameter server is shared": audit_queues.no_ps_is_shared,
    "queued chunks are processed whole": audit_queues.chunks_complete,
    "no server stores more than it can": storage.storage_kept,
    "replay gives every receipt byte for byte": audit_schedules.replays,
}


@dataclass(frozen=True)
class Finding:
    """The result of one check in one market."""

    check: str
    rows: tuple[str, ...]
    """Messages about the rows that break it; empty if there are none."""

    @property
    def passed(self) -> bool:
        """Whether no row breaks it."""
        return not self.rows


def audit_market(market: Market) -> tuple[Finding, ...]:
    """Run every check. Nothing should write to the market meanwhile, because each check reads rows on its own."""
    market.refresh_from_db()
    with replayed_once():
        return tuple(Finding(check=name, rows=_rows(check, market)) for name, check in CHECKS.items())


def _rows(check: Check, market: Market) -> tuple[str, ...]:
    try:
        return tuple(check(market))
    except UNREADABLE as error:
        return (f"rows cannot be read: {type(error).__name__}: {error}",)
