"""The first bids of a training market of the demo, decided as they come."""

from itertools import islice
from pathlib import Path

from auctions.engine import decision_queue
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.models import Market
from cluster.clock import set_clock
from demo.jobs import machines_of
from demo.scenarios import TRAINING
from demo.training import let_execute
from demo.world import market_of
from tests.auctions.worlds import make_user


def decided_stream(policy: str, *, bids: int) -> tuple[Market, float]:
    """Decide the first bids of the market under this policy; return the market and the time of the last one, s."""
    (scenario,) = (one for one in TRAINING if one.policy == policy)
    market = market_of(scenario, seed=1)
    cluster, owner = market.cluster, make_user()
    let_execute(cluster, root=Path())
    set_clock(cluster, running=False)
    last_s = 0.0
    for offer in islice(scenario.offers(machines_of(cluster), seed=1, number=1, from_s=0.0), bids):
        last_s = offer.at_s
        set_clock(cluster, at_s=last_s)
        pass_slots(market.pk)
        submit_bid(cluster=cluster, owner=owner, body=offer.body)
        decision_queue.process_pending(market.pk)
    return market, last_s
