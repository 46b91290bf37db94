"""A bidder who computes: numbers that are read, and their differences, reveal no secret of another."""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.engine.slots import pass_slots
from auctions.models import Bid, BidState, DecisionRecord, Market, Publication
from auctions.readings import certificates
from tests.auctions.competing import make_market as make_competition
from tests.auctions.worlds import PRICED, SLOT_S, body, make_cluster, make_operator, set_time, submit
from tests.draws import rounds
from tests.frontend.sealed_bids.addresses import Spy, addresses
from tests.frontend.sealed_bids.worlds import NUMBERS, OTHERS, PEOPLE, POLICIES, SUMS

pytestmark = pytest.mark.thorough


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


def _until(slots: float, value: float = 100.0) -> dict[str, Any]:
    return {"form": "step", "value": value, "deadline_s": slots * SLOT_S}


@pytest.mark.parametrize("deadline", [5, 9])
def test_prices_of_completions_reveal_the_promised_slot_of_another(
    people: dict[str, User], client: Client, deadline: int
) -> None:
    market = open_market(make_cluster(units=8, horizon=12), policy="completions", parameters=dict(PRICED))
    submit(market, people["bob"], 100.0, epochs=3, utility=_until(deadline))
    decision_queue.process_pending(market.pk)
    prices = np.array(client.get("/api/v1/clusters/lab/prices").json()["prices"])[:, 0, 0]
    falls = np.flatnonzero(np.diff(prices) < 0)
    assert falls[0] + 1 == deadline, "a promise costs the same up to the slot by which work is due, and less from there"


@pytest.mark.parametrize(("deadline", "moved"), [(3, 0), (4, 1), (5, 2)])
def test_quotes_where_bids_compete_reveal_how_far_the_job_of_another_can_be_moved(
    people: dict[str, User], client: Client, deadline: int, moved: int
) -> None:
    market = make_competition()
    submit(market, people["bob"], 100.0, epochs=3, utility=_until(deadline))
    decision_queue.process_pending(market.pk)
    asked = [body(100.0, epochs=slots, utility=_until(slots)) for slots in (1, 2, 3)]
    path = "/api/v1/clusters/lab/quotes"
    quotes = [client.post(path, one, content_type="application/json").json()["admitted"] for one in asked]
    assert sum(quotes) == moved, "jobs that start at once, and so make the other one wait, are admitted up to this size"
