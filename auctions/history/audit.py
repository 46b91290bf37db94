"""Check the invariants of markets on a live database: each check returns the rows that break it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from auctions.history import (
    audit_archives,
    audit_credits,
    audit_history,
    audit_outages,
    audit_queues,
    audit_rows,
    audit_schedules,
)
from auctions.history.audit_pass import EventPass, Progress
from auctions.history.recorded import Rows
from auctions.history.replay import UNREADABLE
from auctions.models import Bid, Market
from auctions.state import storage
from auctions.state.grants import Grant

Check = Callable[[EventPass], Iterable[str]]
"""Returns what is wrong with the market that a pass has read."""


def _of_rows(check: Callable[[Market], Iterable[str]]) -> Check:
    """A check that reads rows alone."""
    return lambda seen: check(seen.market)


def _of_grants(check: Callable[[Market, Mapping[int, Grant]], Iterable[str]]) -> Check:
    """A check of rows against what the events granted."""
    return lambda seen: check(seen.market, seen.grants.reader.grants.all)


CHECKS: dict[str, Check] = {
    "archives are a chain of seals": _of_rows(audit_archives.chain_is_whole),
    "files of archives are as sealed": _of_rows(audit_archives.files_are_as_sealed),
    "outcomes of archived bids are as sealed": _of_rows(audit_archives.outcomes_are_as_sealed),
    "events are contiguous": _of_rows(audit_rows.events_contiguous),
    "sequence numbers have no gaps": _of_rows(audit_rows.sequence_without_gaps),
    "owners take turns in the decision queue": lambda seen: seen.turns.found(),
    "every bid is accounted for": _of_rows(audit_rows.bids_accounted_for),
    "bids are what was sent": _of_rows(audit_history.bids_as_sent),
    "states are what events made them": lambda seen: seen.states.found(),
    "every decided bid has one receipt": _of_rows(audit_rows.one_receipt_each),
    "receipts match rows": _of_rows(audit_rows.receipts_match_rows),
    "policies' errors are those of events": _of_rows(audit_rows.policy_errors_kept),
    "policies are as their events say": _of_rows(audit_rows.policies_match_events),
    "states agree with the slot": _of_rows(audit_rows.states_match_slot),
    "standing bids had their turns": lambda seen: seen.standing.found(),
    "payments are between zero and value": _of_rows(audit_rows.payments_rational),
    "payments are charged once, as decided": _of_rows(audit_rows.charges_match),
    "credits are held, charged and refunded as decided": _of_rows(audit_credits.credits_match),
    "slots cost what was paid": _of_rows(audit_outages.costs_match),
    "failed jobs are paid back what was not delivered": _of_rows(audit_outages.refunds_match),
    "nobody holds a server out of service": _of_rows(audit_outages.nobody_is_out_of_service),
    "welfare is payoff plus revenue": _of_rows(audit_rows.welfare_adds_up),
    "welfare is below its certified bound": _of_rows(audit_rows.welfare_below_bound),
    "the certificate adds up": _of_rows(audit_history.certificate_adds_up),
    "published figures are those of events": lambda seen: seen.publications.found(),
    "slots are kept as they began": lambda seen: seen.replay.reader.slots_otherwise(),
    "commitments are the schedules granted": _of_grants(audit_schedules.commitments_match),
    "plans are what events made them": _of_grants(audit_schedules.plans_match),
    "no server is over capacity": _of_rows(audit_schedules.within_capacity),
    "nothing starts before arrival and upload": _of_grants(audit_schedules.after_arrival_and_delay),
    "admitted jobs get their whole work": _of_grants(audit_schedules.work_done),
    "workers did what a replay finds": lambda seen: audit_queues.segments_match(seen.market, seen.replay.reader.work()),
    "no worker does two things at once": _of_rows(audit_queues.one_thing_at_a_time),
    "no parameter server is shared": _of_rows(audit_queues.no_ps_is_shared),
    "queued chunks are processed whole": _of_rows(audit_queues.chunks_complete),
    "no server stores more than it can": _of_rows(storage.storage_kept),
    "replay gives every receipt byte for byte": lambda seen: seen.replay.found(),
}

READABLE: Final = "documents of bids can be read"
"""The only check of a market that fails it: all others read these documents."""

CHECKS_OF_TEAMS: dict[str, Callable[[], Iterable[str]]] = {
    "entries of every credit transaction sum to zero": audit_credits.transactions_add_up,
    "no team spent more credits than it had": audit_credits.balances_add_up,
}
"""Checks of the credits of all teams, which several markets spend."""


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


def audit_market(market: Market, progress: Progress | None = None) -> tuple[Finding, ...]:
    """Run every check. If the market may decide meanwhile, run it in a `read_transaction`: each check reads on its own.

    The events are read once, page by page, and replayed; `progress` is called after each page.
    """
    market.refresh_from_db()
    try:
        seen = EventPass(market, progress)
    except UNREADABLE:
        rows = tuple(_unreadable(market))
        if not rows:
            raise
        return (Finding(check=READABLE, rows=rows),)
    return tuple(Finding(check=name, rows=_rows(check, seen)) for name, check in CHECKS.items())


def _unreadable(market: Market) -> Iterator[str]:
    """Name the bids of which a document is damaged; each is read on its own."""
    bids = Bid.objects.filter(market=market).order_by("sequence")
    for key, sequence in bids.values_list("pk", "sequence"):
        try:
            Rows(market).bids([key])
        except UNREADABLE as error:
            yield f"bid {sequence}: {type(error).__name__}: {error}"


def audit_teams() -> tuple[Finding, ...]:
    """Run every check of the credits of teams; in a `read_transaction` if bids may be decided meanwhile."""
    return tuple(Finding(check=name, rows=tuple(check())) for name, check in CHECKS_OF_TEAMS.items())


def _rows(check: Check, seen: EventPass) -> tuple[str, ...]:
    try:
        return tuple(check(seen))
    except UNREADABLE as error:
        return (f"rows cannot be read: {type(error).__name__}: {error}",)
