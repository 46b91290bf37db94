"""Bids are sealed: what a bidder reads says nothing of another's value, and no difference of readings does.

The strongest test compares two worlds that differ in what others stated, and in nothing that the market did: a bidder
reads the same bytes in both, at every address there is (docs/users/what-a-bidder-learns.md).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions.domain.bid_conversion import policy_in_force
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.models import Bid, BidState, Publication
from auctions.readings import market_readings
from frontend.views.charts import CHARTS, charts_of
from tests.auctions.worlds import SLOT_S, make_operator
from tests.draws import some
from tests.frontend.sealed_bids.addresses import Spy, addresses
from tests.frontend.sealed_bids.worlds import (
    FIGURES,
    NUMBERS,
    OTHERS,
    POLICIES,
    POLICIES_WITH_PRICES,
    World,
    stating,
    world,
)

pytestmark = pytest.mark.thorough
Course = Callable[[World, Spy], None]


@dataclass
class Seen:
    """All that Alice read while a world ran, by moment and address."""

    read: dict[Any, Any]
    welfare: float
    """Read by operators alone."""
    standalone: float
    """The bound of standalone values, read by operators alone."""


def seen(
    people: dict[str, User],
    client: Client,
    policy: str,
    course: Course,
    *stated: dict[str, float],
    before: Callable[[World], None] | None = None,
) -> list[Seen]:
    """What Alice read in worlds that have the same past, and then a course in which the others state this."""
    all_seen = []
    with world(people, *POLICIES[policy]) as past:
        if before is not None:
            before(past)
        for one in stated:
            with stating(past, one) as found:
                spy = Spy(client, found.market, NUMBERS)
                course(found, spy)
                exact = market_readings.welfare(found.market)
                assert exact.zero_price_bound is not None
                all_seen.append(Seen(spy.kept, float(exact.welfare[-1]), float(exact.zero_price_bound[-1])))
    return all_seen


def assert_same(one: dict[Any, Any], other: dict[Any, Any]) -> None:
    assert one.keys() == other.keys()
    differing = [key for key in one if one[key] != other[key]]
    assert not differing, [(key, one[key][2][-600:], other[key][2][-600:]) for key in differing[:3]]


def admitted_others(found: World, spy: Spy) -> None:
    """Bob and Carol are admitted; slots pass; a job is cancelled; Alice bids again."""
    found.bid_of("alice", 60.0)
    bob = found.bid("bob", epochs=2)
    assert bob.state in (BidState.PLANNED, BidState.RUNNING)
    carol = found.bid("carol", epochs=6)
    spy.look("decided", only=FIGURES)
    found.pass_to(2)
    cancel_job(carol)
    spy.look("cancelled", only=FIGURES)
    found.pass_to(9)
    found.bid_of("alice", 55.0, epochs=2)
    spy.look("completed")


def rejected_other(found: World, spy: Spy) -> None:
    """Bob is rejected, with something he would have got at a higher value."""
    found.bid_of("alice", 60.0)
    assert found.bid("bob", epochs=2).state == BidState.REJECTED
    spy.look("rejected", only=FIGURES)
    found.pass_to(3)
    found.bid_of("alice", 55.0, epochs=2)
    spy.look("later")


def sold_out(found: World) -> None:
    """Alice buys all machines."""
    while found.bid_of("alice", 1e5).state in (BidState.PLANNED, BidState.RUNNING):
        pass


def standing_other(found: World, spy: Spy) -> None:
    """Bob's bid stands while the machines are sold. It ends early in one world, and late in the other."""
    deadline = {"form": "step", "value": 20.0, "deadline_s": found.stated["bob"] * SLOT_S}
    assert found.bid("bob", utility=deadline, standing=True).state == BidState.STANDING
    spy.look("stands", only=FIGURES)
    for slot in range(1, 6):
        found.pass_to(slot)
    spy.look("tried", only=FIGURES)
    found.pass_to(6)
    spy.look("ended in one world")


def withdrawn_other(found: World, spy: Spy) -> None:
    """Bob's bid stands while the machines are sold. In one world he withdraws it."""
    bid = found.bid("bob", standing=True)
    assert bid.state == BidState.STANDING
    spy.look("stands", only=FIGURES)
    if found.stated["carol"] > 0:
        withdraw_bid(bid)
    spy.look("withdrawn in one world")
    found.pass_to(2)
    spy.look("a slot later", only=FIGURES)


def published_sums(found: World, spy: Spy) -> None:
    """Bids of five owners are admitted and published; one is cancelled; five more are published."""
    for slot in (1, 2):
        found.bid_of("alice", 60.0)
        for name in OTHERS:
            found.bid(name, epochs=3)
        spy.look(f"decided {slot}", only=FIGURES)
        found.pass_to(slot)
        assert Publication.objects.count() == slot
        spy.look(f"published {slot}", only=FIGURES)
        cancel_job(Bid.objects.filter(owner=found.people["bob"]).latest("pk"))
    spy.look("in the end")


ALWAYS = ("DPS, quantile prices", "weighted completion")
"""Policies of every run; of the others some are drawn, since a world of 300 addresses takes seconds."""


@pytest.mark.soak
@pytest.mark.parametrize("policy", [*ALWAYS, *some([name for name in POLICIES if name not in ALWAYS], 1)])
def test_worlds_that_differ_in_values_of_admitted_bids_look_the_same(
    people: dict[str, User], client: Client, policy: str
) -> None:
    stated: list[dict[str, float]] = [{"bob": 100.0, "carol": 90.0}, {"bob": 137.5, "carol": 91.25}]
    one, other = seen(people, client, policy, admitted_others, *stated)
    assert one.welfare != other.welfare, "operators read another welfare"
    assert_same(one.read, other.read)


@pytest.mark.soak
@pytest.mark.parametrize("policy", some(["DPS, quantile prices", "DPS, fluid prices", "OASiS"], 1))
def test_worlds_that_differ_in_the_value_of_a_rejected_bid_look_the_same(
    people: dict[str, User], client: Client, policy: str
) -> None:
    one, other = seen(people, client, policy, rejected_other, {"bob": 1e-4}, {"bob": 1e-5})
    assert one.standalone != other.standalone, "operators read another bound"
    assert_same(one.read, other.read)


@pytest.mark.soak
@pytest.mark.parametrize("policy", some(["DPS, quantile prices", "DPS, fluid prices"], 1))
def test_worlds_in_which_a_standing_bid_of_another_ends_sooner_or_later_look_the_same(
    people: dict[str, User], client: Client, policy: str
) -> None:
    ends: list[str] = []

    def course(found: World, spy: Spy) -> None:
        ends.append(_ended(found, spy))

    one, other = seen(people, client, policy, course, {"bob": 6.0}, {"bob": 8.0}, before=sold_out)
    assert ends == [BidState.REJECTED, BidState.STANDING]
    assert_same(one.read, other.read)


def _ended(found: World, spy: Spy) -> str:
    standing_other(found, spy)
    return Bid.objects.get(owner=found.people["bob"]).state


@pytest.mark.soak
@pytest.mark.parametrize("policy", some(["DPS, quantile prices", "DPS, fluid prices"], 1))
def test_worlds_in_which_another_withdraws_a_standing_bid_or_does_not_look_the_same(
    people: dict[str, User], client: Client, policy: str
) -> None:
    ends: list[str] = []

    def course(found: World, spy: Spy) -> None:
        withdrawn_other(found, spy)
        ends.append(Bid.objects.get(owner=found.people["bob"]).state)

    stated: list[dict[str, float]] = [{"bob": 20.0, "carol": 0.0}, {"bob": 20.0, "carol": 1.0}]
    one, other = seen(people, client, policy, course, *stated, before=sold_out)
    assert ends == [BidState.STANDING, BidState.WITHDRAWN]
    assert_same(one.read, other.read)


@pytest.mark.soak
@pytest.mark.parametrize("policy", some(["DPS, quantile prices", "OASiS", "weighted completion"], 1))
def test_worlds_with_the_same_published_sums_look_the_same(
    people: dict[str, User], client: Client, policy: str
) -> None:
    values = {"bob": 100.0, "carol": 90.0, "dave": 80.0, "erin": 70.0}
    # Of pools from which prices learn, Alice to Dave and Erin to Carol, the products are the same, too.
    # Where nobody pays, weights decide who comes first: there they keep their order.
    learns = POLICIES[policy][0] != "weighted_completion"
    changed = {"carol": 150.0, "dave": 48.0, "erin": 42.0} if learns else {"dave": 76.0, "erin": 74.0}
    one, other = seen(people, client, policy, published_sums, values, values | changed)
    assert_same(one.read, other.read)
    summaries = [json.loads(one.read[f"published {slot}", "/api/v1/clusters/lab/summary"][2]) for slot in (1, 2)]
    assert [one["admitted"] for one in summaries] == [5, 10]
    assert summaries[0]["welfare"] == 400.0


def flood(found: World) -> None:
    """Quantile prices use bids that are all Alice's, and only one of them has a value far above 0."""
    for value in [1e-6] * 30 + [500.0]:
        found.bid_of("alice", value)


def flooded(found: World, spy: Spy) -> None:
    """Bob's is the next one that they use."""
    found.bid("bob", epochs=2)
    spy.look("refitted", only=FIGURES)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("policy", some(POLICIES_WITH_PRICES, 2))
def test_who_sends_all_bids_but_one_finds_that_ones_value_nowhere(
    people: dict[str, User], client: Client, policy: str
) -> None:
    one, other = seen(people, client, policy, flooded, {"bob": 100.0}, {"bob": 137.5}, before=flood)
    assert one.welfare != other.welfare, "operators read another welfare"
    assert_same(one.read, other.read)


def pooled_in_turn(found: World, spy: Spy) -> None:
    """Prices learn from bids of four owners, one after the other, until they have looked at 32 of them."""
    for _ in range(8):
        found.bid_of("alice", 50.0)
        for name in ("bob", "carol", "dave"):
            found.bid(name, epochs=2)
    spy.look("refitted", only=FIGURES)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("policy", some(["DPS, quantile prices", "OASiS"], 1))
def test_prices_that_learn_reveal_no_more_than_the_product_of_what_three_others_offer(
    people: dict[str, User], client: Client, policy: str
) -> None:
    same: list[dict[str, float]] = [{"bob": 100.0, "carol": 90.0}, {"bob": 125.0, "carol": 72.0}]
    stated = [offers | {"dave": 80.0} for offers in (*same, {"bob": 125.0, "carol": 90.0})]
    one, other, third = seen(people, client, policy, pooled_in_turn, *stated)
    assert_same(one.read, other.read)
    # They do learn: from another product come other prices.
    prices = "refitted", "/api/v1/clusters/lab/prices"
    assert one.read[prices][2] != third.read[prices][2]


def pooled_past(found: World) -> None:
    """Prices have learned from eight pools."""
    for _ in range(8):
        for name in ("alice", "bob", "carol", "dave"):
            found.bid_of(name, 50.0)


def extreme_offers(found: World, spy: Spy) -> None:
    """Bob offers far more than usual, and prices have looked at his bids."""
    for _ in range(4):
        found.bid("bob", epochs=1)
        for name in ("alice", "carol", "dave"):
            found.bid_of(name, 50.0)
    spy.look("refitted", only=FIGURES)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("policy", some(["DPS, quantile prices", "DPS, fluid prices", "OASiS"], 1))
def test_how_far_an_offer_is_beyond_the_limit_moves_nothing(
    people: dict[str, User], client: Client, policy: str
) -> None:
    stated = [{"bob": value} for value in (1e6, 7e6, 50.0)]
    one, other, third = seen(people, client, policy, extreme_offers, *stated, before=pooled_past)
    assert one.standalone != other.standalone, "operators read another bound"
    assert_same(one.read, other.read)
    prices = "refitted", "/api/v1/clusters/lab/prices"
    assert one.read[prices][2] != third.read[prices][2]


def test_the_same_readings_would_reveal_values_to_an_operator(people: dict[str, User], client: Client) -> None:
    olga = make_operator()
    client.force_login(olga)

    def course(found: World, spy: Spy) -> None:
        found.bid_of("alice", 60.0)
        assert found.bid("bob", epochs=2).state == BidState.REJECTED
        found.pass_to(3)
        spy.look("rejected", only=FIGURES)

    one, other = seen(people, client, "DPS, quantile prices", course, {"bob": 1e-4}, {"bob": 1e-5})
    differing = {path for (moment, path), answer in one.read.items() if answer != other.read[moment, path]}
    assert {"/api/v1/clusters/lab/welfare", "/markets/lab/figures/welfare.csv"} <= differing


@pytest.mark.parametrize("policy", ["DPS, quantile prices", "preemptive"])
def test_a_chart_reads_only_what_is_chosen_of_itself(people: dict[str, User], client: Client, policy: str) -> None:
    """So what is chosen of one chart is read at the address of that chart alone."""
    with world(people, *POLICIES[policy]) as found:
        found.bid_of("alice", 60.0)
        for chart, suffix in product(charts_of(policy_in_force(found.market.cluster)), ("json", "csv")):
            address = f"/markets/lab/figures/{chart}.{suffix}"
            others = [f"{name}={one}" for name in CHARTS if name != chart for one in ("both", "type", "server:edge-0")]
            assert client.get(f"{address}?{'&'.join(others)}").content == client.get(address).content


def test_a_new_part_of_an_address_has_to_be_given_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.frontend.sealed_bids.addresses.VALUES", {"name": ("lab",)})
    with pytest.raises(KeyError):
        addresses(NUMBERS)
