"""Bids are sealed: what a bidder reads says nothing of another's value, and no difference of readings does.

The strongest test compares two worlds that differ in what others stated, and in nothing that the market did: a bidder
reads the same bytes in both, at every address there is (docs/users/what-a-bidder-learns.md).
"""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from auctions.domain.bid_conversion import policy_in_force
from auctions.domain.totals import VALUE_KEPT
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.markets import open_market
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.models import Bid, BidState, DecisionRecord, Market, Publication
from auctions.readings import certificates, market_readings, publications, sums
from auctions.readings.publications import LEAST_OWNERS
from auctions.state import book
from cluster.models import Capacity, ServerKind
from cluster.operators import is_operator
from frontend.views.charts import CHARTS
from scheduling.policies.base import Objective
from tests.auctions.worlds import PRICED, SLOT_S, body, make_cluster, make_operator, make_user, set_time, submit
from tests.draws import rounds, some
from tests.frontend.sealed import Spy, addresses
from tests.rows import taken_back

pytestmark = pytest.mark.thorough

PEOPLE = ("alice", "bob", "carol", "dave", "erin")
OTHERS = PEOPLE[1:]
NUMBERS = (1, 2)
"""Numbers of bids: the first is Alice's, the second Bob's."""


@dataclass
class World:
    """A market with its people; what each of the others states is a parameter of the world."""

    market: Market
    people: dict[str, User]
    stated: dict[str, float]

    def bid(self, who: str, **changes: Any) -> Bid:
        """One of the others submits what this world has it state, and is decided."""
        return self.bid_of(who, self.stated[who], **changes)

    def bid_of(self, who: str, value: float, **changes: Any) -> Bid:
        asked = body(value, **changes)
        if not self.pays:
            asked = {**{name: part for name, part in asked.items() if name != "utility"}, "weight": value}
        sent = submit_bid(cluster=self.market.cluster, owner=self.people[who], body=asked).bid
        decision_queue.process_pending(self.market.pk)
        sent.refresh_from_db()
        return sent

    @property
    def pays(self) -> bool:
        return policy_in_force(self.market.cluster).objective is Objective.WELFARE

    def pass_to(self, slot: int) -> None:
        set_time(self.market, slot * SLOT_S)
        pass_slots(self.market.pk)
        certificates.renew(self.market.pk)


@pytest.fixture
def people(db: None) -> dict[str, User]:
    return {name: make_user(name) for name in PEOPLE}


@pytest.fixture
def alice(people: dict[str, User]) -> User:
    return people["alice"]


@pytest.fixture(autouse=True)
def _same_in_every_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """What differs between two runs of the same world: the wall clock, how long work takes, and keys of forms."""
    instant = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: instant)
    monkeypatch.setattr("auctions.engine.decide.perf_counter", lambda: 0.0)
    monkeypatch.setattr("frontend.views.submit.uuid4", lambda: type("Key", (), {"hex": "0" * 32}))


@pytest.fixture(autouse=True)
def _logins_in_memory(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of requests of one login: session, user and rights are not read from rows for each."""
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.cache"

    read = ModelBackend().get_user

    @cache
    def known(key: int) -> AbstractBaseUser | None:
        user = read(key)
        if user is not None:
            is_operator(user)  # the object of a user remembers the answer
        return user

    monkeypatch.setattr(ModelBackend, "get_user", lambda _backend, key: copy(known(key)))


def _forget() -> None:
    """Forget what this process remembers of markets: a world that is gone may have had the same token and version."""
    book.forget()
    sums.forget()


@contextmanager
def world(people: dict[str, User], policy: str, parameters: Any) -> Iterator[World]:
    """A market that is gone, down to its keys, when the block ends."""
    _forget()
    with taken_back():
        cluster = make_cluster(units=8, horizon=12)
        if policy == "oasis":  # workers and parameter servers apart
            Capacity.objects.filter(server__name="cloud", resource__name="gpu").delete()
            Capacity.objects.filter(server__kind=ServerKind.EDGE, resource__name="ps").delete()
        yield World(open_market(cluster, policy=policy, parameters=parameters), people, {})
    _forget()


@contextmanager
def stating(found: World, stated: dict[str, float]) -> Iterator[World]:
    """A world in which the others state this from now on; it is gone when the block ends."""
    _forget()
    with taken_back():
        market = Market.objects.select_related("cluster").get(pk=found.market.pk)
        yield World(market, found.people, stated)
    _forget()


POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "DPS, quantile prices": ("dps", {**PRICED}),
    "DPS, fluid prices": ("dps", {**PRICED, "price": "fluid"}),
    "DPS, paper prices": ("dps", {**PRICED, "price": "paper", "eta_worker": [3.0], "eta_ps": [2.0]}),
    "DPS, paper prices of past bids": ("dps", {**PRICED, "price": "paper"}),
    "OASiS": ("oasis", {**PRICED}),
    "OASiS, fluid prices": ("oasis", {**PRICED, "price": "fluid"}),
    "OASiS, paper prices of past bids": ("oasis", {**PRICED, "price": "paper"}),
    "OASiS, paper prices": ("oasis", {**PRICED, "price": "paper", "log_low": [-9.0, -9.0], "log_high": [1.0, 1.0]}),
    "completions": ("completions", {**PRICED}),
    "weighted completion": ("weighted_completion", {}),
    "FIFO": ("fifo", {}),
    "preemptive": ("preemptive", {}),
}
POLICIES_WITH_PRICES = tuple(name for name, (policy, _) in POLICIES.items() if policy in ("dps", "oasis"))
Course = Callable[[World, Spy], None]
SUMS = re.compile(r"clusters/lab/(welfare|summary)$|tiles|figures/(welfare|flow)|^/$|^/markets/lab/$")
"""Addresses with sums."""
FIGURES = re.compile(rf"{SUMS.pattern}|/prices|/utilisation|figures/|/bids")
"""All that moves with the market."""


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


@pytest.fixture
def client(alice: User, client: Client) -> Client:
    client.force_login(alice)
    return client


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


def test_the_same_readings_would_reveal_values_to_an_operator(people: dict[str, User], client: Client) -> None:
    olga = make_operator()
    client.force_login(olga)
    one, other = seen(people, client, "DPS, quantile prices", rejected_other, {"bob": 1e-4}, {"bob": 1e-5})
    differing = {path for (moment, path), answer in one.read.items() if answer != other.read[moment, path]}
    assert {"/api/v1/clusters/lab/welfare", "/markets/lab/figures/welfare.csv"} <= differing


def test_a_chart_reads_only_what_is_chosen_of_itself(people: dict[str, User], client: Client) -> None:
    """So what is chosen of one chart is read at the address of that chart alone."""
    with world(people, *POLICIES["DPS, quantile prices"]) as found:
        found.bid_of("alice", 60.0)
        for chart, suffix in product(CHARTS, ("json", "csv")):
            address = f"/markets/lab/figures/{chart}.{suffix}"
            others = [f"{name}={one}" for name in CHARTS if name != chart for one in ("both", "type", "server:edge-0")]
            assert client.get(f"{address}?{'&'.join(others)}").content == client.get(address).content


def test_a_new_part_of_an_address_has_to_be_given_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.frontend.sealed.VALUES", {"name": ("lab",)})
    with pytest.raises(KeyError):
        addresses(NUMBERS)


# --- A bidder who computes ---------------------------------------------------------------------------------------


def columns_in(answer: Any) -> dict[str, list[float]]:
    """Numbers of an answer in columns: of a CSV file, of lists in JSON by their keys, elsewhere each by its place."""
    _, headers, content = answer
    kind, text = headers.get("Content-Type", ""), content.decode(errors="replace")
    found: dict[str, list[float]] = defaultdict(list)
    if "json" in kind:
        for where, number in _leaves(json.loads(text), ""):
            found[where].append(number)
    elif "csv" in kind:
        for row in csv.reader(text.splitlines()):
            for i, cell in enumerate(row):
                if NUMBER.fullmatch(cell):
                    found[f"column {i}"].append(float(cell))
    else:
        for i, number in enumerate(NUMBER.findall(text)):
            found[f"place {i}"].append(float(number.replace(",", "")))
    return found


NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def _leaves(value: Any, where: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{where}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, f"{where}[{inner.get('name', '') if isinstance(inner, dict) else ''}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield where, float(value)
    elif isinstance(value, str) and NUMBER.fullmatch(value):
        yield where, float(value.replace(",", ""))


def matches(number: float, secrets: dict[str, float]) -> list[str]:
    """Return the secrets that a number equals up to rounding."""
    return [name for name, secret in secrets.items() if abs(number - secret) <= 1e-6 * abs(secret)]


def secrets_of(bid: Bid) -> dict[str, float]:
    """What nobody else may learn of a decided bid."""
    record = DecisionRecord.objects.get(bid=bid)
    found = {"value": bid.body["utility"]["value"], "standalone value": record.standalone_value}
    if bid.value is not None and bid.payment is not None:
        found |= {"value at completion": bid.value, "payment": bid.payment, "payoff": bid.value - bid.payment}
    return {name: amount for name, amount in found.items() if amount}


def attack(before: dict[str, Any], after: dict[str, Any], secrets: dict[str, float]) -> list[str]:
    """Return the ways in which two readings reveal a secret: by a number, or a step in a column or between readings."""
    found = []
    for path, answer in after.items():
        earlier = columns_in(before[path])
        for column, numbers in columns_in(answer).items():
            old = earlier.get(column, [])
            amounts_by_reader = {
                "as it is": numbers,
                "from row to row": [later - first for first, later in pairwise(numbers)],
                "since then": [new - then for then, new in zip(old, numbers, strict=False)],
                "at the end since then": [numbers[-1] - sum(old[-1:])],
            }
            for how, amounts in amounts_by_reader.items():
                found += [f"{name} {how} in {column} of {path}" for n in amounts for name in matches(n, secrets)]
    return found


def _random_market(people: dict[str, User], rng: np.random.Generator, look: Callable[[], dict[str, Any]]) -> list[str]:
    """Others bid at random, slots pass; what a bidder who reads around each decision finds out."""
    found: list[str] = []
    market = Market.objects.get()
    before = look()
    for i in range(24):
        who = str(rng.choice(PEOPLE if i % 6 == 0 else OTHERS))
        value = float(rng.uniform(20, 400)) if rng.random() < 0.7 else float(rng.uniform(0.003, 0.03))
        bid = submit(market, people[who], value, epochs=int(rng.integers(1, 5)))
        decision_queue.process_pending(market.pk)
        bid.refresh_from_db()
        after = look()
        if who != "alice":
            found += [f"bid {bid.sequence} {one}" for one in attack(before, after, secrets_of(bid))]
        if rng.random() < 0.3:
            set_time(market, (market.slot + 1) * SLOT_S)
            pass_slots(market.pk)
            certificates.renew(market.pk)
            market.refresh_from_db()
            before, after = after, look()
            for other in Bid.objects.exclude(owner=people["alice"]).filter(decision__isnull=False):
                found += [
                    f"bid {other.sequence} after a slot {one}" for one in attack(before, after, secrets_of(other))
                ]
        before = after
    return found


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 1 + rounds(1)))
def test_differences_of_readings_reveal_no_value_and_no_payment_of_another(
    people: dict[str, User], client: Client, seed: int
) -> None:
    open_market(make_cluster(units=8, horizon=12), policy="dps", parameters=dict(PRICED))
    spy = Spy(client, Market.objects.get(), NUMBERS)
    asked = [one.path for one in addresses(NUMBERS) if SUMS.search(one.path)]
    assert len(asked) > 8
    found = _random_market(people, np.random.default_rng(seed), lambda: {path: spy.get(path) for path in asked})
    assert Bid.objects.filter(state=BidState.REJECTED).exists()
    assert Publication.objects.exists(), "sums were published, and attacked"
    assert not found, found[:10]


def test_the_attack_finds_everything_in_what_operators_read(people: dict[str, User], client: Client) -> None:
    client.force_login(make_operator())
    market = open_market(make_cluster(units=8, horizon=12), policy="dps", parameters=dict(PRICED))
    spy = Spy(client, market, NUMBERS)
    welfare = "/api/v1/clusters/lab/welfare"
    found = _random_market(people, np.random.default_rng(1), lambda: {welfare: spy.get(welfare)})
    decided = Bid.objects.exclude(owner=people["alice"])
    for bid in decided:
        named = [one for one in found if one.startswith(f"bid {bid.sequence} ")]
        assert any("standalone value" in one for one in named)
        if bid.state != BidState.REJECTED:
            assert any("value at completion" in one for one in named)
            assert any("payment" in one for one in named)


def test_any_two_readings_of_a_publication_apart_hold_sums_over_three_others_at_least(
    people: dict[str, User], client: Client
) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    rng = np.random.default_rng(5)
    published: list[tuple[float, float, set[int]]] = [(0.0, 0.0, set())]
    for slot in range(1, 40):
        for _ in range(int(rng.integers(0, 3))):
            submit(market, people[str(rng.choice(PEOPLE))], float(rng.uniform(20, 400)))
        decision_queue.process_pending(market.pk)
        going = Bid.objects.filter(state__in=[BidState.PLANNED, BidState.RUNNING])
        if rng.random() < 0.3 and going.exists():
            cancel_job(going.latest("pk"))
        set_time(market, slot * SLOT_S)
        pass_slots(market.pk)
        s = publications.summary(market, people["alice"])
        kept = set(Bid.objects.filter(state__in=VALUE_KEPT).values_list("pk", flat=True))
        if s.welfare != published[-1][0]:
            published.append((s.welfare, s.revenue, kept))
    assert len(published) > 4
    for (_, _, earlier), (_, _, later) in combinations(published, 2):
        fresh = Bid.objects.filter(pk__in=later - earlier)
        for name in PEOPLE:
            others = fresh.exclude(owner=people[name]).values("owner").distinct().count()
            assert others >= LEAST_OWNERS - 1


def test_nothing_is_published_while_a_slot_is_under_way_or_owners_are_few(people: dict[str, User]) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    for name in PEOPLE[: LEAST_OWNERS - 1]:
        submit(market, people[name], 100.0)
        submit(market, people[name], 110.0)
    decision_queue.process_pending(market.pk)
    set_time(market, SLOT_S)
    pass_slots(market.pk)
    assert not Publication.objects.exists()
    submit(market, people[PEOPLE[LEAST_OWNERS - 1]], 100.0)
    decision_queue.process_pending(market.pk)
    assert not Publication.objects.exists(), "the slot is not over"
    seen = publications.summary(market, people["alice"])
    assert (seen.submitted, seen.welfare, seen.revenue, seen.published) == (0, 0.0, 0.0, 0)
    set_time(market, 2 * SLOT_S)
    pass_slots(market.pk)
    row = Publication.objects.get()
    with CaptureQueriesContext(connection) as asked:
        seen = publications.summary(market, people["alice"])
    assert not [query["sql"] for query in asked if "SUM(" in query["sql"] or "AVG(" in query["sql"]], "what is sealed"
    assert seen.published == row.slot == 2
    assert (seen.submitted, seen.admitted) == (7, 7)
    exact = market_readings.summary(market)
    assert seen.welfare == pytest.approx(exact.welfare) == 730.0
    assert seen.revenue == pytest.approx(exact.revenue)
    assert (seen.bound, seen.weighted_jct_slots) == (None, None)


def test_a_cancelled_job_does_not_count_among_the_owners_of_a_publication(people: dict[str, User]) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    for name in PEOPLE[:LEAST_OWNERS]:
        submit(market, people[name], 100.0)
    decision_queue.process_pending(market.pk)
    for name in PEOPLE[1:LEAST_OWNERS]:
        cancel_job(Bid.objects.get(owner=people[name]))
    set_time(market, SLOT_S)
    pass_slots(market.pk)
    assert not Publication.objects.exists(), "welfare would be the value of one bid"


def test_what_was_published_does_not_change_when_jobs_are_cancelled(people: dict[str, User]) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    for name in PEOPLE:
        submit(market, people[name], 100.0, epochs=5)
    decision_queue.process_pending(market.pk)
    set_time(market, SLOT_S)
    pass_slots(market.pk)
    before = publications.summary(market, people["alice"])
    series = publications.welfare(market, people["alice"])
    cancel_job(Bid.objects.get(owner=people["bob"]))
    set_time(market, 3 * SLOT_S)
    pass_slots(market.pk)
    after = publications.summary(market, people["alice"])
    assert (after.welfare, after.cancelled, after.published) == (before.welfare, 0, before.published) == (500.0, 0, 1)
    assert publications.welfare(market, people["alice"]).welfare.tolist() == series.welfare.tolist() == [500.0]
    assert market_readings.summary(market).welfare == 400.0


def test_who_owns_all_bids_reads_them_as_they_stand_until_another_bids(people: dict[str, User]) -> None:
    market = open_market(make_cluster(units=40, horizon=12), policy="dps", parameters=dict(PRICED))
    alice = people["alice"]
    submit(market, alice, 100.0)
    decision_queue.process_pending(market.pk)
    mine = publications.summary(market, alice)
    assert (mine.published, mine.welfare) == (None, 100.0)
    assert publications.welfare(market, alice).sequence is not None
    assert publications.summary(market, people["bob"]).welfare == 0.0
    submit(market, people["bob"], 100.0)
    decision_queue.process_pending(market.pk)
    seen = publications.summary(market, alice)
    assert (seen.published, seen.welfare) == (0, 0.0)
    assert publications.summary(market, make_operator()).welfare == 200.0


# --- What prices and use reveal ------------------------------------------------------------------------------------


def test_prices_and_use_reveal_which_machines_were_taken_and_what_these_cost_and_nothing_else(
    people: dict[str, User], client: Client
) -> None:
    """Posted prices are public, and so is which machines are free: their product is no secret."""
    market = open_market(make_cluster(units=8, horizon=12), policy="dps", parameters=POLICIES["DPS, paper prices"][1])
    submit(market, people["alice"], 60.0)
    decision_queue.process_pending(market.pk)

    def look() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        prices, use = (client.get(f"/api/v1/clusters/lab/{what}").json() for what in ("prices", "utilisation"))
        return np.array(prices["prices"]), np.array(use["used"])

    price, used = look()
    bid = submit(market, people["bob"], 123.456, epochs=3)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    _, used_now = look()
    assert float((price * (used_now - used)).sum()) == pytest.approx(bid.payment)
    page = client.get("/markets/lab/figures/schedule.csv").text
    rows = [row for row in page.splitlines() if "others" in row]
    assert rows, "who looks sees that others hold machines"
    assert "bid 2" not in page
    submit(market, people["carol"], 99.0, epochs=3)
    decision_queue.process_pending(market.pk)
    together = [row for row in client.get("/markets/lab/figures/schedule.csv").text.splitlines() if "others" in row]
    held = sum(
        c.count * (c.end - c.start) for b in Bid.objects.exclude(owner=people["alice"]) for c in b.commitments.all()
    )
    assert sum(int(r[3]) * (float(r[7]) - float(r[6])) for r in (row.split(",") for row in together)) == held
    places = [(row.split(",")[0], row.split(",")[1], row.split(",")[6]) for row in together]
    assert len(places) == len(set(places)), "one bar for all others on a place"
