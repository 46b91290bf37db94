"""A scripted day of each of the demo's markets, under a stopped clock that the script sets."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np
from django.contrib.auth.models import User

from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, fail_job
from auctions.engine.markets import open_market
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.history.audit import audit_market
from auctions.history.replay import replay_market
from auctions.models import Bid, BidState, DecisionRecord, Event, Market
from cluster import clock
from cluster.documents import import_cluster
from cluster.models import Cluster, Server
from demo.jobs import machines_of
from demo.scenarios import SCENARIOS, Scenario
from scheduling.model.decision import parse
from scheduling.model.types import Json
from tests.corpus.cases import WORDS, Case, without_words

SEED: Final = 5
BIDS: Final = 60
OWNERS: Final = 5
CANCELLED_EACH: Final = 9
"""Among this many bids, one is cancelled after its decision and another one fails a little later."""
LOST_AT, RETURNED_AT, DRAINED_AT = 20, 30, 40
"""Numbers of the bids before which a server is lost, returned, and another one drained."""
EVENT_WORDS: Final = WORDS | {"reason"}
"""Keys of texts in events: the reason there is an operator's words, and not a policy's."""


def days() -> Iterator[Case]:
    """What happened in each market: events, receipts and states of bids, in order."""
    owners = [User.objects.create(username=f"owner-{n}") for n in range(OWNERS)]
    for scenario in SCENARIOS:
        yield f"day/{scenario.name}", day(scenario, owners)


def day(scenario: Scenario, owners: list[User]) -> Json:
    """Sixty bids of five owners, some cancelled; a server is lost and returned, another one is drained."""
    document = scenario.document(np.random.default_rng(SEED))
    import_cluster({**document, "name": scenario.name, "title": scenario.title, "note": scenario.note})
    cluster = Cluster.objects.get(name=scenario.name)
    market = open_market(cluster, policy=scenario.policy)
    clock.set_clock(cluster, running=False)
    servers = list(Server.objects.filter(cluster=cluster).order_by("pk"))
    stream = scenario.offers(machines_of(cluster), seed=SEED, number=0, from_s=0.0)
    for number, offer in enumerate(islice(stream, BIDS)):
        clock.set_clock(cluster, at_s=offer.at_s)
        cluster.refresh_from_db()
        pass_slots(market.pk)
        if number == LOST_AT:
            lose_server(servers[0], reason="", by=None)
        elif number == RETURNED_AT:
            restore_server(servers[0], reason="", by=None)
        elif number == DRAINED_AT:
            next_slot = clock.read(cluster).next_slot
            drain_server(servers[1], from_slot=next_slot, deadline=next_slot + 3, reason="", by=None)
        bid = submit_bid(cluster=cluster, owner=owners[number % OWNERS], body=offer.body).bid
        decision_queue.process_pending(market.pk)
        bid.refresh_from_db()
        if bid.state in (BidState.PLANNED, BidState.RUNNING) and number % CANCELLED_EACH == 3:
            cancel_job(bid)
        elif bid.state in (BidState.PLANNED, BidState.RUNNING) and number % CANCELLED_EACH == 7:
            fail_job(bid, "")
    return record_of(market)


def record_of(market: Market) -> Json:
    """Everything that the market decided.

    Raises
    ------
    AssertionError
        If the audit or the replay finds anything.
    """
    wrong = [finding for finding in audit_market(market) if not finding.passed]
    assert not wrong, wrong
    assert not replay_market(market).mismatches
    bids = Bid.objects.filter(market=market).order_by("sequence")
    events = Event.objects.filter(market=market).order_by("version")
    receipts = DecisionRecord.objects.filter(bid__market=market).order_by("version")
    return {
        "receipts": [without_words(parse(text)) for text in receipts.values_list("receipt", flat=True)],
        "events": [[one.version, one.kind, one.slot, without_words(one.payload, EVENT_WORDS)] for one in events],
        "bids": [[bid.sequence, str(bid.state)] for bid in bids],
    }
