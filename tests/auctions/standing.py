"""A market in which bids stand, and a crowded day of it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from django.contrib.auth.models import User

from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.slots import pass_slots
from auctions.history.audit import audit_market
from auctions.models import (
    Bid,
    BidState,
    DecisionRecord,
    Market,
)
from auctions.readings import certificates
from scheduling.model.decision import Decision, parse
from tests.auctions.worlds import SLOT_S, make_cluster, make_market, set_time, submit

PRICES: dict[str, Any] = {"price": "paper", "eta_worker": [3.0], "eta_ps": [2.0]}
"""An idle unit costs nothing, and a full one 2 or 1."""
HORIZON = 16
ADMITTED = (BidState.PLANNED, BidState.RUNNING)


def standing_market() -> Market:
    """Open a market of one edge server of four units, and a cloud of eight."""
    return make_market(make_cluster(servers=1, units=4, horizon=HORIZON), **PRICES)


def decided(market: Market, owner: User, value: float, **changes: Any) -> Bid:
    bid = submit(market, owner, value, **changes)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    return bid


def pass_to(market: Market, slot: int) -> None:
    """Let slots begin, one after the other."""
    for each in range(market.slot + 1, slot + 1):
        set_time(market, each * SLOT_S)
        pass_slots(market.pk)
        certificates.renew(market.pk)
        market.refresh_from_db()


def assert_sound(market: Market) -> None:
    market.refresh_from_db()
    assert {finding.check: finding.rows for finding in audit_market(market) if not finding.passed} == {}


def filled(market: Market, owner: User) -> list[Bid]:
    """Bids that take all machines of the horizon."""
    taken = []
    for epochs in (8, 2, 1):
        while (bid := decided(market, owner, 1e5, epochs=epochs, standing=False)).state in ADMITTED:
            taken.append(bid)
    return taken


def freed(bids: list[Bid]) -> None:
    for bid in bids:
        bid.refresh_from_db()
        if bid.state in ADMITTED:
            cancel_job(bid)


def stands(market: Market, owner: User, value: float = 50.0, **changes: Any) -> Bid:
    """A bid that stands, with a deadline before the slots that come on sale later."""
    utility = {"form": "step", "value": value, "deadline_s": (HORIZON - 4 - market.slot) * SLOT_S}
    bid = decided(market, owner, value, **{"utility": utility, "standing": True, **changes})
    assert bid.state == BidState.STANDING
    return bid


def receipt(bid: Bid) -> Decision:
    return Decision.from_json(parse(DecisionRecord.objects.get(bid=bid).receipt))


def drawn_bids(rng: np.random.Generator, *, slots: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Slots and bodies of a crowded day: some bids wait for room, become worthless, or stand for a short time."""
    for slot in range(slots):
        for _ in range(int(rng.integers(2, 6))):
            value = float(rng.uniform(1, 120))
            zero = float(rng.integers(3, 30)) * SLOT_S
            forms = [
                {"form": "constant", "value": value},
                {"form": "linear", "value": value, "zero_at_s": zero},
                {"form": "step", "value": value, "deadline_s": zero},
            ]
            stands: dict[str, Any] = {"standing": bool(rng.random() < 0.8)}
            if stands["standing"] and rng.random() < 0.3:
                stands["standing_until_s"] = float(rng.integers(4, 16)) * SLOT_S
            yield slot, {"epochs": int(rng.integers(1, 9)), "utility": forms[int(rng.integers(3))], **stands}
