"""The demo's market of completions: its stream of bids is admitted, and each promised slot is kept."""

import pytest

from auctions.engine.slots import pass_slots
from auctions.history.audit import audit_market
from auctions.models import Bid, BidState
from auctions.readings import certificates
from cluster.clock import set_clock
from scheduling.model.decision import parse
from tests.demo.stream import decided_stream


@pytest.mark.django_db
def test_bids_for_promised_slots_are_admitted_and_complete_in_time() -> None:
    market, last_s = decided_stream("completions", bids=16)
    cluster = market.cluster
    bound = certificates.renew(market.pk, budget_s=60.0)
    assert bound is not None
    assert bound.loose == 0
    assert bound.welfare <= bound.value
    set_clock(cluster, at_s=last_s + cluster.horizon_slots * cluster.slot_seconds)
    pass_slots(market.pk)
    done = Bid.objects.filter(market=market, state=BidState.COMPLETED).select_related("decision")
    assert len(done) >= 12
    assert all((bid.completion_slot or 0) <= parse(bid.decision.receipt)["due"] for bid in done)
    assert [check for check in audit_market(market) if not check.passed] == []
