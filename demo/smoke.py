"""A smoke test of an installation: sign in, submit a bid by REST, and wait for its decision.

It has a cluster of its own, with one server, so that it takes nothing from others. Its policy needs no kernels.
"""

import secrets
from typing import Final
from uuid import uuid4

from django.contrib.auth.models import User

from auctions.engine.markets import open_market
from auctions.models import Market
from cluster import clock
from cluster.documents import import_cluster
from cluster.models import Cluster
from demo import client
from scheduling.model.types import Json

NAME: Final = "smoke"
"""Name of the cluster and of the user."""
WAIT_S: Final = 30
"""Longest time until the decision."""
BODY: Final = {"model": "smoke", "epochs": 1, "weight": 1}


class NotDecided(Exception):
    """The bid was stored, and not decided in time."""


def run(base: str) -> Json:
    """Submit a bid to the server at this address and return it with its decision; the user can sign in only meanwhile.

    Raises
    ------
    demo.client.Unreachable, demo.client.Refused
        If the server does not answer, or refuses.
    NotDecided
        If the bid is not decided within `WAIT_S` seconds.
    """
    _open_market()
    user, _ = User.objects.get_or_create(username=NAME)
    password = secrets.token_urlsafe(16)
    user.set_password(password)
    user.is_active = True
    user.save()
    try:
        token = client.post(f"{base}/api/v1/token", {"username": NAME, "password": password}, {})["token"]
        headers = {
            "Authorization": f"Token {token}",
            "Idempotency-Key": f"{NAME}-{uuid4()}",
            "Prefer": f"wait={WAIT_S}",
        }
        bid: Json = client.post(f"{base}/api/v1/clusters/{NAME}/bids", BODY, headers)
    finally:
        user.set_unusable_password()
        user.is_active = False
        user.save()
    if bid["state"] == "submitted":
        raise NotDecided(f"Bid {bid['sequence']} was stored and not decided within {WAIT_S} seconds.")
    return bid


def _open_market() -> None:
    if Market.objects.filter(cluster__name=NAME).exists():
        return
    import_cluster(_document())
    open_market(Cluster.objects.get(name=NAME), policy="fifo")


def _document() -> Json:
    """One server with two units, slots of a minute; a job takes one slot."""
    return {
        "name": NAME,
        "title": "Smoke test",
        "note": "For `manage.py smoke`, which submits a bid and waits for its decision.",
        "epoch": clock.now().replace(microsecond=0).isoformat(),
        "slot_seconds": 60,
        "horizon_slots": 60,
        "standing_by_default": False,
        "clock": {"kind": "real", "speed": 1.0},
        "resources": [{"name": "worker", "unit": "unit"}, {"name": "ps", "unit": "unit"}],
        "worker_types": [{"name": "worker", "bandwidth_mbps": 1000, "demand": {"worker": 1}}],
        "ps_types": [{"name": "ps", "bandwidth_mbps": 4000, "demand": {"ps": 1}}],
        "servers": [{"name": "one", "kind": "edge", "upload_delay_s": 0, "capacity": {"worker": 4, "ps": 4}}],
        "models": [
            {
                "name": "smoke",
                "gradient_mb": 1,
                "chunks": 1,
                "minibatches": 1,
                "worker_step_s": {"worker": 1.0},
                "ps_step_s": {"ps": 0.1},
            }
        ],
    }
