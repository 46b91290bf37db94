"""The machines that a bid holds now, and until when."""

from dataclasses import replace
from math import inf, isinf
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctions.models import Market
from auctions.readings import queues
from cluster.models import ClockKind
from execution.steps import Machines, merged
from execution.wanted import Held, Timeline, held_in_queues, spans_at, timeline, wanted_now
from tests.auctions.worlds import SLOT_S, make_cluster, make_market, make_user, submit

TIME = Timeline(at=2.5, now_s=1_000.0, slot_s=20.0)
held = st.builds(
    lambda bid, server, start, length: Held(bid, Machines("worker", server, 1, 1), start, start + length),
    st.integers(1, 2), st.integers(1, 2), st.integers(0, 5), st.integers(1, 4),
)  # fmt: skip


@given(st.lists(held, max_size=8), st.sampled_from((0.0, 1.0, 2.5, 4.0)))
def test_a_span_lasts_as_long_as_a_bid_holds_exactly_these_machines(rows: list[Held], at: float) -> None:
    """Compared with what is held in each half of a slot."""
    found = spans_at(rows, at)
    for bid in (1, 2):
        mine = [one for one in rows if one.bid == bid]
        by_time = {
            half / 2: merged(one.machines for one in mine if one.start <= half / 2 < one.end) for half in range(24)
        }
        later = [time for time in sorted(by_time) if time >= at]
        if not by_time[at]:
            assert bid not in found
            continue
        end = next(time for time in later if by_time[time] != by_time[at])
        assert (found[bid].allocation, found[bid].until) == (by_time[at], end)
        assert found[bid].last is not any(by_time[time] for time in later if time >= end)
    in_seconds = wanted_now(rows, replace(TIME, at=at))
    assert in_seconds == {bid: span.on_the_wall(replace(TIME, at=at)) for bid, span in found.items()}


def test_slots_have_a_time_and_times_a_slot() -> None:
    assert (TIME.slot, replace(TIME, at=3.0).slot) == (2, 3)
    assert (TIME.wall(2.5), TIME.wall(4), TIME.wall(2)) == (1_000.0, 1_030.0, 990.0)
    assert (TIME.slot_at(1_000.0), TIME.slot_at(1_030.0), TIME.slot_at(990.0)) == (2.5, 4.0, 2.0)
    stopped = replace(TIME, slot_s=inf)
    assert stopped.wall(2.5) == 1_000.0
    assert isinf(stopped.wall(3))


@pytest.mark.parametrize(
    ("kind", "speed", "running", "slot_s"),
    [
        (ClockKind.REAL, 4.0, True, SLOT_S),
        (ClockKind.REAL, 4.0, False, SLOT_S),
        (ClockKind.VIRTUAL, 4.0, True, SLOT_S / 4),
        (ClockKind.VIRTUAL, 4.0, False, inf),
    ],
)
def test_a_slot_is_as_long_as_the_clock_makes_it(
    db: None, kind: ClockKind, speed: float, running: bool, slot_s: float
) -> None:
    cluster = make_cluster()
    cluster.clock_kind, cluster.clock_speed, cluster.clock_running = kind, speed, running
    assert timeline(cluster).slot_s == slot_s


def test_in_queues_the_bid_whose_chunks_are_processed_now_holds_the_worker(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    market, alice = make_market(), make_user()
    bids = [submit(market, alice) for _ in range(3)]
    elsewhere = make_market(make_cluster("other"))
    submit(elsewhere, alice)
    busy = [
        SimpleNamespace(sequence=bid.sequence, start=n, end=n + 1, server_id=5, machine_type_id=6, count=1)
        for n, bid in enumerate(bids)
    ]
    ps = SimpleNamespace(sequence=bids[1].sequence, start=1, end=2, server_id=7, machine_type_id=8, count=2)
    asked: list[tuple[int, int]] = []

    def stretches(_market: Market, *, start: int, end: int) -> list[SimpleNamespace]:
        asked.append((start, end))
        return busy

    monkeypatch.setattr(queues, "stretches", stretches)
    monkeypatch.setattr(queues, "ps_at", lambda _market, rows, *, at: {1: ps} if rows is busy and at == 1.0 else {})
    assert held_in_queues(market, replace(TIME, at=1.0)) == [
        Held(bids[1].pk, Machines("worker", 5, 6, 1), 1, 2),
        Held(bids[1].pk, Machines("ps", 7, 8, 2), 1, 2),
    ]
    assert [one.bid for one in held_in_queues(market, replace(TIME, at=2.5))] == [bids[2].pk]
    assert held_in_queues(market, replace(TIME, at=3.0)) == []
    assert asked == [(1, 2), (2, 3), (3, 4)]
