"""Tests of the amounts in explanations."""

import re
from typing import Any, Final, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.readings.explanations import explanation
from cluster.documents import import_cluster
from cluster.models import Cluster
from tests.auctions.worlds import make_market, make_operator, submit


class Said(NamedTuple):
    """What was decided on a bid."""

    explanation: str
    value: float = 0.0
    payment: float = 0.0


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Said("worth 0.00 and costs 0.00 at", 0.0012, 0.000066), "worth 0.0012 and costs 0.000066 at"),
        (Said("worth 8.00. It pays 0.00, what", 8.0, 0.004), "worth 8.00. It pays 0.004, what"),
        (Said("It offered 0.00; anything above 1234.50 would"), "It offered 0.002; anything above 1,234.50 would"),
        (Said("it would gain 0.25, which costs 3.00.", payment=2.0), "it would gain 0.25, which costs 3.00."),
        (Said("costs 1,234.56 credits, 0.000066 and 2.5"), "costs 1,234.56 credits, 0.000066 and 2.5"),
    ],
)
def test_amounts_are_written_as_elsewhere(said: Said, words: str) -> None:
    assert explanation(said, 0.002) == words


def test_the_sentence_of_a_quote_and_of_a_receipt_has_the_payment_of_the_list(alice: User, as_alice: Client) -> None:
    market = make_market(initial_low=1e-9, initial_high=1e-6)
    typed = {"model": "ResNet-50", "epochs": "1", "value": "100", "form": "constant"}
    quote = as_alice.post("/markets/lab/quote/", typed).json()["html"]
    bid = submit(market, alice)
    decision_queue.process_pending(market.pk)
    for text in (quote, as_alice.get(f"/markets/lab/bids/{bid.sequence}/").text):
        paid = re.search(r"<dt>Payment</dt><dd>(.+?)</dd>", text)
        assert paid is not None
        assert paid[1].startswith("0.0000")
        assert f"costs {paid[1]} at the posted prices" in text


FAST_OR_CHEAP: Final[Any] = {
    "name": "lab",
    "title": "Lab",
    "epoch": "2026-01-05T00:00:00+00:00",
    "slot_seconds": 100,
    "horizon_slots": 10,
    "clock": {"kind": "virtual"},
    "resources": [{"name": "gpu"}, {"name": "ps"}],
    "worker_types": [
        {"name": "fast", "bandwidth_mbps": 1000, "demand": {"gpu": 200}},
        {"name": "slow", "bandwidth_mbps": 1000, "demand": {"gpu": 99}},
    ],
    "ps_types": [{"name": "ps", "bandwidth_mbps": 10000, "demand": {"ps": 1}}],
    "servers": [
        {"name": "edge", "upload_delay_s": 0.0, "capacity": {"gpu": 200, "ps": 1}},
        {"name": "far", "upload_delay_s": 200.0, "capacity": {"gpu": 99, "ps": 1}},
    ],
    "models": [
        {
            "name": "ResNet-50",
            "gradient_mb": 1.0,
            "chunks": 1,
            "minibatches": 10,
            "worker_step_s": {"fast": 38.0, "slow": 78.0},
            "ps_step_s": {"ps": 0.5},
        }
    ],
}
"""A job takes four slots on `edge`, or eight on `far` for a little less."""


def test_a_rejection_promises_no_completion_that_its_value_would_not_bring(alice: User, as_alice: Client) -> None:
    import_cluster(FAST_OR_CHEAP)
    prices = {"initial_low": 0.001, "initial_high": 0.001, "near_share": 0.0}
    market = open_market(Cluster.objects.get(), policy="dps", parameters=prices)
    operator = APIClient()
    operator.force_authenticate(make_operator())
    drained = operator.post("/api/v1/clusters/lab/servers/edge/drain", {"from_slot": 7}, format="json")
    assert drained.status_code == 200
    bids = [submit(market, alice, value, standing=False) for value in (0.1, 0.81)]
    decision_queue.process_pending(market.pk)
    low, enough = (as_alice.get(f"/markets/lab/bids/{bid.sequence}/") for bid in bids)
    counter = low.context["decision"].counter
    # What starts last is complete in slot 7; what pays best, and is granted, in slot 10.
    assert (counter.latest_start, counter.completion) == (3, 7)
    assert enough.context["decision"].schedule.completion == 10
    assert "Resubmit with 0.81" in low.text
    assert "With this value it would have been admitted." in low.text
    assert "(slot 7)" not in low.text
