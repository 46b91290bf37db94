"""Other statements than the truth under `completions`: in a first decision, in a later try, and over several tries."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from scheduling.batch.planner import plan_alone
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Book, Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.schedule import Placement, Role
from scheduling.model.types import Json
from scheduling.model.utility import Constant
from scheduling.policies.completions import Completions
from scheduling.policies.promises import Offer
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import StandingRule
from tests.draws import fresh_seed, rounds
from tests.scheduling.test_completions import (
    GPUS,
    HORIZON,
    asked,
    book_with,
    check_no_lie_pays,
    each_parameter,
    few_and_many,
    gpu,
    job,
    policy,
    stream,
)

EXACT: Json = {"later": 0.0}
OFTEN = StandingRule(every=1, per_age=0, longest=1.0)
TOLERANCE = 1e-9


EACH = 3
"""Tries that follow each other are much alike: one of this number is looked at."""


def tries(parameters: Json, seed: int) -> Iterator[tuple[Completions, Bid, Book, str]]:
    """Tries of standing bids in a random stream, with a copy of the book on which each is decided again."""
    seen: list[tuple[Bid, Book]] = []

    class Noted(Completions):
        def admissions(self, book: Book) -> Callable[[Bid], Decision | None]:
            admitted = super().admissions(book)

            def tried(bid: Bid) -> Decision | None:
                seen.append((bid, replace(book, ledger=book.ledger.copy())))
                return admitted(bid)

            return tried

    drawn, bids = stream(seed)
    fast = policy(parameters)
    book = RunningBook(Ledger(drawn.inventory, start=0, slots=HORIZON))
    going = Simulation(Noted(**fast.to_json()), book, rule=OFTEN)
    for bid in bids:
        going.advance(bid.arrival)
        going.arrive(bid)
    going.advance(30)
    for bid, copied in seen[seed % EACH :: EACH]:
        yield fast, bid, copied, f"seed {seed}, {bid.id} in slot {copied.now}"


@few_and_many
@each_parameter
def test_in_a_try_no_other_value_or_shape_earns_more_than_later_allows(parameters: Json, cases: int) -> None:
    """As in a first decision; and what a promised slot costs does not depend on who states what to get it."""
    seed, tried, admitted, streams = fresh_seed(), 0, 0, rounds(cases, longer=40)
    for case in range(streams):
        for fast, bid, book, where in tries(parameters, seed + case):
            truth, others = check_no_lie_pays(fast, bid, book, where)
            costs = {(one.due, one.payment) for one in others if one.admitted}
            assert len(costs) == len({due for due, _ in costs}), where
            tried, admitted = tried + 1, admitted + truth.admitted
    assert (tried > 0 and admitted > 0) or streams < 40, "a few streams may have no bid that is admitted later"


def of_another_size(bid: Bid) -> list[Bid]:
    """Statements that ask for at least the machines that the job needs: more work, fewer workers, later uploads."""
    return [
        *(replace(bid, minibatches=bid.minibatches + more) for more in (1, 2, 4)),
        *(replace(bid, worker_time=tuple(part * time for time in bid.worker_time)) for part in SLOWER),
        *(
            replace(bid, chunks=workers, minibatches=ceil(bid.minibatches * bid.chunks / workers))
            for workers in range(1, bid.chunks)
        ),
        *(replace(bid, delay=tuple(slots + more for slots in bid.delay)) for more in (1, 2, 3)),
    ]


SLOWER = (Fraction(11, 10), Fraction(3, 2), Fraction(2))


def offer_of(fast: Completions, bid: Bid, book: Book) -> tuple[Offer, int] | None:
    """What a bid is offered, and the first slot that can be kept; None if there is none."""
    alone, promises = plan_alone(bid, book.ledger), fast.promises(book)
    if alone is None:
        return None
    offer = promises.offer(bid, alone.completion)
    first = promises.soonest(bid, offer, last=len(offer.costs))
    return None if first is None else (offer, offer.first + first.number)


@few_and_many
def test_another_size_gains_only_by_cheaper_units_or_by_a_sooner_slot(cases: int) -> None:
    fast_parameters = EXACT
    for fast, bid, book, where in asked(fast_parameters, rounds(cases, longer=40)):
        truth, menu = fast.decide(bid, book), offer_of(fast, bid, book)
        for stated in of_another_size(bid):
            other = fast.decide(stated, book)
            if other.due is None:
                continue
            gained = bid.utility.at(other.due - bid.arrival) - other.payment
            if gained <= truth.payoff + TOLERANCE:
                continue
            sooner = menu is None or other.due < menu[1]
            cheaper = menu is not None and other.payment < menu[0].costs[other.due - menu[0].first] - TOLERANCE
            assert sooner or cheaper, f"{where}: {stated}"


TWO_KINDS = Inventory(
    resources=("a", "b"),
    servers=("s",),
    cloud=(False,),
    capacity=np.array([[4, 5]], dtype=np.int64),
    workers=(MachineType("on a", (1, 0), Fraction(1)), MachineType("on b", (0, 1), Fraction(1))),
    parameter_servers=(),
)


def on_either(minibatches: int) -> Bid:
    """A job of one worker: two slots on `a` and three on `b` with 4 mini-batches, three slots on either with 5."""
    times = Fraction(1, 2), Fraction(11, 20)
    return Bid("new", 0, 1, 1, minibatches, times, (), (Fraction(0),) * 2, (0,), Constant(9.0), Architecture.RING)


def test_more_work_is_cheaper_where_its_least_consumption_is_of_a_resource_with_a_lower_price() -> None:
    """A bid pays for its least consumption by shares of the cluster, which is not always the cheapest one."""
    work = Job(replace(on_either(16), id="other"), (Placement(0, 8, Role.WORKER, 0, 0, 3),), 8, due=8)
    book = book_with(TWO_KINDS, work, slots=8)
    fast = policy({**EXACT, "near_share": 0.0, "initial_low": 0.01, "initial_high": 1.0})
    truth, more = (fast.decide(on_either(minibatches), book.view()) for minibatches in (4, 5))
    assert truth.payment == pytest.approx(2 * 0.01 * 100**0.75, rel=1e-6)
    assert more.payment == pytest.approx(3 * 0.01, rel=1e-6)
    assert truth.due == more.due == 8
    assert more.payoff > truth.payoff


@pytest.mark.parametrize(("each_kind", "offered"), [(True, (9 / 2, 9 / 3)), (False, (9 / 2, 0.0))])
def test_a_bid_is_an_offer_for_each_kind_of_machine_that_it_could_use(
    each_kind: bool, offered: tuple[float, ...]
) -> None:
    for book, admitted in ((book_with(TWO_KINDS, slots=8), True), (book_with(TWO_KINDS, slots=1), False)):
        decision = policy({"each_kind": each_kind}).decide(on_either(4), book.view())
        assert (decision.admitted, decision.density) == (admitted, offered)


ONE_SLOT = job("new", Constant(40.0), work=1)
LONG = Job(job("long", Constant(9.0), work=6), (gpu(0, 6),), 6, due=8)


def after_stating(value: float) -> tuple[int | None, float]:
    """The slot in which a job of one slot that is worth 40 is admitted, and its payoff, if it states another value."""
    fast = policy({**EXACT, "near_share": 0.0, "initial_low": 1.0, "initial_high": 100.0})
    going = Simulation(fast, book_with(GPUS, LONG), rule=StandingRule(every=4, longest=9.0))
    going.arrive(ONE_SLOT if value == 40.0 else replace(ONE_SLOT, utility=Constant(value)))
    going.advance(8)
    (decision,) = going.decisions
    return (decision.slot, 40.0 - decision.payment) if decision.admitted else (None, 0.0)


def test_a_sequence_of_tries_is_not_truthful() -> None:
    """Six of eight slots are due at first, two of eight four slots later."""
    slot, earned = after_stating(40.0)
    assert slot == 0
    assert earned == pytest.approx(40.0 - 100**0.75, rel=1e-6)
    slot, earned = after_stating(20.0)
    assert slot == 4
    assert earned == pytest.approx(40.0 - 100**0.25, rel=1e-6)


def test_who_states_too_little_can_lose_in_a_sequence_of_tries() -> None:
    slot, earned = after_stating(2.0)
    assert (slot, round(earned, 6)) == (8, 39.0), "no work is due any more"
    assert after_stating(0.5) == (None, 0.0), "less than an empty cluster costs"
