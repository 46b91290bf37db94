"""The demo's market of completions: its stream of bids is admitted, and each promised slot is kept."""

from itertools import islice
from pathlib import Path

import pytest

from auctions.engine import decision_queue
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.history.audit import audit_market
from auctions.models import Bid, BidState
from auctions.readings import certificates
from cluster.clock import set_clock
from demo.jobs import machines_of
from demo.scenarios import TRAINING
from demo.training import let_execute
from demo.world import market_of
from scheduling.model.decision import parse
from tests.auctions.worlds import make_user


@pytest.mark.django_db
def test_bids_for_promised_slots_are_admitted_and_complete_in_time() -> None:
    (scenario,) = (one for one in TRAINING if one.policy == "completions")
    market = market_of(scenario, seed=1)
    cluster, owner = market.cluster, make_user()
    let_execute(cluster, root=Path())
    set_clock(cluster, running=False)
    for offer in islice(scenario.offers(machines_of(cluster), seed=1, number=1, from_s=0.0), 16):
        set_clock(cluster, at_s=offer.at_s)
        pass_slots(market.pk)
        submit_bid(cluster=cluster, owner=owner, body=offer.body)
        decision_queue.process_pending(market.pk)
    bound = certificates.renew(market.pk)
    assert bound is not None
    assert bound.loose == 0
    assert bound.welfare <= bound.value
    set_clock(cluster, at_s=offer.at_s + cluster.horizon_slots * cluster.slot_seconds)
    pass_slots(market.pk)
    done = Bid.objects.filter(market=market, state=BidState.COMPLETED).select_related("decision")
    assert len(done) >= 12
    assert all((bid.completion_slot or 0) <= parse(bid.decision.receipt)["due"] for bid in done)
    assert [check for check in audit_market(market) if not check.passed] == []
