"""Tests of the amounts in explanations."""

import re
from typing import NamedTuple

import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions.engine import decision_queue
from frontend.presenters.explanations import explanation
from tests.auctions.worlds import make_market, submit


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
