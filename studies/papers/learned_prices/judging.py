"""One rule on one pair of periods: what was learned in the first, and what the second earned by it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.book.state import HISTORY, Book, Job
from scheduling.model.decision import counted_offer
from scheduling.model.types import Floats, Ints
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from scheduling.policies.posted_price import profitable, value_of
from scheduling.pricing.paper import paper_bounds
from studies.papers.learned_prices.settings import Period, Setting

Pricing = Dps | Oasis
Rule = Callable[[Setting, Period], Pricing]
"""The policy that judges, from the period before: it may look at the bids themselves, as the papers' formulas do."""


def paper(setting: Setting, past: Period) -> Pricing:
    """The papers' prices, their parameters from all bids of the period before (DPS eq. 20; OASiS (23)-(26))."""
    slots = setting.horizon
    # Each bid sees one horizon from its arrival on, as if it were the first.
    bids = [replace(bid, arrival=0) for bid in past.bids]
    if setting.policy == "dps":
        eta_worker, eta_ps = Dps().paper_etas(bids, past.inventory, end=slots)
        return Dps(price="paper", eta_worker=eta_worker, eta_ps=eta_ps)
    bounds = paper_bounds(bids, past.inventory, start=0, end=slots)
    return Oasis(price="paper", log_low=bounds.log_low, log_high=bounds.log_high)


def quantile(setting: Setting, past: Period) -> Pricing:
    """The default policy: all it knows of the period before is in the receipts."""
    return Dps() if setting.policy == "dps" else Oasis()


@dataclass(frozen=True)
class Judged:
    """The outcome of the judged period under one rule."""

    welfare: float
    """Sum of the values of completions, money: the utility of the papers."""
    revenue: float
    admitted: int
    bids: int


def fluid(setting: Setting, past: Period) -> Pricing:
    """Prices that solve the fluid problem of recent bids."""
    return Dps(price="fluid") if setting.policy == "dps" else Oasis(price="fluid")


RULES: Mapping[str, Rule] = {"paper": paper, "quantile": quantile, "fluid": fluid}


@dataclass(frozen=True)
class Taught:
    """Data from the receipts of one period's bids, in order."""

    densities: Floats
    """N x R."""
    standalone_values: Floats
    """N numbers, money."""
    slots: Ints
    """N numbers."""


def taught(policy: Pricing, period: Period, *, horizon: int, before: int = 0) -> Taught:
    """Return what each receipt states of an offer: density and standalone value, which depend on the bid alone.

    Slots are counted `before` earlier than in the period itself.
    """
    idle = Ledger(period.inventory, start=0, slots=horizon)
    none = np.zeros((0, len(period.inventory.resources)))
    empty = policy.priced_ledger(Book(now=0, ledger=idle, history=none, decided=0)).empty
    bids = [replace(bid, arrival=0) for bid in period.bids]
    rows = [policy.density(bid, period.inventory, horizon=horizon) for bid in bids]
    best = [empty.best(policy.adjusted(bid)) for bid in bids]
    return Taught(
        np.array(rows, dtype=np.float64).reshape(-1, len(period.inventory.resources)),
        np.array([0.0 if answer is None else answer.value for answer in best]),
        np.array([bid.arrival - before for bid in period.bids], dtype=np.int64),
    )


def lessons(policy: Pricing, past: Period, now: Period, *, horizon: int, gap: int) -> Taught:
    """Return what prices learn from both periods, in order; the past one began `gap` slots before the judged one."""
    first, second = taught(policy, past, horizon=horizon, before=gap), taught(policy, now, horizon=horizon)
    densities = np.concatenate([first.densities, second.densities])
    standalone_values = np.concatenate([first.standalone_values, second.standalone_values])
    ledger = Ledger(past.inventory, start=0, slots=horizon)
    for number, offered in enumerate(densities.tolist()):
        book = Book(0, ledger, history=densities[max(0, number - HISTORY) : number], decided=number)
        factors = policy.learning.factors(tuple(offered), book)
        densities[number], standalone_values[number] = counted_offer(offered, standalone_values[number], factors)
    return Taught(densities, standalone_values, np.concatenate([first.slots, second.slots]))


def judge(policy: Pricing, now: Period, known: Taught, *, horizon: int) -> Judged:
    """Decide the judged period's bids in turn, from an idle cluster and all that was known before.

    As `decide` does it, without receipts and counter-offers, which change nothing that follows. `known` ends with
    what the judged bids teach, of which each is looked at only once it is decided.
    """
    ledger = Ledger(now.inventory, start=0, slots=horizon)
    welfare, revenue, admitted = 0.0, 0.0, 0
    jobs: tuple[Job, ...] = ()
    for number, bid in enumerate(now.bids, len(known.slots) - len(now.bids)):
        ledger.advance(bid.arrival)
        jobs = tuple(job for job in jobs if not job.is_over(bid.arrival))
        earlier = slice(max(0, number - HISTORY), number)
        book = Book(
            bid.arrival,
            ledger,
            history=known.densities[earlier],
            decided=number,
            jobs=jobs,
            slots=known.slots[earlier],
            standalone_values=known.standalone_values[earlier],
        )
        posted = policy.priced_ledger(book)
        asked = policy.adjusted(bid)
        schedule = profitable(asked, posted)
        if schedule is not None:
            welfare += value_of(asked, schedule)
            revenue += posted.cost(schedule)
            ledger.commit(schedule)
            admitted += 1
            jobs = (*jobs, Job(asked, schedule.placements, schedule.completion))
    return Judged(welfare, revenue, admitted, len(now.bids))
