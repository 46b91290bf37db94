"""The weighted-completion policy, rolling and by intervals: every case, and what its plans promise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduling.batch.consumption import ConsumptionPrice
from scheduling.batch.intervals import last_interval, next_end
from scheduling.batch.maxweight import pack
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Cause, Job
from scheduling.instances.fields import parse_document
from scheduling.instances.weighted_completion import WeightedInstance, read_weighted
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Move, Reason
from scheduling.model.errors import InvalidField
from scheduling.model.progress import work_done
from scheduling.model.utility import Constant, Linear
from scheduling.policies.line import Line
from scheduling.policies.simulation import Simulation, simulate
from scheduling.policies.weighted_completion import WeightedCompletion
from scheduling.registry import make_policy, recorded_policy
from tests.data.make.weighted import random_sequence
from tests.draws import fresh_seed, rounds
from tests.scheduling.cases import expects, is_sequence, load, weighted_cases
from tests.scheduling.twins.documents.weighted import Cluster, by_intervals, rolling
from tests.scheduling.twins.weighted_cases import random_instance

DRAWN = 8
ROLLING = WeightedCompletion(mode="rolling")
LITERAL = WeightedCompletion(mode="interval")
CHAINED = WeightedCompletion(mode="interval", batches="chained")
SEQUENCES = weighted_cases(keep=is_sequence)
BATCHES = weighted_cases(keep=lambda path: expects(path, "maxweight_exact_density"))
LONG = 400
"""Slots enough for any printed interval of a case."""


def read(path: Path) -> WeightedInstance:
    return read_weighted(parse_document(path.read_text()))


def run(instance: WeightedInstance, policy: WeightedCompletion, *, slots: int = LONG) -> Simulation:
    bids = sorted(instance.bids, key=lambda bid: bid.arrival)
    return simulate(policy, bids, Ledger(instance.inventory, start=1, slots=slots), until=2 * LONG)


def completions(going: Simulation) -> dict[str, int]:
    return {name: job.completion for name, job in going.done.items() if job.completion is not None}


@pytest.mark.parametrize("path", SEQUENCES)
@pytest.mark.parametrize(
    ("key", "policy"), [("rolling_density", ROLLING), ("online_commit_alpha4", LITERAL), ("online_chain", CHAINED)]
)
def test_every_sequence_completes_as_expected(path: Path, key: str, policy: WeightedCompletion) -> None:
    instance, want = read(path), load(path)["expected"][key]
    done = completions(run(instance, policy))
    assert done == want["completion"]
    assert sum(bid.utility.value * done[bid.id] for bid in instance.bids) == want["twct"]


@pytest.mark.parametrize("arch", ["ps", "ring"])
def test_fresh_sequences_complete_as_planning_them_job_by_job_does(arch: str) -> None:
    first = fresh_seed()
    for seed in range(first, first + DRAWN):
        document = random_sequence(arch, seed)
        instance, cluster = read_weighted(document), Cluster(document)
        assert completions(run(instance, ROLLING)) == rolling(cluster), f"seed {seed}"
        for policy, chained in ((LITERAL, False), (CHAINED, True)):
            found = completions(run(instance, policy))
            assert found == by_intervals(cluster, alpha=policy.alpha, chained=chained), f"seed {seed}, {policy.batches}"


@pytest.mark.parametrize("path", SEQUENCES)
def test_the_horizon_of_the_file_is_long_enough_for_rolling(path: Path) -> None:
    instance = read(path)
    assert (
        completions(run(instance, ROLLING, slots=instance.T)) == load(path)["expected"]["rolling_density"]["completion"]
    )


@pytest.mark.parametrize("path", BATCHES)
@pytest.mark.parametrize(("order", "key"), [("density", "density"), ("weight", "weight"), ("arrival", "index")])
def test_every_batch_has_the_expected_weight(path: Path, order: str, key: str) -> None:
    instance, want = read(path), load(path)["expected"][f"maxweight_exact_{key}"]["weight"]
    assert instance.tau is not None
    jobs = [Job(replace(bid, arrival=1), held=(), completion=None) for bid in instance.bids]
    scale = (instance.kappa,) * len(instance.inventory.resources)
    for prices in (ConsumptionPrice(1.0, scale), ConsumptionPrice(instance.lambda_, scale)):
        ledger = instance.ledger()
        book = RunningBook(ledger, jobs={job.bid.id: job for job in jobs})
        placed = pack([job.bid for job in Line.of(book.view(), order).jobs()], ledger, prices, [(1, instance.tau)])
        assert sum(job.bid.utility.value for job in jobs if job.bid.id in placed) == want


@pytest.fixture
def book() -> RunningBook:
    """One server for one worker and its parameter server, and nothing to do yet."""
    return RunningBook(read_weighted(ONE_SERVER).ledger())


ONE_SERVER: dict[str, Any] = {
    "arch": "ps",
    "T": 20,
    "bw": 1,
    "servers": [[1, 2]],
    "workers": [[1, 1]],
    "pss": [[0, 1]],
    "jobs": [{"id": "a", "a": 1, "w": 6, "E": 1, "D": 1, "K": 3, "v": ["1"], "U": ["0"], "comm": ["0"]}],
}


def job(name: str, weight: float, slots: int, *, arrival: int = 1) -> Bid:
    """A job that takes this number of slots on the only worker."""
    bid = read_weighted(ONE_SERVER).bids[0]
    return replace(bid, id=name, minibatches=slots, utility=Constant(weight), arrival=arrival)


def arrive(book: RunningBook, bid: Bid, policy: WeightedCompletion = ROLLING) -> Decision:
    decision = policy.decide(bid, book.view())
    book.apply_decision(bid, decision, bound=policy.binding)
    return decision


def test_a_job_that_has_the_cluster_to_itself_starts_now_and_pays_nothing(book: RunningBook) -> None:
    decision = arrive(book, job("a", 6, 3))
    assert decision.schedule is not None
    assert (decision.schedule.start, decision.schedule.completion) == (1, 4)
    assert (decision.value, decision.payment, decision.payoff) == (6, 0, 6)
    assert "starts now, in slot 1, and is complete at slot 4" in decision.explanation
    assert "Nobody pays" in decision.explanation


def test_a_denser_job_goes_first_and_moves_the_one_that_waits(book: RunningBook) -> None:
    arrive(book, job("running", 1, 3))
    book.advance(2)
    waiting = arrive(book, job("waiting", 6, 3, arrival=2))
    assert waiting.schedule is not None
    assert "alone in line, planned to start in slot 4 and to be complete at slot 7" in waiting.explanation
    dense = arrive(book, job("dense", 6, 1, arrival=2))
    assert dense.schedule is not None
    assert (dense.schedule.start, dense.schedule.completion) == (4, 5)
    assert "number 1 of the 2 jobs in line" in dense.explanation
    assert [(move.job, move.schedule.start) for move in dense.moves if move.schedule] == [("waiting", 5)]
    assert book.jobs["running"].completion == 4


def test_jobs_that_start_now_are_not_in_line(book: RunningBook) -> None:
    arrive(book, job("now", 6, 3))
    assert "alone in line, planned to start in slot 4" in arrive(book, job("next", 6, 3)).explanation
    assert "number 2 of the 2 jobs in line" in arrive(book, job("after", 6, 3)).explanation


def test_a_job_that_has_started_keeps_its_placement_and_one_that_starts_now_may_move(book: RunningBook) -> None:
    arrive(book, job("first", 1, 3))
    moved = arrive(book, job("urgent", 100, 1))
    assert [move.job for move in moved.moves] == ["first"]
    book.advance(2)
    assert book.jobs["first"].held[0].start == 2
    book.advance(3)
    late = arrive(book, job("late", 10_000, 1, arrival=3))
    assert not late.moves
    assert late.schedule is not None
    assert late.schedule.start == 5


def test_what_was_cancelled_lets_the_others_come_forward(book: RunningBook) -> None:
    for name in ("a", "b", "c"):
        arrive(book, job(name, 6, 3))
    book.advance(2)
    book.end("a")
    moves = ROLLING.plan(book.view(), Cause.ENDED)
    assert [(move.job, move.schedule and move.schedule.start) for move in moves] == [("b", 2), ("c", 5)]
    book.apply(moves)
    assert ROLLING.plan(book.view(), Cause.ENDED) == ()


def test_a_slot_that_passes_changes_no_plan_but_may_bring_one_to_a_job_without(book: RunningBook) -> None:
    arrive(book, job("long", 6, 15))
    book.advance(2)
    in_line = arrive(book, job("in line", 1, 7, arrival=2))
    assert in_line.admitted
    assert in_line.schedule is None
    assert in_line.value == 1
    assert "alone in line, without a planned start" in in_line.explanation
    book.advance(3)
    (move,) = ROLLING.plan(book.view(), Cause.SLOT)
    assert move.schedule is not None
    assert (move.job, move.schedule.start, move.schedule.completion) == ("in line", 16, 23)
    book.apply([move])
    assert ROLLING.plan(book.view(), Cause.SLOT) == ()


def test_a_job_that_nothing_could_run_is_rejected(book: RunningBook) -> None:
    decision = arrive(book, job("endless", 6, 21))
    assert (decision.admitted, decision.reason, decision.standalone_value) == (False, Reason.IMPOSSIBLE, 0.0)
    assert "Even the empty cluster could not complete it before slot 21" in decision.explanation


def test_a_promise_of_an_auction_is_never_moved(book: RunningBook) -> None:
    promised = job("promised", 0.001, 3)
    book.apply_decision(promised, ROLLING.decide(promised, book.view()), bound=True)
    decision = arrive(book, job("urgent", 1000, 1))
    assert decision.schedule is not None
    assert decision.schedule.start == 4
    assert not decision.moves
    assert ROLLING.plan(book.view(), Cause.CHANGED) == ()


def test_what_another_policy_left_paused_is_brought_to_its_end(book: RunningBook) -> None:
    arrive(book, job("paused", 6, 5))
    book.advance(3)
    book.apply([Move("paused", None)])
    (move,) = ROLLING.plan(book.view(), Cause.CHANGED)
    assert move.schedule is not None
    assert (move.schedule.start, move.schedule.completion) == (3, 6)


@pytest.mark.parametrize("mode", ["search", "rolling"])
@pytest.mark.parametrize(("exact", "completion"), [(True, 17), (False, 24)])
def test_a_job_that_ran_before_has_exactly_its_rest_to_do(
    book: RunningBook, mode: str, exact: bool, completion: int
) -> None:
    """Seven of sixteen mini-batches of a slot, two for each of eight chunks, are done when it loses its machine."""
    policy = WeightedCompletion(mode=mode, exact_rest=exact)
    arrive(book, replace(job("stopped", 6, 1), chunks=8, minibatches=2), policy)
    book.advance(8)
    book.apply([Move("stopped", None)])
    (move,) = policy.plan(book.view(), Cause.CHANGED)
    assert move.schedule is not None
    # Rounded up to two for each chunk, the nine that are left are sixteen once more, as in older records.
    assert (move.schedule.start, move.schedule.completion) == (8, completion)


@pytest.mark.parametrize("name", ["weighted_completion", "batch_sche"])
def test_a_record_without_the_exact_rest_is_replayed_with_a_rounded_one(name: str) -> None:
    parameters = make_policy(name, {}).to_json()
    assert parameters.pop("exact_rest") is True
    assert recorded_policy(name, parameters).to_json()["exact_rest"] is False


def test_a_running_job_is_stopped_for_an_urgent_one_if_rescaling_is_chosen(book: RunningBook) -> None:
    policy = WeightedCompletion(rescaled=1, restart=2)
    arrive(book, job("slow", 1, 9), policy)
    book.advance(3)
    arrive(book, job("urgent", 100, 2, arrival=3), policy)
    assert [(p.start, p.end) for p in book.jobs["urgent"].held] == [(3, 5), (3, 5)]
    # Two of nine slots are done; the other seven start when two slots have passed and the machines are free.
    assert sorted({(p.start, p.end) for p in book.jobs["slow"].held}) == [(1, 3), (5, 12)]
    assert book.jobs["slow"].completion == 12


def test_a_running_job_runs_on_where_a_restart_would_cost_more_than_it_saves(book: RunningBook) -> None:
    policy = WeightedCompletion(rescaled=1, restart=2)
    arrive(book, job("first", 10, 4), policy)
    book.advance(3)
    decision = arrive(book, job("second", 10, 2, arrival=3), policy)
    assert not decision.moves
    assert decision.schedule is not None
    assert decision.schedule.start == 5


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", Architecture)
def test_rescaling_lowers_the_total_in_the_mean(architecture: Architecture) -> None:
    """On fixed instances: of rings one in eight is changed, so of thirty others one time in a hundred none is lower."""
    rng = np.random.default_rng(5)
    ratios = []
    for _ in range(30):
        instance = random_instance(rng, architecture, jobs=5)
        rigid, rescaled = (run(instance, policy) for policy in (WeightedCompletion(), WeightedCompletion(rescaled=5)))
        totals = [
            sum(job.bid.utility.value * (job.completion or 0) for job in one.done.values()) for one in (rigid, rescaled)
        ]
        ratios.append(totals[1] / totals[0])
    assert np.mean(ratios) < 1


@pytest.mark.parametrize("architecture", Architecture)
def test_every_job_that_may_be_rescaled_does_its_work(architecture: Architecture) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    for _ in range(rounds(15)):
        instance = random_instance(rng, architecture, jobs=5)
        for job in run(instance, WeightedCompletion(rescaled=5)).done.values():
            done = work_done(job.bid, job.held, until=job.completion or 0)
            assert done == job.bid.work, f"seed {seed}: job {job.bid.id}"


def test_a_batch_waits_for_the_end_of_its_interval(book: RunningBook) -> None:
    book.advance(5)
    decision = arrive(book, job("a", 6, 3, arrival=5), CHAINED)
    assert decision.schedule is None
    assert "planned with others when slot 6 is over" in decision.explanation
    book.advance(6)
    assert CHAINED.plan(book.view(), Cause.SLOT) == ()
    book.advance(7)
    (move,) = CHAINED.plan(book.view(), Cause.SLOT)
    assert move.schedule is not None
    assert move.schedule.start == 7


def test_a_job_without_a_plan_counts_for_no_more_than_alone_on_the_empty_cluster(book: RunningBook) -> None:
    book.advance(5)
    decision = arrive(book, replace(job("a", 6, 3, arrival=5), utility=Linear(6.0, 1.0)), CHAINED)
    assert decision.schedule is None
    assert decision.value == decision.standalone_value == 3.0


def test_intervals_double_until_a_batch_would_reach_beyond_the_horizon() -> None:
    ends = [last_interval(now, slots=64, alpha=4) for now in range(2, 28)]
    assert sorted({end.tau for end in ends if end is not None}) == [1, 2, 4, 8, 16, 24]
    printed = [last_interval(now, slots=10**6, alpha=4) for now in (1, 2, 3, 9, 17, 4000)]
    assert [end and (end.tau, end.length) for end in printed] == [None, (1, 1), (2, 2), (8, 8), (16, 16), (2048, 2048)]
    assert [next_end(now, slots=64, alpha=4) for now in (24, 25)] == [24, 32]
    assert next_end(1, slots=64, alpha=4) == 1


@pytest.mark.parametrize("policy", [LITERAL, CHAINED], ids=["literal", "chained"])
def test_no_job_starves_where_intervals_cannot_grow(book: RunningBook, policy: WeightedCompletion) -> None:
    bids = [job(str(i), 1 + i % 3, 2 + 3 * (i % 6), arrival=1 + 2 * i) for i in range(24)]
    going = simulate(policy, bids, book.ledger, until=2000)
    assert len(going.done) == len(bids)


def test_the_price_rises_with_use_and_is_nothing_at_lambda_1(book: RunningBook) -> None:
    arrive(book, job("a", 6, 3))
    assert not ROLLING.prices(book.view()).any()
    priced = WeightedCompletion(mode="rolling", lambda_=100.0).prices(book.view())
    # A worker and a PS take 1 of 1 and 2 of 2 units for 3 slots: volume 6 at weight 6, so density 1.
    assert priced[0, 0] == pytest.approx([99.0, 99.0 / 2])
    assert not priced[3:].any()


@pytest.mark.parametrize(
    ("field", "parameters"),
    [("mode", {"mode": "x"}), ("order", {"order": "x"}), ("lambda", {"lambda": 0.5}), ("alpha", {"alpha": 0})],
)
def test_a_wrong_parameter_is_named(field: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as error:
        make_policy("weighted_completion", parameters)
    assert error.value.field == field


SEARCH = WeightedCompletion()
UNSEARCHED = WeightedCompletion(searched=0)


@pytest.mark.parametrize("arch", ["ps", "ring"])
def test_without_a_search_a_short_line_has_the_plans_of_rolling(arch: str) -> None:
    first = fresh_seed()
    for seed in range(first, first + DRAWN):
        instance = read_weighted(random_sequence(arch, seed))
        plain, limited = run(instance, ROLLING), run(instance, UNSEARCHED)
        assert limited.moves == plain.moves, f"seed {seed}"
        assert [one.to_json() for one in limited.decisions] == [one.to_json() for one in plain.decisions], (
            f"seed {seed}"
        )


@pytest.mark.parametrize("policy", [WeightedCompletion(planned=2, considered=4), WeightedCompletion(planned=1)])
def test_in_a_long_line_few_are_planned_and_no_machine_waits_for_a_job(
    book: RunningBook, policy: WeightedCompletion
) -> None:
    going = Simulation(policy, book)
    for number in range(12):
        going.arrive(job(f"job{number}", 1 + number % 5, 1 + number % 3))
        later = [one for one in book.jobs.values() if one.held and one.held[0].start > book.now]
        assert len(later) <= policy.planned
    while book.jobs:
        assert book.ledger.used[0, 0, 0] == 1, f"slot {book.now}: the worker is idle while jobs wait"
        going.advance(book.now + 1)
    assert len(going.done) == 12
    assert book.now == 1 + sum(1 + number % 3 for number in range(12))


def test_the_receipt_says_that_others_are_planned_first(book: RunningBook) -> None:
    policy = WeightedCompletion(planned=1)
    for name, weight in (("running", 9), ("planned", 6)):
        arrive(book, job(name, weight, 3), policy)
    explanation = arrive(book, job("waiting", 1, 3), policy).explanation
    assert "number 2 of the 2 jobs in line, without a planned start, as 1 others are planned first" in explanation


def test_a_search_lets_a_job_leave_machines_to_the_next() -> None:
    # The first could take all four workers for three slots. On two of them it takes six, and the others start at once.
    server = dict(ONE_SERVER, servers=[[4, 0]], workers=[[1, 0]], arch="ring", pss=[])
    row = {"a": 1, "w": 10, "E": 1, "D": 4, "K": 3, "v": ["1"], "U": "0", "comm": ["0"]}
    small = dict(row, D=1, K=4, w=9)
    instance = read_weighted(dict(server, jobs=[dict(row, id="wide"), dict(small, id="b"), dict(small, id="c")]))
    totals = {}
    for policy in (ROLLING, SEARCH):
        done = completions(run(instance, policy))
        totals[policy.mode] = sum(bid.utility.value * done[bid.id] for bid in instance.bids)
    assert totals["search"] < totals["rolling"]
