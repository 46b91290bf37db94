"""Submitting: stored whole or not at all, once for each key."""

import math
from typing import Any

import pytest
from django.contrib.auth.models import User

from auctions.domain.errors import KeyReused, MarketClosed, NoMarket
from auctions.engine import decision_queue
from auctions.engine.markets import open_market, set_open
from auctions.engine.policies import change_policy
from auctions.engine.submission import quote, submit_bid, submit_bids
from auctions.models import Bid, BidState, Event, Market
from cluster.models import MachineRole, MachineType
from scheduling.model.errors import InvalidField
from tests.auctions.worlds import body, make_cluster, make_user, set_time, submit


def test_it_arrives_in_the_first_whole_slot_after_submission(market: Market, alice: User) -> None:
    assert submit(market, alice).arrival_slot == 0
    set_time(market, 100.5)
    assert submit(market, alice).arrival_slot == 2


def test_it_is_written_in_slots(market: Market, alice: User) -> None:
    # 100 s slots; 9 s and 1 s a step; 2 x 8 x 10 MB / 1000 Mbit/s = 0.16 s; cloud 300 s away; nothing before 150 s.
    core = submit(market, alice, 7.0, start_after_s=150).core_bid
    assert core["worker_time"] == ["9/100"]
    assert core["ps_time"] == ["1/100"]
    assert core["transfer_time"] == ["1/625"]
    assert core["delay"] == [2, 2, 3]
    assert core["utility"] == {"type": "constant", "v": 7.0}


def test_a_key_that_comes_again_brings_the_same_bid(market: Market, alice: User) -> None:
    first, again = (submit_bid(cluster=market.cluster, owner=alice, body=body(), idempotency_key="k") for _ in range(2))
    assert (first.created, again.created, again.bid.pk) == (True, False, first.bid.pk)
    with pytest.raises(KeyReused):
        submit_bid(cluster=market.cluster, owner=alice, body=body(99.0), idempotency_key="k")
    assert submit_bid(cluster=market.cluster, owner=make_user("bob"), body=body(99.0), idempotency_key="k").created
    assert Bid.objects.count() == 2


def test_a_retry_is_answered_after_the_market_closed(market: Market, alice: User) -> None:
    submit_bid(cluster=market.cluster, owner=alice, body=body(), idempotency_key="k")
    set_open(market, False)
    assert not submit_bid(cluster=market.cluster, owner=alice, body=body(), idempotency_key="k").created
    with pytest.raises(MarketClosed):
        submit_bid(cluster=market.cluster, owner=alice, body=body(), idempotency_key="other")


def test_many_are_stored_in_order_or_none(market: Market, alice: User) -> None:
    stored = submit_bids(
        cluster=market.cluster, owner=alice, bodies=[body(v) for v in (3.0, 2.0, 1.0)], idempotency_key="b"
    )
    assert [s.bid.sequence for s in stored] == [1, 2, 3]
    with pytest.raises(InvalidField) as error:
        submit_bids(cluster=market.cluster, owner=alice, bodies=[body(), body(epochs=0)])
    assert error.value.field == "bids[1].epochs"
    with pytest.raises(KeyReused):
        submit_bids(cluster=market.cluster, owner=alice, bodies=[body(3.0), body(2.0)], idempotency_key="b")
    assert Bid.objects.count() == 3


def test_a_key_of_many_bids_is_no_key_of_one(market: Market, alice: User) -> None:
    together = submit_bids(cluster=market.cluster, owner=alice, bodies=[body(), body()], idempotency_key="k")
    alone = [
        submit_bid(cluster=market.cluster, owner=alice, body=body(), idempotency_key=key)
        for key in ("k", "k/0", "m/0", "n/1")
    ]
    together += submit_bids(cluster=market.cluster, owner=alice, bodies=[body(7.0)], idempotency_key="m")
    together += submit_bids(cluster=market.cluster, owner=alice, bodies=[body(7.0)], idempotency_key="n")
    assert all(one.created for one in (*alone, *together))
    assert Bid.objects.count() == 8


def test_a_cluster_without_a_market_takes_no_bids(alice: User) -> None:
    with pytest.raises(NoMarket):
        submit_bid(cluster=make_cluster(), owner=alice, body=body())


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"epochs": True}, "epochs"),
        ({"epochs": 1.5}, "epochs"),
        ({"epochs": 10**7}, "epochs"),
        ({"model": "GPT"}, "model"),
        ({"model": None}, "model"),
        ({"colour": "red"}, "colour"),
        ({"gradient_mb": math.nan}, "gradient_mb"),
        ({"gradient_mb": "3"}, "gradient_mb"),
        ({"worker_step_s": {}}, "worker_step_s"),
        ({"worker_step_s": {"tpu": 1}}, "worker_step_s.tpu"),
        ({"upload_delay_s": {"edge-0": -1}}, "upload_delay_s.edge-0"),
        ({"start_after_s": math.inf}, "start_after_s"),
        ({"label": "x" * 121}, "label"),
        ({"architecture": "ring"}, "architecture"),
        ({"architecture": None}, "architecture"),
        ({"reduce_step_s": 1}, "reduce_step_s"),
        ({"weight": 5}, "weight"),
        ({"utility": 3}, "utility"),
        ({"utility": {"form": "magic", "value": 1}}, "utility.form"),
        ({"utility": {"form": "constant", "value": 0}}, "utility.value"),
        ({"utility": {"form": "constant", "value": 9.9e-7}}, "utility.value"),
        ({"utility": {"form": "step", "value": 1}}, "utility.deadline_s"),
        ({"utility": {"form": "linear", "value": 1, "zero_at_s": 0}}, "utility.zero_at_s"),
        ({"utility": {"form": "linear", "value": 1e12, "zero_at_s": 1e-9}}, "utility.zero_at_s"),
        (
            {"utility": {"form": "piecewise_linear", "value": 1, "points": [[0, 0.5], [10, 0.9]]}},
            "utility.points[1][1]",
        ),
        (
            {"utility": {"form": "sigmoid", "value": 1, "steepness_per_s": -1, "midpoint_s": 5}},
            "utility.steepness_per_s",
        ),
    ],
)
def test_a_wrong_field_is_named_and_nothing_stored(
    market: Market, alice: User, changes: dict[str, Any], field: str
) -> None:
    events = Event.objects.count()
    with pytest.raises(InvalidField) as error:
        submit_bid(cluster=market.cluster, owner=alice, body=body() | changes)
    assert error.value.field == field
    with pytest.raises(InvalidField):
        quote(market=market, body=body() | changes)
    assert (Bid.objects.count(), Event.objects.count()) == (0, events)


@pytest.mark.parametrize(
    ("points", "wrong"),
    [
        (
            [[100, 1], [50, 0.5], [60, 0.7], [60, 0.6]],
            {
                "points[1][0]": "expected times that rise, got one that does not",
                "points[2][1]": "expected at most 0.5, the value before, got 0.7",
                "points[3][0]": "expected times that rise, got one that does not",
            },
        ),
        (
            [[-1, 1], [2, -1], [3, 2e9], [4, True], ["5", None]],
            {
                "points[0][0]": "expected 0 to 1,000,000,000, got -1",
                "points[1][1]": "expected 0 to 1, got -1",
                "points[2][1]": "expected 0 to 1, got 2000000000.0",
                "points[3][1]": "expected a number, got true",
                "points[4][0]": "expected a number, got the string '5'",
                "points[4][1]": "expected a value, got null",
            },
        ),
        (
            [[1000 - n, 1] for n in range(1000)],
            {f"points[{n}][0]": "expected times that rise, got one that does not" for n in range(1, 51)},
        ),
    ],
)
def test_each_wrong_number_of_points_is_named_up_to_fifty(
    market: Market, alice: User, points: list[list[Any]], wrong: dict[str, str]
) -> None:
    utility = {"form": "piecewise_linear", "value": 1, "points": points}
    with pytest.raises(InvalidField) as error:
        submit_bid(cluster=market.cluster, owner=alice, body=body(utility=utility))
    named = {one.field: one.problem for one in error.value.all_wrong}
    assert named == {f"utility.{field}": problem for field, problem in wrong.items()}
    assert not Bid.objects.exists()


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        (
            [[250, 1], [250, 0.5]],
            "utility.points[1][0]: expected times that rise, got one that does not",
        ),
        (
            [[250, 1], [30, 0.5]],
            "utility.points[1][0]: expected times that rise, got one that does not",
        ),
        ([[n, 1] for n in range(1001)], "utility.points: expected 1 to 1000 entries, got 1001"),
        ([[n, 2] for n in range(1001)], "utility.points: expected 1 to 1000 entries, got 1001"),
    ],
)
def test_points_that_do_not_rise_are_named_without_a_unit_and_too_many_are_not_looked_at(
    market: Market, alice: User, points: list[list[float]], problem: str
) -> None:
    utility = {"form": "piecewise_linear", "value": 1, "points": points}
    with pytest.raises(InvalidField) as error:
        submit_bid(cluster=market.cluster, owner=alice, body=body(utility=utility))
    assert (str(error.value), error.value.also) == (problem, ())


def test_a_quote_changes_nothing(market: Market, alice: User) -> None:
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    market.refresh_from_db()
    before = (market.version, Event.objects.count(), Bid.objects.count())
    assert quote(market=market, body=body()).decision.admitted
    market.refresh_from_db()
    assert (market.version, Event.objects.count(), Bid.objects.count()) == before


@pytest.fixture
def line(db: None) -> Market:
    """A market where jobs state a weight."""
    return open_market(make_cluster("line"), policy="weighted_completion")


def weighted(weight: Any = 7.0, **changes: Any) -> dict[str, Any]:
    """The body with a weight instead of a utility."""
    return {key: value for key, value in body(**changes).items() if key != "utility"} | {"weight": weight}


def test_a_weight_counts_whenever_the_job_is_complete(line: Market, alice: User) -> None:
    core = submit_bid(cluster=line.cluster, owner=alice, body=weighted()).bid.core_bid
    assert core["utility"] == {"type": "constant", "v": 7.0}
    assert (core["architecture"], core["reduce_time"]) == ("ps", "0")


def test_a_ring_has_no_parameter_servers(line: Market, alice: User) -> None:
    # 0.5 s of a slot of 100 s; the model's PS step is left out: no horizon has room for it.
    sent = weighted(architecture="ring", reduce_step_s=0.5)
    core = submit_bid(cluster=line.cluster, owner=alice, body=sent).bid.core_bid
    assert (core["architecture"], core["reduce_time"]) == ("ring", "1/200")
    assert core["ps_time"] == ["13"]
    decision_queue.process_pending(line.pk)
    bid = Bid.objects.get()
    assert bid.state == BidState.RUNNING
    assert not bid.commitments.filter(machine_type__role="ps").exists()


@pytest.mark.parametrize(
    ("sent", "field", "word"),
    [
        (body(), "utility", "weight"),
        (weighted() | {"utility": 3}, "utility", "weight"),
        ({key: value for key, value in weighted().items() if key != "weight"}, "weight", "missing"),
        (weighted(-1), "weight", "expected 1e-06 to"),
        (weighted(0), "weight", "expected 1e-06 to"),
        (weighted(1e-320), "weight", "expected 1e-06 to"),
        (weighted("7"), "weight", "number"),
        (weighted(True), "weight", "number"),
        (weighted(math.inf), "weight", "finite"),
        (weighted(architecture="star"), "architecture", "ps or ring"),
        (weighted(architecture="ring", reduce_step_s=-1), "reduce_step_s", "expected 0"),
        (weighted(architecture="ring", ps_step_s={"ps": 1}), "ps_step_s", "ring"),
        (weighted(reduce_step_s=1), "reduce_step_s", "ps"),
    ],
)
def test_what_this_policy_does_not_take_is_named(
    line: Market, alice: User, sent: dict[str, Any], field: str, word: str
) -> None:
    with pytest.raises(InvalidField, match=word) as error:
        submit_bid(cluster=line.cluster, owner=alice, body=sent)
    assert error.value.field == field
    assert not Bid.objects.exists()


def test_an_offer_outlives_a_change_of_policy(line: Market, alice: User) -> None:
    for sent in (weighted(3.0), weighted(2.0, architecture="ring"), weighted(2.5)):
        submit_bid(cluster=line.cluster, owner=alice, body=sent)
    change_policy(line, name="dps", parameters={}, by=None)
    decision_queue.process_pending(line.pk)
    kept = Bid.objects.order_by("sequence").values_list("state", "value")
    assert list(kept) == [(BidState.RUNNING, 3.0), (BidState.REJECTED, None), (BidState.RUNNING, 2.5)]
    with pytest.raises(InvalidField, match="takes a utility"):
        submit_bid(cluster=line.cluster, owner=alice, body=weighted())
    assert submit_bid(cluster=line.cluster, owner=alice, body=body()).created


def test_a_cluster_without_parameter_servers_takes_rings_alone(alice: User) -> None:
    cluster = make_cluster()
    MachineType.objects.filter(cluster=cluster, role=MachineRole.PS).delete()
    market = open_market(cluster, policy="completions", parameters={})
    with pytest.raises(InvalidField) as error:
        submit(market, alice)
    [wrong] = error.value.all_wrong
    assert wrong.field == "architecture"
    assert wrong.problem.startswith("expected ring, got 'ps' (")
    assert wrong.problem.endswith("; the cluster has no parameter servers)")
    assert submit(market, alice, architecture="ring").sequence == 1
