"""A demo market with bids already decided: `python -m tests.e2e.filled [BIDS]`, in the database of the settings."""

import os
import sys
from itertools import islice
from typing import Final

import django

PASSWORD: Final = "only-for-tests"
NOTE: Final = "Demo: jobs drawn from a seed by the settings of the DPS paper; values synthetic."


def fill(bids: int) -> None:
    """Import the demo cluster, open its market, and let two bidders bid under a clock that is set by hand."""
    import numpy as np
    from django.contrib.auth.models import User

    from auctions import certificates, lane, slots
    from auctions.demo.jobs import drawn, machines_of
    from auctions.markets import open_market
    from auctions.submission import submit_bid
    from cluster.clock import set_clock
    from cluster.demo import edge_cloud_document
    from cluster.documents import import_cluster

    User.objects.create_superuser("operator", password=PASSWORD)
    bidders = [User.objects.create_user(name, password=PASSWORD) for name in ("alice", "bob")]
    cluster = import_cluster({**edge_cloud_document(np.random.default_rng(1)), "note": NOTE})
    market = open_market(cluster)
    for i, offer in enumerate(islice(drawn(machines_of(cluster), seed=1, number=1, from_s=0.0), bids)):
        set_clock(market.cluster, running=False, at_s=offer.at_s)
        slots.pass_slots(market.pk)
        submit_bid(cluster=market.cluster, owner=bidders[i % 2], body=offer.body)
        lane.drain(market.pk)
    certificates.renew(market.pk)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    fill(int(sys.argv[1]) if len(sys.argv) > 1 else 150)
