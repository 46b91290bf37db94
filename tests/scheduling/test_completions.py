"""Promised completions: against a slow twin, as streams of bids go by, for bidders who lie, and in small examples."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from scheduling.analysis.truthfulness import stated_values
from scheduling.batch.capacity import release
from scheduling.batch.consumption import least_consumption
from scheduling.batch.planner import plan_alone, used_without
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Move, Reason, canonical
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.progress import work_done
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Floats, Json
from scheduling.model.utility import Constant, Linear, Sigmoid, Step, Utility
from scheduling.policies.base import Grant
from scheduling.policies.completions import Completions
from scheduling.policies.posted_price import CENT, with_value
from scheduling.policies.promises import Promises, rest
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import StandingRule
from scheduling.registry import make_policy
from tests.draws import fresh_seed, rounds
from tests.scheduling.twins import completions as twin
from tests.scheduling.worlds import World, world

HORIZON = 15
PARAMETERS: list[Json] = [
    {"later": 0.0},
    {"later": 0.05, "restart": 2},
    {"later": 0.5, "near_share": 0.0, "beside": False, "still_held": False},
]
STANDING = StandingRule(every=2, most=4, longest=1.0)
each_parameter = pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
few_and_many = pytest.mark.parametrize("cases", [1, pytest.param(3, marks=pytest.mark.thorough)])
each_rule = pytest.mark.parametrize("rule", [None, STANDING], ids=["final", "standing"])


class Watched(Completions):
    """The policy, which checks each of its admissions against the prices that it posts."""

    def decide(self, bid: Bid, book: Book) -> Decision:
        decision = super().decide(bid, book)
        check_what_is_kept(self.promises(book))
        check_decision(decision, bid, book, granted=self.grants(book)(bid))
        if decision.admitted:
            check_payment(decision, bid, book, posted=self.prices(book))
        return decision

    def admissions(self, book: Book) -> Callable[[Bid], Decision | None]:
        admitted = super().admissions(book)

        def checked(bid: Bid) -> Decision | None:
            decision = self.decide(bid, book)
            assert admitted(bid) == (decision if decision.admitted else None)
            return admitted(bid)

        return checked


def check_what_is_kept(promises: Promises) -> None:
    """Check that what earlier decisions left is what would be computed now."""
    now, ledger, inventory = promises.book.now, promises.book.ledger, promises.book.inventory
    demand = np.concatenate([inventory.worker_demand, inventory.ps_demand])
    for job in promises.jobs:
        assert promises.known(job).rest == rest(job, now, restart=promises.restart)
    for stops in {0, 1, len(promises.running)}:
        freed = (p for job in (*promises.waiting, *promises.running[:stops]) for p in job.held)
        found = ledger.used.copy()
        release(found, -demand, promises.moved(stops).freed)
        assert (found == used_without(ledger, freed)).all()


def check_decision(decision: Decision, bid: Bid, book: Book, *, granted: Grant | None) -> None:
    """Against what is granted on this book; an admission, against what the bid states, too."""
    assert granted == (Grant(decision.schedule, decision.payment, decision.due) if decision.admitted else None)
    if decision.admitted and decision.due is not None and decision.schedule is not None:
        assert decision.value == bid.utility.at(decision.due - bid.arrival)
        assert decision.payoff > 0, "a bid never loses by its admission"
        assert decision.schedule.completion <= decision.due <= book.ledger.end


def check_payment(decision: Decision, bid: Bid, book: Book, *, posted: Floats) -> None:
    """An admission costs its least consumption at the posted prices, T x S x R, of the promised slot."""
    assert decision.due is not None
    unit = posted[decision.due - book.now - 1].max(axis=0)
    assert decision.payment == pytest.approx(float(unit @ least_consumption(bid, book.inventory).units))


def policy(parameters: Json, of: type[Completions] = Watched) -> Completions:
    return of(**{"refit_every": 3, "initial_low": 0.01, "initial_high": 0.5, **parameters})


def stream(seed: int) -> tuple[World, list[Bid]]:
    """A small cluster, and more bids than it has room for."""
    rng = np.random.default_rng(seed)
    drawn = world(seed, bids=14, servers=int(rng.integers(1, 4)), architectures=frozenset(Architecture))
    slots = np.sort(rng.integers(0, 9, len(drawn.bids))).tolist()
    prompt = rng.random() < 0.5
    return drawn, [
        replace(bid, arrival=slot, delay=tuple(0 if prompt else d for d in bid.delay))
        for bid, slot in zip(drawn.bids, slots, strict=True)
    ]


def start(
    parameters: Json, inventory: Inventory, rule: StandingRule | None = None, of: type[Completions] = Watched
) -> Simulation:
    return Simulation(policy(parameters, of), RunningBook(Ledger(inventory, start=0, slots=HORIZON)), rule=rule)


def run(
    parameters: Json, seed: int, rule: StandingRule | None, of: type[Completions] = Watched
) -> tuple[World, Simulation]:
    drawn, bids = stream(seed)
    going = start(parameters, drawn.inventory, rule, of)
    for bid in bids:
        going.advance(bid.arrival)
        going.arrive(bid)
    going.advance(80)
    return drawn, going


def asked(parameters: Json, cases: int) -> Iterator[tuple[Completions, Bid, Book, str]]:
    """Each bid of random streams, with the book on which it is decided."""
    seed = fresh_seed()
    for case in range(cases):
        drawn, bids = stream(seed + case)
        going = start(parameters, drawn.inventory)
        for bid in bids:
            going.advance(bid.arrival)
            yield policy(parameters), bid, going.book.view(), f"seed {seed + case}, {bid.id}"
            going.arrive(bid)


@few_and_many
@each_parameter
def test_it_promises_what_the_slow_twin_promises(parameters: Json, cases: int) -> None:
    admitted, stopped = 0, 0
    for fast, bid, book, where in asked(parameters, rounds(cases, longer=40)):
        decision, expected = fast.decide(bid, book), twin.promise(fast, bid, book)
        assert decision.admitted == (expected is not None), where
        if expected is None:
            continue
        assert decision.due == expected.slot, where
        assert decision.schedule == expected.plan[bid.id], where
        # Shares in use are rounded down to 2^-30, so prices differ by up to ln(1e15) times that.
        assert decision.payment == pytest.approx(expected.payment, rel=1e-7), where
        plans = {move.job: move.schedule for move in decision.moves} | {bid.id: decision.schedule}
        twin.check_plan(book, plans, {bid.id: expected.slot})
        ran = {job.bid.id for job in book.jobs if any(p.start < book.now < p.end for p in job.held)}
        admitted, stopped = admitted + 1, stopped + (not ran.isdisjoint(plans))
    assert (admitted > 0 and stopped > 0) or rounds(cases, longer=40) < 10


def check_run(drawn: World, going: Simulation) -> None:
    assert not going.book.jobs
    admitted = [decision for decision in going.decisions if decision.admitted]
    assert sorted(going.done) == sorted(decision.bid_id for decision in admitted)
    used = np.zeros((80 + HORIZON, *drawn.inventory.capacity.shape), dtype=np.int64)
    for decision in admitted:
        job = going.done[decision.bid_id]
        assert job.completion is not None
        assert decision.due is not None
        assert job.completion <= decision.due == job.due, "a promise is kept"
        assert work_done(job.bid, job.held, until=job.completion) == job.bid.work
        for p in job.held:
            assert p.start >= job.bid.arrival + job.bid.delay[p.server]
            used[p.start : p.end, p.server] += p.count * np.array(p.machine(drawn.inventory).demand)
    assert (used <= drawn.inventory.capacity).all()


@few_and_many
@each_rule
@each_parameter
def test_every_promise_is_kept_with_the_whole_work_and_within_capacity(
    parameters: Json, rule: StandingRule | None, cases: int
) -> None:
    seed = fresh_seed()
    for case in range(rounds(2 * cases, longer=40)):
        drawn, going = run(parameters, seed + case, rule)
        check_run(drawn, going)
        again = run(parameters, seed + case, rule, Completions)[1]
        texts = [[canonical(one.to_json()) for one in each.decisions] for each in (going, again)]
        assert texts[0] == texts[1], f"seed {seed + case}"
        assert going.moves == again.moves, f"seed {seed + case}"


def test_a_job_that_was_stopped_holds_nothing_in_the_slots_of_its_restart() -> None:
    seed = fresh_seed()
    for case in range(rounds(10)):
        _, going = run({"restart": 2}, seed + case, None)
        for slot, move in going.moves:
            held = going.done[move.job].held
            if any(p.end == slot for p in held):  # it ran until then
                at_rest = [p for p in held if p.start < slot + 2 and p.end > slot]
                assert not at_rest, f"seed {seed + case}: {move.job} was stopped in slot {slot} and holds {at_rest}"


def statements(bid: Bid) -> list[Utility]:
    value = max(1.0, bid.utility.value)
    scaled: list[Utility] = [bid.utility.scaled(factor) for factor in (0.1, 0.5, 0.9, 1.1, 3.0, 40.0)]
    return [*scaled, Constant(value), Linear(2 * value, value / 3), *(Step(9 * value, d) for d in range(HORIZON + 1))]


def check_no_lie_pays(fast: Completions, bid: Bid, book: Book, where: str) -> tuple[Decision, list[Decision]]:
    """Against other values and other shapes; a promised slot counts with what it is worth in truth.

    Returns the decision on the truth, and those on the other statements.
    """
    truth, others = fast.decide(bid, book), []
    plain, granted, posted = Completions(**fast.to_json()), fast.grants(book), fast.prices(book)
    for utility in statements(bid):
        stated = replace(bid, utility=utility)
        other = plain.decide(stated, book)
        check_decision(other, stated, book, granted=granted(stated))
        if other.admitted:
            check_payment(other, stated, book, posted=posted)
        others.append(other)
        if other.due is not None:
            gained = bid.utility.at(other.due - bid.arrival) - other.payment
            assert gained * (1 - fast.later) <= truth.payoff + 1e-9, f"{where}: {utility} is promised slot {other.due}"
    return truth, others


@few_and_many
@each_parameter
def test_no_other_statement_earns_more_than_the_truth_beyond_what_later_allows(parameters: Json, cases: int) -> None:
    for fast, bid, book, where in asked(parameters, rounds(max(1, cases // 2), longer=40)):
        check_no_lie_pays(fast, bid, book, where)


@each_parameter
def test_slots_and_costs_of_the_offer_do_not_depend_on_the_statement(parameters: Json) -> None:
    for fast, bid, book, where in asked(parameters, rounds(2)):
        alone = plan_alone(bid, book.ledger)
        if alone is not None:
            promises = fast.promises(book)
            truth = promises.offer(bid, alone.completion)
            for utility in statements(bid):
                other = promises.offer(replace(bid, utility=utility), alone.completion)
                assert (other.first, other.costs.tolist()) == (truth.first, truth.costs.tolist()), where


@each_parameter
def test_a_counter_offer_is_a_promise(parameters: Json) -> None:
    tried = 0
    for fast, drawn, book, where in asked(parameters, rounds(6)):
        bid = replace(drawn, utility=drawn.utility.scaled(0.02))
        counter = fast.decide(bid, book).counter
        if counter is None:
            continue
        tried += 1
        assert counter.least_value > bid.utility.value - CENT, where
        more = fast.decide(with_value(bid, counter.least_value + CENT), book)
        assert more.due is not None, where
        assert more.due <= counter.completion, where
        if counter.least_value > CENT:
            assert not fast.decide(with_value(bid, counter.least_value - CENT), book).admitted, where
    assert tried > 0


GPUS = Inventory(
    resources=("gpu",),
    servers=("a", "b"),
    cloud=(False, False),
    capacity=np.array([[1], [0]], dtype=np.int64),
    workers=(MachineType("worker", (1,), Fraction(1)),),
    parameter_servers=(),
)
"""One GPU, and a server that has none."""
TWO = replace(GPUS, capacity=np.array([[2], [0]], dtype=np.int64))
EACH = replace(GPUS, capacity=np.array([[1], [1]], dtype=np.int64))
ONE_PRICE: Json = {"initial_low": 1.0, "initial_high": 1.0, "near_share": 0.0}
"""Each slot of a GPU costs 1, however many are in use."""


def job(name: str, utility: Utility, *, work: int, workers: int = 1, arrival: int = 0) -> Bid:
    """A job of as many slots as its work on one worker, or on more of them in less."""
    steps = work // workers
    ring = Architecture.RING
    return Bid(name, arrival, 1, workers, steps, (Fraction(1),), (), (Fraction(0),), (0, 0), utility, ring)


def gpu(start: int, end: int, *, server: int = 0, count: int = 1) -> Placement:
    return Placement(start, end, Role.WORKER, server, 0, count)


def book_with(inventory: Inventory, *jobs: Job, now: int = 0, slots: int = 8, closed: int | None = None) -> RunningBook:
    """A book of these jobs; server a takes no new work from slot `closed` on."""
    ledger = Ledger(inventory, start=now, slots=slots, closed=(closed, None))
    ledger.restore(Schedule(0, 0, tuple(p.since(now) for p in one.held if p.end > now)) for one in jobs)
    return RunningBook(ledger, jobs={one.bid.id: one for one in jobs})


LONG = Job(job("long", Constant(9.0), work=6), (gpu(0, 6),), 6, due=8)
"""It runs on the only GPU and may be two slots late."""


@pytest.mark.parametrize(
    ("bid", "jobs", "reason"),
    [
        (job("new", Constant(9.0), work=9), (), Reason.IMPOSSIBLE),
        (job("new", Step(9.0, 1), work=2), (), Reason.WORTHLESS),
        (job("new", Constant(9.0), work=3), (LONG,), Reason.NO_ROOM),
        (job("new", Step(9.0, 7), work=3), (LONG,), Reason.NO_ROOM),
        (job("new", Constant(1.5), work=2), (LONG,), Reason.PRICE),
        (job("new", Step(1.5, 2), work=2), (LONG,), Reason.PRICE),
    ],
)
def test_a_rejection_says_why(bid: Bid, jobs: tuple[Job, ...], reason: Reason) -> None:
    fast, book = policy(ONE_PRICE), book_with(GPUS, *jobs).view()
    decision = fast.decide(bid, book)
    assert decision.reason is reason
    assert (decision.counter is not None) == (reason is Reason.PRICE)
    if decision.counter is not None:
        assert decision.counter.least_value == pytest.approx(2.0), "two slots of a GPU"
        more = fast.decide(with_value(bid, 2.01), book)
        assert more.due is not None
        assert more.due <= decision.counter.completion
        assert not fast.decide(with_value(bid, 1.99), book).admitted


def test_no_value_is_enough_where_a_sigmoid_has_next_to_nothing_left() -> None:
    bid = job("new", Sigmoid(1.5, 370.0, 0.0), work=2)
    assert 0.0 < bid.utility.at(2) < 1e-320
    decision = policy(ONE_PRICE).decide(bid, book_with(GPUS).view())
    assert (decision.reason, decision.counter) == (Reason.PRICE, None)


def test_a_short_job_stops_a_long_one_that_was_promised_late_and_both_are_in_time() -> None:
    going = start(ONE_PRICE, GPUS)
    first = going.arrive(job("long", Constant(20.0), work=6))
    assert first.due == HORIZON, "no slot costs less than another, so the latest is promised"
    going.advance(2)
    second = going.arrive(job("short", Step(20.0, 2), work=2, arrival=2))
    assert second.due == 4
    going.advance(20)
    assert going.done["short"].held == (gpu(2, 4),)
    assert going.done["long"].held == (gpu(0, 2), gpu(4, 8))


def test_another_statement_is_judged_by_the_slot_that_it_is_promised() -> None:
    going = start(ONE_PRICE, GPUS)
    book, bid = going.book.view(), job("one", Linear(20.0, 1.0), work=4)
    decision = policy(ONE_PRICE).decide(bid, book)
    (truth,) = stated_values(policy(ONE_PRICE), bid, book, [1.0])
    assert decision.schedule is not None
    assert truth.completion == decision.due
    assert truth.payoff == decision.payoff


def test_a_job_that_could_not_keep_its_promise_is_not_stopped() -> None:
    going = start(ONE_PRICE, GPUS)
    assert going.arrive(job("long", Step(20.0, 7), work=6)).due == 7
    going.advance(2)
    assert going.arrive(job("short", Step(20.0, 2), work=2, arrival=2)).reason is Reason.NO_ROOM


@pytest.mark.parametrize(("restart", "first"), [(0, 3), (2, 4)])
def test_when_a_job_is_cancelled_the_next_one_starts_earlier(restart: int, first: int) -> None:
    """It was stopped in slot 2 and may start again `restart` slots later."""
    going = start({**ONE_PRICE, "restart": restart}, GPUS)
    going.arrive(job("long", Constant(20.0), work=6))
    going.advance(2)
    going.arrive(job("short", Step(20.0, 3), work=3, arrival=2))
    going.advance(3)
    going.cancel("short")
    assert going.book.jobs["long"].held == (gpu(0, 2), gpu(first, first + 4))


def test_a_closed_server_takes_no_new_work_and_what_runs_there_stays() -> None:
    fast, short = policy(ONE_PRICE), job("short", Step(20.0, 2), work=2, arrival=2)
    runs, other = Job(LONG.bid, (gpu(0, 6),), 6, due=10), Job(job("other", Constant(9.0), work=6), (), None)
    kept = Job(other.bid, (gpu(1, 7, server=1),), 7, due=10)
    open_ = fast.decide(short, book_with(EACH, runs, kept, now=2).view())
    closed = fast.decide(short, book_with(EACH, runs, kept, now=2, closed=2).view())
    assert open_.schedule == Schedule(2, 4, (gpu(2, 4, server=0),)), "the job on server a was stopped"
    assert closed.schedule == Schedule(2, 4, (gpu(2, 4, server=1),)), "the job on server b was stopped"
    assert [move.job for move in closed.moves] == ["other"]


WIDE = Job(job("wide", Constant(9.0), work=4, workers=2), (gpu(1, 3, count=2),), 3, due=5)
"""It takes both GPUs for two slots if it comes first; one for four slots is in time as well."""
BEFORE = Job(job("before", Constant(9.0), work=2, workers=2), (gpu(0, 1, count=2),), 1, bound=True)


def test_no_lie_pays_where_a_slot_can_be_kept_and_the_next_one_cannot() -> None:
    """Due in slot 4 the new job comes first; due in slot 5 it comes after the wide one and would be complete in 6."""
    fast, book = policy({"later": 0.0, "initial_low": 1e-6}), book_with(TWO, BEFORE, WIDE, slots=11).view()
    new = job("new", Linear(6.0, 1.0), work=3)
    assert [slot for slot in range(3, 8) if twin.kept(fast, new, slot, book) is not None] == [4, 6, 7]
    check_no_lie_pays(fast, new, book, "wide")


def test_a_plan_moves_no_job_to_where_one_stays() -> None:
    """Placed first, the wide job would leave no room for the other before the end, which therefore stays."""
    wide = replace(WIDE, held=(gpu(0, 4),), completion=4, due=4)
    other = Job(job("other", Constant(9.0), work=3), (gpu(0, 3),), 3)
    book = book_with(TWO, wide, other, slots=4)
    book.apply(policy(ONE_PRICE).plan(book.view(), Cause.ENDED))
    assert all(one.completion is not None and one.completion <= 4 for one in book.jobs.values())


@pytest.mark.parametrize(("beside", "schedule"), [(True, Schedule(4, 6, (gpu(4, 6),))), (False, None)])
def test_jobs_that_cannot_be_placed_again_in_order_of_their_promises_do_not_stop_the_market(
    beside: bool, schedule: Schedule | None
) -> None:
    """Placed first, the wide job would take both GPUs for two slots, and the slim one would be late."""
    wide = replace(WIDE, held=(gpu(0, 4),), completion=4, due=4)
    slim = Job(job("slim", Constant(9.0), work=5), (gpu(0, 5),), 5, due=5)
    fast = policy({**ONE_PRICE, "beside": beside})
    decision = fast.decide(job("new", Constant(9.0), work=2), book_with(TWO, wide, slim, slots=12).view())
    assert (decision.schedule, decision.moves) == (schedule, ())
    assert decision.reason is (None if beside else Reason.NO_ROOM)


def test_a_promise_that_is_broken_does_not_stop_the_market() -> None:
    """A job that lost its machines is late in any case; the other server has room for new ones."""
    late = Job(job("late", Constant(9.0), work=6), (gpu(3, 9),), 9, due=4)
    decision = policy(ONE_PRICE).decide(job("new", Constant(9.0), work=2), book_with(EACH, late, slots=12).view())
    assert decision.admitted, decision.explanation


@pytest.mark.parametrize("name", ["completions", "competition"])
@pytest.mark.parametrize("still_held", [True, False])
def test_a_job_that_left_a_server_before_it_closed_may_be_stopped(name: str, still_held: bool) -> None:
    """It ran on server a, and runs on b since; only where it is stopped is the new job complete in time."""
    moved = Job(job("moved", Constant(90.0), work=10), (gpu(0, 2), gpu(2, 10, server=1)), 10, due=14)
    new = job("new", Step(90.0, 3), work=2, arrival=3)
    parameters = {**(ONE_PRICE if name == "completions" else {}), "still_held": still_held}
    decision = make_policy(name, parameters).decide(new, book_with(EACH, moved, now=3, slots=20, closed=3).view())
    later = Move("moved", Schedule(5, 12, (gpu(5, 12, server=1),)))
    assert (decision.admitted, decision.moves) == (still_held, (later,) if still_held else ())


def test_a_job_that_holds_a_server_which_closes_is_not_stopped() -> None:
    stays = Job(job("stays", Constant(90.0), work=10), (gpu(0, 10),), 10, due=14)
    new = job("new", Step(90.0, 3), work=2, arrival=3)
    decision = policy(ONE_PRICE).decide(new, book_with(TWO, stays, now=3, slots=20, closed=3).view())
    assert decision.reason is Reason.NO_ROOM
