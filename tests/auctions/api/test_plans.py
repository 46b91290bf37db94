"""What REST says where jobs state weights and schedules are plans, and where machines change in number."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.models import Market
from cluster.documents import import_cluster
from demo.clusters import two_pools_document
from demo.jobs import machines_of
from demo.scenarios import OASIS
from tests.auctions.worlds import body, make_cluster, set_time

BIDS = "/api/v1/clusters/line/bids"


@pytest.fixture
def line(db: None) -> Market:
    """A market of weights on one server and a cloud three slots away."""
    return open_market(make_cluster("line", servers=1), policy="weighted_completion")


@pytest.fixture
def alices(client_of: Callable[[User], APIClient], alice: User) -> APIClient:
    """Alice's client, whatever the market."""
    return client_of(alice)


def weighted(weight: float, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in body(**changes).items() if key != "utility"} | {"weight": weight}


def test_a_cluster_says_what_its_policy_takes(alices: APIClient, line: Market, market: Market) -> None:
    make_cluster("idle")
    asked = {name: alices.get(f"/api/v1/clusters/{name}").json() for name in ("line", "lab", "idle")}
    assert {name: (answered["value_key"], answered["architectures"]) for name, answered in asked.items()} == {
        "line": ("weight", ["ps", "ring"]),
        "lab": ("utility", ["ps"]),
        "idle": (None, []),
    }


def test_the_wrong_value_key_is_named(alices: APIClient, line: Market, market: Market) -> None:
    wrong = {"line": body(), "lab": weighted(3)}
    for name, field in (("line", "utility"), ("lab", "weight")):
        for path in ("bids", "quotes"):
            answer = alices.post(f"/api/v1/clusters/{name}/{path}", wrong[name], format="json")
            assert answer.status_code == 400
            assert answer.json()["errors"][0]["field"] == field


def test_a_quote_says_the_plan_and_that_nobody_pays(alices: APIClient, line: Market) -> None:
    sent = weighted(5, architecture="ring", reduce_step_s=0.2)
    answered = alices.post("/api/v1/clusters/line/quotes", sent, format="json").json()
    assert (answered["admitted"], answered["value"], answered["payment"]) == (True, 5.0, 0.0)
    assert "Nobody pays here" in answered["explanation"]
    assert {row["role"] for row in answered["schedule"]["placements"]} == {"worker"}


def test_a_job_that_must_wait_for_heavier_ones_lists_how_its_plan_changed(alices: APIClient, line: Market) -> None:
    set_time(line, 50)
    for weight in (1, 1, 1, 100, 100, 100):
        assert alices.post(BIDS, weighted(weight, epochs=3), format="json").status_code == 202
        decision_queue.process_pending(line.pk)
    results = alices.get(f"{BIDS}/3/changes").json()["results"]
    starts = [row["start_slot"] for row in results]
    assert starts == [4, 7]
    now = alices.get(f"{BIDS}/3").json()
    last = results[-1]
    assert (last["start_slot"], last["completion_slot"]) == (now["start_slot"], now["completion_slot"])


@pytest.mark.thorough
def test_an_elastic_job_reports_its_machines_slot_by_slot(alices: APIClient, db: None) -> None:
    cluster = import_cluster(two_pools_document(np.random.default_rng(1), name="pools"))
    market = open_market(cluster, policy="oasis")
    for offer in islice(OASIS.offers(machines_of(cluster), seed=1, number=1, from_s=0.0), 12):
        assert alices.post("/api/v1/clusters/pools/bids", offer.body, format="json").status_code == 202
    decision_queue.process_pending(market.pk)
    base = "/api/v1/clusters/pools/bids"
    admitted = [row["sequence"] for row in alices.get(f"{base}?admitted=true").json()["results"]]
    counts = set()
    for sequence in admitted:
        rows = alices.get(f"{base}/{sequence}/machines").json()["results"]
        held = alices.get(f"{base}/{sequence}/schedule").json()["placements"]
        slots = sum(p["count"] * (p["end_slot"] - p["start_slot"]) for p in held if p["role"] == "worker")
        assert sum(row["workers"] for row in rows) == slots
        assert all(1 <= row["num_ps"] <= row["workers"] for row in rows)
        counts.add(len({row["workers"] for row in rows}))
    assert max(counts) > 1
