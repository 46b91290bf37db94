"""Markets under load and their rows; each command runs in the environment of the installation that is measured.

`python -m tests.load.world prepare MARKETS` opens markets under DPS on 50 servers and prints names and tokens.
`python -m tests.load.world sessions` signs their owners in and prints the cookies.
`python -m tests.load.world outcome LABEL` waits until no bid waits, and prints what became of the bids of a run.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.processes import ROOT, run_python

SERVERS: Final = 50
TYPES: Final = 3
SPEED: Final = 60.0
"""Slots of an hour begin once a minute."""
CLIENTS: Final = 8
LONGEST_SETTLE_S: Final = 120.0
VALUES: Final = (0.5, 5.0, 40.0, 150.0, 600.0, 2500.0)
"""Values for some of which a bid is admitted, and for others rejected."""


@dataclass(frozen=True)
class World:
    """What clients need to know."""

    markets: list[str]
    tokens: list[str]

    def first(self, markets: int) -> "World":
        """Return the world of the first markets alone."""
        return World(self.markets[:markets], self.tokens)

    def market(self, number: int) -> str:
        """Return the market of a bid."""
        return self.markets[number % len(self.markets)]

    def token(self, number: int) -> str:
        """Return the token of a bid's owner: each client visits each market."""
        return self.tokens[number // len(self.markets) % len(self.tokens)]

    def body(self, number: int, label: str) -> dict[str, Any]:
        """Return the bid of this number; as in the demo, every third one stands if it is rejected."""
        i = number // len(self.markets)
        return {
            "model": "ResNet-50",
            "epochs": 1 + 7 * i % 40,
            "label": f"{label}-{number}",
            "standing": i % 3 == 0,
            "utility": {"form": "step", "value": VALUES[i % len(VALUES)], "deadline_s": 36_000 + 3_600 * (i % 90)},
        }


@dataclass(frozen=True)
class Outcome:
    """Rows of the bids of one run."""

    waiting: int
    """Bids that were not decided in time."""
    committed: dict[str, float]
    """Time at which the decision on each bid was committed, seconds of the wall clock, by the bid's number."""
    policy_ms: list[float]
    """Time that the policy needed for each decision, ms."""


def prepare(markets: int, env: Mapping[str, str]) -> World:
    """Open these markets in an installation whose database has tables and no row."""
    return World(**json.loads(run_python("-m", "tests.load.world", "prepare", str(markets), env=env)))


def outcome(label: str, env: Mapping[str, str]) -> Outcome:
    """Wait until all bids of a run are decided, and read what became of them."""
    seconds = LONGEST_SETTLE_S + 60
    return Outcome(**json.loads(run_python("-m", "tests.load.world", "outcome", label, env=env, seconds=seconds)))


def sessions(env: Mapping[str, str]) -> list[str]:
    """Sign all clients in; return the cookies of their sessions."""
    found: list[str] = json.loads(run_python("-m", "tests.load.world", "sessions", env=env))
    return found


def _sessions() -> list[str]:
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore

    cookies = []
    for user in User.objects.filter(username__startswith="client-").order_by("pk"):
        session = SessionStore()
        session[SESSION_KEY], session[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session.create()
        cookies.append(str(session.session_key))
    return cookies


def _prepare(markets: int) -> dict[str, Any]:
    import numpy as np
    from django.contrib.auth.models import User

    from accounts.tokens import NewToken, issue
    from auctions.engine.markets import open_market
    from cluster.documents import import_cluster
    from demo.clusters.edge_cloud import edge_cloud_document

    names = [f"load-{i + 1}" for i in range(markets)]
    for i, name in enumerate(names):
        document = edge_cloud_document(np.random.default_rng(i), name=name, edge_servers=SERVERS - 1, types=TYPES)
        cluster = import_cluster(document | {"clock": {"kind": "virtual", "speed": SPEED}})
        open_market(cluster, policy="dps")
    users = [User.objects.create(username=f"client-{i + 1}") for i in range(CLIENTS)]
    return {"markets": names, "tokens": [issue(user, NewToken("test")).text for user in users]}


def _outcome(label: str) -> dict[str, Any]:
    from django.db import connection
    from django.db.models import Q

    from auctions.models import Bid, BidState, DecisionRecord, FirstDecision

    bids = Bid.objects.filter(label__startswith=f"{label}-")
    until = time.monotonic() + LONGEST_SETTLE_S
    while (waiting := bids.filter(state=BidState.SUBMITTED).count()) and time.monotonic() < until:
        time.sleep(0.5)
    committed: dict[str, float] = {}
    policy_ms: list[float] = []
    # A bid that stood has two receipts; the first one is the answer that its owner waited for.
    for model, which in ((FirstDecision, Q()), (DecisionRecord, Q(stood_from=None))):
        rows = model._default_manager.filter(which, bid__label__startswith=f"{label}-").select_related("bid")
        stamps = _commit_times(model) if connection.vendor == "postgresql" else {}
        batches: dict[tuple[int, float], float] = {}
        for row in rows:
            key = (row.bid.market_id, row.decided_at.timestamp())
            batches[key] = batches.get(key, 0.0) + row.latency_ms / 1000
        for row in rows:
            began = row.decided_at.timestamp()
            # SQLite keeps no times of commits: the policy's time for the whole batch is added to the batch's begin.
            ended = stamps.get(row.pk, began + batches[row.bid.market_id, began])
            committed[row.bid.label.rpartition("-")[2]] = ended
            policy_ms.append(row.latency_ms)
    return {"waiting": waiting, "committed": committed, "policy_ms": policy_ms}


def _commit_times(model: Any) -> dict[int, float]:
    """Return when each row of a table was committed; the server keeps such times if an option says so."""
    from django.db import connection

    statement = f"SELECT id, extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM {model._meta.db_table}"
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return {key: float(stamp) for key, stamp in cursor.fetchall() if stamp is not None}


def main(arguments: list[str]) -> None:
    """Answer one command with a line of JSON."""
    import django

    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    answer: Any
    match arguments:
        case ["prepare", markets]:
            answer = _prepare(int(markets))
        case ["sessions"]:
            answer = _sessions()
        case ["outcome", label]:
            answer = _outcome(label)
        case _:
            raise SystemExit(f"unknown command: {arguments}")
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
