"""Promises of completions, one slot at a time: every slot of the offer is tried, and every number of stopped jobs.

Prices and shares are exact fractions and plain floats; jobs are placed by the slow planner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp

from scheduling.batch.consumption import least_consumption
from scheduling.book.ledger import Ledger
from scheduling.book.state import Book, Job
from scheduling.model.bid import Bid
from scheduling.model.progress import rest_of
from scheduling.model.schedule import Schedule
from scheduling.policies.completions import Completions
from scheduling.policies.promises import STOPS
from tests.scheduling.twins import planner_slow
from tests.scheduling.twins.prices_slow import unit_price

NO_PROMISE = 10**18
Plan = dict[str, Schedule]


@dataclass(frozen=True)
class Promise:
    """What a bid is promised: a slot for a payment, and a plan that keeps it."""

    slot: int
    payment: float
    value: float
    plan: Plan


def promise(policy: Completions, bid: Bid, book: Book) -> Promise | None:
    """What the policy promises: the best payoff above 0, or the latest slot that is nearly as good."""
    able = [one for one in menu(policy, bid, book) if one.value > one.payment]
    if not able:
        return None
    most = max(one.value - one.payment for one in able)
    best = min(one.slot for one in able if one.value - one.payment == most)
    near = [one for one in able if one.slot >= best and one.value - one.payment >= (1 - policy.later) * most]
    return max(near, key=lambda one: one.slot)


def menu(policy: Completions, bid: Bid, book: Book) -> list[Promise]:
    """Every slot that can be promised, with what it costs and what it is worth.

    A plan keeps the slot in which it is complete and all later ones, whatever slot it was made for.
    """
    end = book.ledger.end
    empty = Ledger(book.inventory, start=book.now, slots=end - book.now)
    alone = planner_slow.plan_batch([bid], empty, [(book.now, end)]).get(bid.id)
    slots = range(end + 1 if alone is None else alone.completion, end + 1)
    plans = {slot: kept(policy, bid, slot, book) for slot in slots}
    found = halved(plans, bid.id)
    if found is None:
        return []
    first, soonest = found
    return [
        Promise(slot, cost(policy, bid, slot, book), bid.utility.at(slot - bid.arrival), plans[slot] or soonest)
        for slot in range(first, end + 1)
    ]


def halved(plans: dict[int, Plan | None], name: str) -> tuple[int, Plan] | None:
    """The first slot that is found by halving, and its plan, which is complete then or sooner; None if there is none.

    Now and then a plan for a slot in between that the halving passes over would be complete sooner.
    """
    low, last = min(plans, default=0), max(plans, default=0)
    best = plans.get(last)
    if best is None:
        return None
    first = best[name].completion
    while low < first:
        middle = (low + first) // 2
        plan = plans[middle]
        if plan is None:
            low = middle + 1
        else:
            best, first = plan, max(low, plan[name].completion)
    return first, best


def cost(policy: Completions, bid: Bid, slot: int, book: Book) -> float:
    """What the least consumption of the job costs if it is due in a slot, at the fullest time up to then or later."""
    function, total = policy.price_function(book), 0.0
    for r, units in enumerate(least_consumption(bid, book.inventory).units):
        capacity = int(book.inventory.capacity[:, r].sum())
        if units == 0 or capacity == 0:
            continue
        fullest = max(
            Fraction(work_due(book, last, r), capacity * (last - book.now)) for last in range(slot, book.ledger.end + 1)
        )
        fullest = min(Fraction(1), fullest)
        total += units * unit_price(
            exp(function.log_scale[r]),
            exp(function.log_scale[r] + function.log_growth[r]),
            fullest.numerator,
            fullest.denominator,
            slot - 1 - book.now,
            discounted_slots=function.discounted_slots,
            per_slot_ahead=function.per_slot_ahead[r] if function.per_slot_ahead else 0.0,
        )
    return total


def work_due(book: Book, last: int, resource: int) -> int:
    """Unit-slots from now on that jobs hold which are due by a slot; work without a promise is due at the end."""
    total = 0
    for job in book.jobs:
        if min(due(job), book.ledger.end) <= last:
            for p in job.held:
                units = p.count * p.machine(book.inventory).demand[resource]
                total += sum(units for slot in range(p.start, p.end) if slot >= book.now)
    return total


def kept(policy: Completions, bid: Bid, slot: int, book: Book) -> Plan | None:
    """The plan that stops the fewest jobs and keeps every promise and the bid's; None if there is none.

    If other jobs, placed again, would always break a promise, the bid may be placed beside all of them.
    """
    free = [job for job in book.jobs if not job.bound]
    runs = [job for job in free if any(p.start < book.now < p.end for p in job.held)]
    waits = [job for job in free if job not in runs]
    since = book.now if policy.still_held else 0
    closed = book.ledger.closed
    runs = [job for job in runs if all(p.server not in closed or p.end <= since for p in job.held)]
    runs.sort(key=lambda job: -due(job))
    for count in [*(count for count in STOPS if count < len(runs)), len(runs)]:
        stopped = [job for job in runs[:count] if due(job) > slot]
        plan = place(policy, [*waits, *stopped], bid, slot, book)
        promised = {bid.id: slot} | {job.bid.id: due(job) for job in [*waits, *stopped]}
        if all(name in plan and plan[name].completion <= last for name, last in promised.items()):
            return plan
    if policy.beside:
        plan = place(policy, [], bid, slot, book)
        if bid.id in plan and plan[bid.id].completion <= slot:
            return plan
    return None


def place(policy: Completions, jobs: Sequence[Job], bid: Bid, slot: int, book: Book) -> Plan:
    """Place jobs and the bid in order of their promises, each as early as possible, on what the others leave."""
    rows = [(due(job), rest(job, policy.restart, book.now)) for job in jobs]
    ordered = [one for _, one in sorted([*rows, (slot, bid)], key=lambda row: row[0])]
    freed = [p for job in jobs for p in job.held if p.server not in book.ledger.closed]
    return planner_slow.plan_batch(ordered, book.ledger, [(book.now, book.ledger.end)], freed=freed)


def rest(job: Job, restart: int, now: int) -> Bid:
    """The work that is left of a job; it may go on `restart` slots after the last one in which it ran."""
    ran = [slot for p in job.held for slot in range(p.start, p.end) if slot < now]
    if not ran:
        return job.bid
    left = rest_of(job.bid, job.held, now=now)
    first = max(now, max(ran) + 1 + restart, left.arrival)
    return replace(left, arrival=first, delay=tuple(max(0, left.arrival + d - first) for d in left.delay))


def due(job: Job) -> int:
    return NO_PROMISE if job.due is None else job.due


def check_plan(book: Book, plans: Mapping[str, Schedule | None], promises: Mapping[str, int]) -> None:
    """Raise if jobs with these new plans and all others as before break a promise or take more than there is."""
    free: dict[tuple[int, int, int], int] = {}
    last = dict(promises) | {job.bid.id: due(job) for job in book.jobs}
    held = {job.bid.id: [p for p in job.held if p.end > book.now] for job in book.jobs}
    for name, plan in plans.items():
        assert plan is not None
        assert plan.completion <= last[name], f"{name} would be late"
        held[name] = list(plan.placements)
    for p in (p for placements in held.values() for p in placements):
        for slot in range(max(p.start, book.now), p.end):
            for r, units in enumerate(p.machine(book.inventory).demand):
                cell = slot, p.server, r
                free[cell] = free.get(cell, int(book.inventory.capacity[p.server, r])) - p.count * units
    assert min(free.values(), default=0) >= 0, "more is taken than there is"
