"""The line that a book keeps is the one that all its jobs give, whatever a policy does to them."""

from dataclasses import replace

import numpy as np
import pytest

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Architecture
from scheduling.policies.base import Policy
from scheduling.policies.simulation import Simulation
from scheduling.registry import POLICIES, make_policy
from studies.workloads.generated.weighted_completion import Setting, draw


def line_of(book: Book) -> list[str]:
    """Those that may be moved and hold nothing from now on, by arrival; `sorted` keeps the order of admission."""
    waits = [job for job in book.jobs if not job.bound and all(p.end <= book.now for p in job.held)]
    return [job.bid.id for job in sorted(waits, key=lambda job: job.bid.arrival)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in POLICIES if name not in ("oasis", "preemptive")])
@pytest.mark.parametrize("seed", range(3))
def test_the_line_is_that_of_all_jobs_at_every_event(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    architecture = Architecture.PS if name == "dps" else rng.choice(list(Architecture))
    setting = Setting(
        jobs=12, servers=3, slots=6, workers=2, parameter_servers=2, architecture=Architecture(architecture)
    )
    work = draw(setting, rng)
    run = Simulation(make_policy(name, {}), RunningBook(Ledger(work.inventory, start=0, slots=500)))
    seen = 0
    for bid in work.bids:
        while run.book.now < bid.arrival:
            run.advance(run.book.now + 1)
            seen += check(run.book)
        run.arrive(bid)
        seen += check(run.book)
        if rng.random() < 0.2 and run.book.jobs:
            run.cancel(str(rng.choice(list(run.book.jobs))))
            seen += check(run.book)
    assert seen > 0


def check(running: RunningBook) -> bool:
    book, again = running.view(), running.copy().view()
    for one in (book, again):
        assert one.line is not None
        assert [job.bid.id for job in one.line] == line_of(one)
        assert all(running.jobs[job.bid.id] is job for job in one.line)
    return True


def test_jobs_out_of_order_are_put_in_order_and_bound_ones_are_not_in_line() -> None:
    work = draw(Setting(jobs=4, servers=3, slots=50, workers=2, parameter_servers=2), np.random.default_rng(1))
    first, second, third, fourth = work.bids
    rows = [Job(third, (), None), Job(first, (), None), Job(fourth, (), None, bound=True), Job(second, (), None)]
    book = RunningBook(Ledger(work.inventory, start=50, slots=9), jobs={job.bid.id: job for job in rows}).view()
    assert book.line is not None
    assert [job.bid for job in book.line] == [first, second, third]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["fifo", "antman", "drf", "rrh", "srtf", "tiresias", "tiresias_l"])
def test_a_policy_says_the_same_of_a_book_whose_line_it_has_to_find(name: str) -> None:
    work = draw(Setting(jobs=12, servers=2, slots=4, workers=2, parameter_servers=2), np.random.default_rng(2))
    again = [replace(bid, id=f"{bid.id}-{n}") for bid in work.bids for n in range(2)]  # with equal keys
    policy = make_policy(name, {})
    running = RunningBook(Ledger(work.inventory, start=0, slots=900))
    compared = 0
    for bid in again:
        while running.now < bid.arrival:
            running.advance(running.now + 1)
            compared += _compared(policy, running)
            running.apply(policy.plan(running.view(), Cause.ENDED))
        known = running.view()
        decision = policy.decide(bid, known)
        assert policy.decide(bid, _to_be_found(known)) == decision
        running.apply_decision(bid, decision, bound=False)
        compared += _compared(policy, running)
    assert running.view().line
    assert compared > 24


def _compared(policy: Policy, running: RunningBook) -> int:
    known = running.view()
    for cause in Cause:
        assert policy.plan(_to_be_found(known), cause) == policy.plan(known, cause)
    return 1


def _to_be_found(known: Book) -> Book:
    found = Book(known.now, known.ledger.copy(), known.history, known.decided, known.jobs)
    assert found.line is None
    assert found.waiting == known.waiting
    return found
