"""Competitive ratios of a market that queues: total time of its latest complete jobs, divided by a lower bound.

The linear programs take seconds, so a worker solves them from time to time, and pages read the stored result.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from time import perf_counter
from typing import Any, Final

from django.db.models import Max

from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.models import Bid, BidState, CompetitiveRatio, Market, Segment
from auctions.state.book import core_in_force
from auctions.state.market_snapshot import market_snapshot, one_version
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.errors import SchedulingError
from scheduling.policies.preemptive import Preemptive
from scheduling.preemptive.bounds import Least, NotSolved, TooLarge, least
from scheduling.preemptive.duals import flow, play
from scheduling.preemptive.workers import TICKS

MOST_JOBS: Final = 40
MOST_UNKNOWNS: Final = 60_000
LONGEST_S: Final = 20.0
"""Time limit of each linear program, seconds."""
STEPS: Final = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)
"""Step lengths of the linear programs, slots; the first that gives a small enough program is used.

A longer step gives a weaker bound.
"""
SPEEDS: Final = (Fraction(1), Fraction(6, 5), Fraction(3, 2))
AS_IT_RAN: Final = "as it ran"


@dataclass(frozen=True)
class RunRatios:
    """One run of the jobs: totals in slots, and their ratios to the bounds at speed 1."""

    run: str
    fractional: float
    """Time from arrival to the mean of a job's work, summed over jobs."""
    jct: float
    """Time from arrival to completion, summed over jobs."""
    fractional_ratio: float
    jct_ratio: float


@dataclass(frozen=True)
class Findings:
    """The result, or why there is none."""

    jobs: int
    """Number of latest complete jobs that were examined."""
    complete: int
    """Number of all jobs completed since servers last changed."""
    step: float
    """Step length of the linear programs, slots; 0 if there is no result."""
    fractional_bound: float
    jct_bound: float
    rows: tuple[RunRatios, ...]
    reason: str = ""
    """Message that says why there are no rows."""

    @classmethod
    def nothing(cls, reason: str, *, jobs: int = 0, complete: int = 0) -> "Findings":
        """Return a result without rows, with the reason."""
        return cls(jobs, complete, 0.0, 0.0, 0.0, (), reason)

    @classmethod
    def from_json(cls, document: Any) -> "Findings":
        """Read what `asdict` wrote."""
        return cls(**{**document, "rows": tuple(RunRatios(**row) for row in document["rows"])})


def found(market: Market) -> Findings:
    """Return the latest result of a market."""
    row = CompetitiveRatio.objects.filter(market=market).first()
    if row is None:
        return Findings.nothing("No job is complete yet, or they have not been looked at: that is done every minute.")
    return Findings.from_json(row.findings)


def renew(market_id: int) -> CompetitiveRatio | None:
    """Compute a market's competitive ratios again if jobs were completed since; None if its policy does not queue.

    Jobs that were complete early do not count: they did less than the work that the bound is computed from.
    """
    began = perf_counter()
    with one_version():
        seen = market_snapshot(Market.objects.get(pk=market_id))
        market, book = seen.market, seen.book
        if not isinstance(book.policy, Preemptive):
            return None
        of_these_servers = Bid.objects.filter(
            decision__inventory_version=market.inventory_version, queued__isnull=False
        )
        done = of_these_servers.filter(market=market, state=BidState.COMPLETED, ended_slot=None).distinct()
        complete = done.count()
        basis = f"{complete} {market.inventory_version} {book.policy_id}"
        row = CompetitiveRatio.objects.filter(market=market).first() or CompetitiveRatio(market=market, basis="")
        if row.basis == basis:
            return row
        latest = list(done.filter(seal=None).order_by("-completion_slot", "-sequence")[:MOST_JOBS])
    bids = sorted(latest, key=lambda bid: bid.sequence)
    findings = _measured(bids, complete, market, book.snapshot, book.policy)  # rows of complete jobs never change
    row.basis, row.findings, row.computed_at = basis, asdict(findings), seen.moment.wall
    row.duration_ms = (perf_counter() - began) * 1000
    row.save()
    return row


def _measured(
    bids: Sequence[Bid], complete: int, market: Market, snapshot: InventorySnapshot, policy: Preemptive
) -> Findings:
    if not bids:
        return Findings.nothing("No job is complete yet since servers last changed.")
    cores = [core_in_force(bid, market, snapshot) for bid in bids]
    try:
        bound, step = _bound(cores, snapshot)
        runs = [(AS_IT_RAN, *_as_it_ran(bids))]
        for speed in SPEEDS:
            took = flow(play(cores, snapshot.inventory, rule=policy.cloud, speed=speed))
            runs.append((f"speed {float(speed):g}", float(took.fractional), float(took.jobs)))
    except TooLarge:
        reason = f"{len(bids)} jobs here are too many for a linear program of at most {MOST_UNKNOWNS:,} unknowns."
        return Findings.nothing(reason, jobs=len(bids), complete=complete)
    except NotSolved:
        reason = f"The linear program of {len(bids)} jobs was not solved within {LONGEST_S:g} s."
        return Findings.nothing(reason, jobs=len(bids), complete=complete)
    except SchedulingError as error:
        return Findings.nothing(f"The jobs cannot be run again: {error}.", jobs=len(bids), complete=complete)
    if bound.fractional <= 0:
        reason = f"The jobs are too short for steps of {step:g} slots: nothing is proved."
        return Findings.nothing(reason, jobs=len(bids), complete=complete)
    rows = (RunRatios(name, work, jobs, work / bound.fractional, jobs / bound.jct) for name, work, jobs in runs)
    return Findings(len(bids), complete, step, bound.fractional, bound.jct, tuple(rows))


def _bound(cores: Sequence[CoreBid], snapshot: InventorySnapshot) -> tuple[Least, float]:
    """Return the bounds, and the step length that gave a small enough program, slots."""
    for step in STEPS[:-1]:
        try:
            return least(cores, snapshot.inventory, step=step, most=MOST_UNKNOWNS, seconds=LONGEST_S), step
        except TooLarge:
            continue
    return least(cores, snapshot.inventory, step=STEPS[-1], most=MOST_UNKNOWNS, seconds=LONGEST_S), STEPS[-1]


def _as_it_ran(bids: Sequence[Bid]) -> tuple[float, float]:
    """Return the jobs' times from arrival to the mean of their work and to completion, each summed over jobs, slots."""
    arrival = {bid.pk: bid.arrival_slot * TICKS for bid in bids}
    chunks = {bid.pk: int(bid.resolved_request["chunks"]) for bid in bids}
    segments = Segment.objects.filter(queued__bid__in=list(arrival))
    columns = ("queued__bid_id", "queued__each", "count", "start", "end")
    work = Fraction(0)
    for bid, each, count, start, end in segments.values_list(*columns):
        work += Fraction(count * (end - start), each * chunks[bid]) * (Fraction(start + end, 2) - arrival[bid])
    ends = segments.order_by().values_list("queued__bid_id").annotate(last=Max("end"))
    jobs = sum(last - arrival[bid] for bid, last in ends)
    return float(work / TICKS), jobs / TICKS
