"""Create what the demo needs: clusters with their markets, an operator, a bidder and four others."""

import fcntl
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User

from accounts.models import Token
from accounts.tokens import NewToken, issue
from auctions.engine.markets import open_market
from auctions.models import Market
from cluster.database.sqlite3 import line
from cluster.documents import import_cluster
from cluster.models import Cluster
from cluster.operators import ensure_operator_group
from demo.run import DemoError
from demo.scenarios import Scenario

OTHERS = ("ada", "ben", "cleo", "dan")
"""They send most bids of the stream, so that the bidder sees hidden bids of others, and sums over several owners."""
BESIDE = ("-wal", "-shm", *line.ENDS)
"""Ends of the names of files that are made beside a database."""
BIDDERS = ("bidder", *OTHERS)
TOKEN_NAME = "demo"  # noqa: S105 (a name)
LOGINS = ("operator", *BIDDERS)


@contextmanager
def sole(var: Path) -> Iterator[None]:
    """Lock the data directory: two demos on the same data would share one clock."""
    with (var / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DemoError("A demo is running on this data; end it first, or set SHADOWPRICE_VAR.") from None
        yield


def passwords(var: Path) -> dict[str, str]:
    """The demo's passwords: made once, kept in a file only its owner reads."""
    kept = var / "demo.json"
    kept.touch(mode=0o600)
    known: dict[str, str] = json.loads(kept.read_text() or "{}")
    missing = {name: secrets.token_urlsafe(9) for name in LOGINS if name not in known}
    if missing:
        known |= missing
        kept.write_text(json.dumps(known))
    return known


def forget(var: Path, database: Path) -> None:
    """Delete the demo's SQLite file and passwords."""
    for path in (database, *(database.with_name(database.name + end) for end in BESIDE), var / "demo.json"):
        path.unlink(missing_ok=True)


def people(known: dict[str, str]) -> None:
    """The users, with their passwords; the operator is in the group that operates."""
    group = ensure_operator_group()
    for name in LOGINS:
        user = User.objects.filter(username=name).first() or User(username=name)
        if user.pk is None or not user.check_password(known[name]):
            # One round does for 72 random bits, and saves a quarter of a second each; signing in adds the others.
            user.password = PBKDF2PasswordHasher().encode(known[name], secrets.token_hex(8), iterations=1)
            user.save()
    User.objects.get(username="operator").groups.add(group)


def tokens() -> dict[str, str]:
    """Return a token for each bidder instead of that of the demo before; to log in for it takes the server longer."""
    bidders = User.objects.filter(username__in=BIDDERS)
    Token.objects.filter(user__in=bidders, name=TOKEN_NAME).delete()
    return {user.username: issue(user, NewToken(TOKEN_NAME)).text for user in bidders}


def market_of(scenario: Scenario, *, seed: int) -> Market:
    """The scenario's market under its policy and parameters; one that exists goes on as it is."""
    market = Market.objects.select_related("cluster").filter(cluster__name=scenario.name).first()
    if market is not None:
        return market
    document = scenario.document(np.random.default_rng(seed))
    import_cluster({**document, "name": scenario.name, "title": scenario.title, "note": scenario.note})
    cluster = Cluster.objects.get(name=scenario.name)
    return open_market(cluster, policy=scenario.policy, parameters=scenario.parameters)
