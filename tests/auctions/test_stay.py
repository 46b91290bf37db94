"""A worker stays with a market while bids come, takes turns, and leaves no bid without a wake-up."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from celery.signals import worker_shutting_down
from django.contrib.auth.models import User

from auctions import tasks
from auctions.domain import waking
from auctions.engine import claims, decision_queue
from auctions.kernels import compiling, warming
from auctions.models import Bid, BidState, DecisionRecord, Market
from auctions.runtime import stay
from scheduling import kernels
from tests.auctions.worlds import make_cluster, make_market, set_time, submit


class Clock:
    """A clock that goes on when the worker rests, and what happens at its times."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.due: list[tuple[float, Callable[[], object]]] = []

    def rest(self, seconds: float) -> None:
        """Go on, and do what is due."""
        self.now += seconds
        while self.due and self.due[0][0] <= self.now:
            self.due.pop(0)[1]()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the worker."""
    made = Clock()
    monkeypatch.setattr(stay, "monotonic", lambda: made.now)
    monkeypatch.setattr(stay, "sleep", made.rest)
    return made


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Markets for which workers are woken."""
    found: list[int] = []
    monkeypatch.setattr(waking, "publish", lambda task, market_id: found.append(market_id))
    return found


def waiting() -> int:
    return Bid.objects.filter(state=BidState.SUBMITTED).count()


def test_bids_that_come_while_a_worker_stays_are_decided_without_another_wake_up(
    market: Market, alice: User, clock: Clock, woken: list[int]
) -> None:
    submit(market, alice)
    for i in range(1, 4):
        clock.due.append((1000.0 + 0.4 * i, lambda: submit(market, alice)))
    assert tasks.decide_market(market.pk) == 4
    assert clock.now == pytest.approx(1000.0 + 1.2 + stay.LINGER_S, abs=0.05)
    assert woken == []
    assert claims.take(market.pk), "the claim is free again"
    claims.release(market.pk)


def test_bids_that_come_soon_after_a_batch_share_the_next_one_unless_it_was_full(
    market: Market, alice: User, clock: Clock, woken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_queue, "LARGEST_BATCH", 3)
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 60.0)
    decide, batches = decision_queue.decide_batch, list[tuple[float, int]]()

    def note(market_id: int, *, at_most: int) -> int:
        processed = decide(market_id, at_most=at_most)
        batches.append((clock.now, processed))
        return processed

    monkeypatch.setattr(decision_queue, "decide_batch", note)
    submit(market, alice)
    clock.due += [(1000.0 + ms / 1000, lambda: submit(market, alice)) for ms in (5, 15, 25, 35)]
    clock.due.append((1000.4, lambda: submit(market, alice)))
    assert tasks.decide_market(market.pk) == 6
    assert [processed for _, processed in batches] == [1, 3, 1, 1]
    first, full, rest, last = (at for at, _ in batches)
    assert full - first == pytest.approx(stay.BATCH_EVERY_S, abs=stay.EMBEDDED_POLL_S)
    assert rest == full, "more than a batch waited"
    assert last == pytest.approx(1000.4, abs=stay.EMBEDDED_POLL_S), "nothing was decided just before"


def test_a_stay_ends_although_bids_keep_coming_and_a_worker_is_woken_for_them(
    market: Market, alice: User, clock: Clock, woken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stay, "LONGEST_S", 20.0)
    submit(market, alice)
    clock.due += [(1000.0 + 0.4 * i, lambda: submit(market, alice)) for i in range(1, 60)]
    assert tasks.decide_market(market.pk) in (50, 51)
    assert clock.now == pytest.approx(1000.0 + stay.LONGEST_S, abs=0.1)
    assert woken == [market.pk]


def test_a_stay_ends_when_the_worker_is_to_stop(market: Market, alice: User, clock: Clock, woken: list[int]) -> None:
    submit(market, alice)

    def stop() -> None:
        worker_shutting_down.send(sender=None)

    clock.due.append((1000.1, stop))
    try:
        assert tasks.decide_market(market.pk) == 1
    finally:
        stay.set_stopping(False)
    assert clock.now < 1000.2
    assert woken == [market.pk]


def test_slots_of_all_markets_that_nobody_has_claimed_pass_while_a_worker_stays(
    market: Market, alice: User, clock: Clock, woken: list[int]
) -> None:
    free, claimed = (make_market(make_cluster(name)) for name in ("free", "claimed"))
    submit(market, alice)
    for one in (market, free, claimed):
        set_time(one, 250.0)
    clock.due += [(1000.0 + 0.4 * i, lambda: submit(market, alice)) for i in range(1, 6)]
    with claims.claim(claimed.pk):
        tasks.decide_market(market.pk)
    assert [Market.objects.get(pk=one.pk).slot for one in (market, free, claimed)] == [2, 2, 0]


def test_a_worker_that_falls_behind_leaves_one_of_its_markets_to_others(
    market: Market, alice: User, clock: Clock, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMBEDDED = False
    monkeypatch.setattr(stay, "PATIENCE_S", 0.0)
    monkeypatch.setattr(decision_queue, "LARGEST_BATCH", 2)
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 60.0)
    other = make_market(make_cluster("other"))
    for one in (market, other):
        for _ in range(5):
            submit(one, alice)
    woken: list[int] = []
    claimed: list[bool] = []

    def another_worker(task: str, market_id: int) -> None:
        claimed.append(claims.take(market_id))
        woken.append(market_id)

    monkeypatch.setattr(waking, "publish", another_worker)
    decided = tasks.decide_market(market.pk)
    assert (woken, claimed) == ([market.pk], [True])
    assert decided == 2 + 5
    assert waiting() == 3
    claims.release(market.pk)


@pytest.mark.parametrize("bids", [0, 1])
def test_a_worker_that_compiles_for_a_market_has_left_its_other_markets_to_others(
    bids: int,
    market: Market,
    alice: User,
    clock: Clock,
    woken: list[int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It compiles for a market that has bids, or whose slots are to pass."""
    other = make_market(make_cluster("other"))
    set_time(other, 250.0)
    free: list[bool] = []

    def compile_here(groups: tuple[kernels.Group, ...]) -> None:
        if groups and not free:
            free.append(claims.take(market.pk))
            claims.release(market.pk)

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(warming, "_needed_by", lambda pk: (kernels.QUEUES,) if pk == other.pk else ())
    monkeypatch.setattr(kernels, "is_warm", lambda group: bool(free))
    monkeypatch.setattr(compiling, "is_kept", lambda part: False)
    monkeypatch.setattr(warming, "compile_here", compile_here)
    submit(market, alice)
    clock.due += [(1000.0 + 0.4 * i, lambda: submit(market, alice)) for i in range(1, 6)]
    clock.due += [(1001.0, lambda: submit(other, alice))] * bids
    clock.due.sort(key=lambda one: one[0])
    tasks.decide_market(market.pk)
    assert free == [True]
    assert woken[0] == market.pk


def test_a_sweep_decides_a_batch_of_each_market_and_leaves_the_rest_to_others(
    market: Market, alice: User, woken: list[int]
) -> None:
    other = make_market(make_cluster("other"))
    for _ in range(40):
        submit(market, alice)
    submit(other, alice)
    tasks.sweep()
    decided = list(DecisionRecord.objects.order_by("pk").values_list("bid__market", flat=True))
    assert decided.count(other.pk) == 1
    assert 0 < decided.count(market.pk) <= decision_queue.LARGEST_BATCH
    assert market.pk in woken


def test_a_market_whose_lane_is_held_is_passed_by(market: Market, alice: User, woken: list[int]) -> None:
    submit(market, alice)
    with claims.claim(market.pk) as is_held:
        assert is_held
        assert tasks.decide_market(market.pk) == 0
        tasks.sweep()
        assert waiting() == 1
    tasks.sweep()
    assert waiting() == 0
    assert woken == [market.pk], "the sweep does not stay"


def test_a_bid_that_comes_before_its_lane_is_released_is_not_forgotten(
    market: Market, alice: User, clock: Clock, woken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    release, released = claims.release, list[int]()

    def submit_first(market_id: int) -> None:
        if not released:
            submit(market, alice)
        released.append(market_id)
        release(market_id)

    monkeypatch.setattr(claims, "release", submit_first)
    submit(market, alice)
    assert tasks.decide_market(market.pk) == 1
    assert (waiting(), woken) == (1, [market.pk])


def test_markets_take_turns_and_those_that_nobody_decides_are_taken_over(
    market: Market, alice: User, clock: Clock, woken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_queue, "LONGEST_BATCH_S", 0.0)  # a bid a batch
    other = make_market(make_cluster("other"))
    for one in (market, other):
        for _ in range(4):
            submit(one, alice)
    assert tasks.decide_market(market.pk) == 8
    order = DecisionRecord.objects.order_by("pk").values_list("bid__market", flat=True)
    assert list(order) == [market.pk, other.pk] * 4
    assert woken == []


def test_a_busy_worker_leaves_a_market_for_a_moment_to_those_who_were_woken_for_it(
    market: Market, alice: User, clock: Clock, settings: Any
) -> None:
    settings.EMBEDDED = False
    other = make_market(make_cluster("other"))
    submit(market, alice)
    seen: list[int] = []
    clock.due.append((1000.1, lambda: submit(other, alice)))
    clock.due += [(1000.1 + s, lambda: seen.append(waiting())) for s in (stay.PATIENCE_S - 0.002, 0.05)]
    assert tasks.decide_market(market.pk) == 2
    assert seen == [1, 0]


def test_a_worker_that_cannot_decide_a_market_goes_and_others_are_woken_for_the_rest(
    market: Market, alice: User, clock: Clock, woken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_market(make_cluster("other"))
    for one in (market, other, other):
        submit(one, alice)
    decide = decision_queue.decide_batch

    def fail(market_id: int, *, at_most: int) -> int:
        if market_id == market.pk:
            raise ValueError("trouble")
        return decide(market_id, at_most=at_most)

    monkeypatch.setattr(decision_queue, "decide_batch", fail)
    assert tasks.decide_market(other.pk) == 2
    assert woken == [other.pk]
    assert waiting() == 1
    assert claims.take(market.pk)
    claims.release(market.pk)


def test_a_wake_up_that_comes_while_another_thread_stays_is_passed_on_to_others(
    market: Market, alice: User, clock: Clock, woken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_market(make_cluster("other"))
    submit(market, alice)
    clock.due.append((1000.1, lambda: woken.append(-stay.stay(other.pk))))
    assert tasks.decide_market(market.pk) == 1
    assert woken == [0, other.pk]


def test_a_claim_that_another_worker_has_is_seldom_tried_again(
    market: Market, alice: User, clock: Clock, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMBEDDED = False
    other, take, tried = make_market(make_cluster("other")), claims.take, list[float]()

    def note(market_id: int) -> bool:
        if market_id == other.pk:
            tried.append(clock.now)
        return take(market_id)

    monkeypatch.setattr(claims, "take", note)
    for one in (market, other):
        submit(one, alice)
    clock.due += [(1000.0 + 0.1 * i, lambda: submit(market, alice)) for i in range(1, 9)]
    with claims.claim(other.pk):
        tried.clear()
        tasks.decide_market(market.pk)
    assert len(tried) > 2
    assert min(after - before for before, after in pairwise(tried)) >= stay.TAKEN_S - 0.001
    assert waiting() == 1
