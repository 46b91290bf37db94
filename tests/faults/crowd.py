"""Hundreds of bids by eight clients at once, on any database: open a market, submit, and count the decisions.

Run as `python -m tests.faults.crowd prepare POLICY [CLUSTER ...] | submit CLIENT COUNT | submit-all COUNT | verdict
CLUSTER` in the environment of the processes under test. The test process itself keeps its own database out of it.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from operator import itemgetter
from typing import Any

import requests

from tests.draws import SOAK
from tests.forks import project

CLUSTER = "crowd"
POLICIES = ("dps", "preemptive")
CLIENTS = 8
BIDS = 1000 if SOAK else 160
VALUES = (0.5, 5.0, 40.0, 150.0, 600.0)


@dataclass(frozen=True)
class Verdict:
    """Counts of the rows after the last decision."""

    submitted: int
    waiting: int
    decided: int
    """Events that record a decision: a bid that is decided twice counts twice."""
    decisions: int
    """Receipts."""
    in_order: bool
    """Whether the bids of each client are decided in the order of their submission, each once."""
    replayed: int
    """Decisions that the replay of the events makes."""
    mismatches: int
    """Decisions of the replay that differ from the stored ones."""
    broken: dict[str, list[str]]
    """Checks of the audit that fail, with the rows that break them."""


def body_of(client: int, i: int, *, states_value: bool = True) -> dict[str, Any]:
    """Bid i of a client: sizes and values that make the market both grant and refuse."""
    if not states_value:
        return {"model": "ResNet-50", "epochs": 1 + (3 * i + client) % 6, "label": f"{client}-{i}"}
    utility = {"form": "step", "value": VALUES[(client + i) % len(VALUES)], "deadline_s": 600 + 100 * (i % 9)}
    return {"model": "ResNet-50", "epochs": 1 + (3 * i + client) % 6, "label": f"{client}-{i}", "utility": utility}


def call(*arguments: str, env: Mapping[str, str], seconds: float = 300.0) -> Any:
    """Run one of this module's commands in the environment of the processes under test; its JSON answer."""
    command = ["python", "-m", "tests.faults.crowd", *arguments]
    return json.loads(project(env).run(command, env=env, seconds=seconds).splitlines()[-1])


def verdict(env: Mapping[str, str], *, cluster: str = CLUSTER) -> Verdict:
    """Count the rows of a market."""
    return Verdict(**call("verdict", cluster, env=env))


def wait_for_decisions(env: Mapping[str, str]) -> None:
    """Return when no bid waits for a decision."""
    assert call("settle", env=env) == 0


def assert_each_bid_decided_once(env: Mapping[str, str], sequences: list[int], *, cluster: str = CLUSTER) -> None:
    """Each submitted bid is decided once, in turn and within capacity, and a replay decides the same.

    A second decision of a bid would add an event, so that `decided` is too large and `in_order` is false.
    """
    assert sorted(sequences) == list(range(1, len(sequences) + 1))
    assert verdict(env, cluster=cluster) == Verdict(
        submitted=len(sequences),
        waiting=0,
        decided=len(sequences),
        decisions=len(sequences),
        in_order=True,
        replayed=len(sequences),
        mismatches=0,
        broken={},
    )


def post_all(
    address: str,
    tokens: list[str],
    *,
    count: int = BIDS,
    first: int = 0,
    patient: bool = False,
    states_value: bool = True,
) -> list[int]:
    """Post bids over HTTP, each client's from its `first` on, with a thread for each token; their sequence numbers.

    A patient client sends a bid again, with its key, when there is no answer or the server is at fault.
    """
    numbers = range(first, first + count // len(tokens))
    with ThreadPoolExecutor(len(tokens)) as pool:
        posted = pool.map(
            lambda client: _post(address, client, tokens[client], numbers, patient=patient, states_value=states_value),
            range(len(tokens)),
        )
        return [sequence for sequences in posted for sequence in sequences]


def submit_all(env: Mapping[str, str], *, count: int = BIDS) -> list[int]:
    """Submit the bids from eight processes through the services; their sequence numbers."""
    sequences: list[int] = call("submit-all", str(count // CLIENTS), env=env)
    return sequences


def _post(address: str, client: int, token: str, numbers: range, *, patient: bool, states_value: bool) -> list[int]:
    sequences = []
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Token {token}"
        for i in numbers:
            body = body_of(client, i, states_value=states_value)
            answer = _post_one(session, address, client, body)
            while patient and (answer is None or answer.status_code >= 500):
                time.sleep(0.2)
                answer = _post_one(session, address, client, body)
            assert answer is not None
            assert answer.status_code in (200, 202), answer.text
            sequences.append(int(answer.json()["sequence"]))
    return sequences


def _post_one(session: requests.Session, address: str, client: int, body: dict[str, Any]) -> requests.Response | None:
    """The answer; None if there was none."""
    try:
        return session.post(
            f"{address}/api/v1/clusters/{CLUSTER}/bids",
            json=body,
            headers={"Idempotency-Key": str(body["label"])},
            timeout=60,
        )
    except requests.ConnectionError:
        return None


def _prepare(policy: str, *clusters: str) -> list[str]:
    from django.contrib.auth.models import User

    from accounts.tokens import NewToken, issue
    from auctions.engine.markets import open_market
    from tests.auctions.worlds import make_cluster

    for name in clusters or (CLUSTER,):
        open_market(make_cluster(name, servers=20, units=8, horizon=40), policy=policy, parameters={})
    users = [User.objects.create(username=f"client-{c}") for c in range(CLIENTS)]
    return [issue(user, NewToken("test")).text for user in users]


def _submit(client: int, count: int) -> list[int]:
    from django.contrib.auth.models import User

    from auctions.engine.submission import submit_bid
    from cluster.models import Cluster

    cluster, owner = Cluster.objects.get(name=CLUSTER), User.objects.get(username=f"client-{client}")
    states_value = not cluster.market.policies.filter(name="preemptive").exists()
    bodies = (body_of(client, i, states_value=states_value) for i in range(count))
    return [submit_bid(cluster=cluster, owner=owner, body=body).bid.sequence for body in bodies]


def _submit_all(count: int) -> list[int]:
    """A process for each client, which begins with what this one has imported, but for connections."""
    with get_context("fork").Pool(CLIENTS, maxtasksperchild=1) as pool:
        runs = [pool.apply_async(_submit, (client, count)) for client in range(CLIENTS)]
        return [sequence for run in runs for sequence in run.get()]


def _verdict(cluster: str) -> dict[str, Any]:
    from auctions.history.audit import audit_market
    from auctions.history.replay import replay_market
    from auctions.models import BidState, DecisionRecord, Event, EventKind, Market

    market = Market.objects.get(cluster__name=cluster)
    events = Event.objects.filter(market=market, kind__in=(EventKind.ADMITTED, EventKind.REJECTED))
    order = list(events.order_by("version").values_list("bid__owner", "bid__sequence"))
    replay = replay_market(market)
    return {
        "submitted": market.bids.count(),
        "waiting": market.bids.filter(state=BidState.SUBMITTED).count(),
        "decided": len(order),
        "decisions": DecisionRecord.objects.filter(bid__market=market).count(),
        "in_order": sorted(order, key=itemgetter(0)) == sorted(set(order)),
        "replayed": replay.decisions,
        "mismatches": len(replay.mismatches),
        "broken": {f.check: list(f.rows) for f in audit_market(market) if not f.passed},
    }


def _script() -> str:
    """A day of a market under a stopped clock, the same in every process; a digest of its receipts."""
    from hashlib import sha256

    from django.contrib.auth.models import User

    from auctions.engine import decision_queue
    from auctions.engine.jobs import cancel_job
    from auctions.engine.policies import change_policy
    from auctions.models import DecisionRecord
    from cluster.guards import checked_change
    from cluster.models import Capacity
    from tests.auctions.worlds import add_server, make_cluster, make_market, set_time, submit

    cluster = make_cluster(CLUSTER, servers=6, units=3, horizon=30)
    market = make_market(cluster, refit_every=5)
    alice = User.objects.create(username="alice")
    for i in range(120):
        set_time(market, 40.0 * i)
        value = (1e-6, 1e12, 0.1 + 0.2, 7.0, 1 / 3)[i % 5] if i % 4 else 100.0 + i
        utility = ({"form": "linear", "zero_at_s": 1e-6 if i % 3 else 2000}, {"form": "sigmoid"}, {"form": "constant"})
        extra = {"steepness_per_s": 0.01, "midpoint_s": 700} if i % 3 == 1 else {}
        bid = submit(market, alice, epochs=1 + i % 9, utility={**utility[i % 3], **extra, "value": value})
        decision_queue.process_pending(market.pk)
        bid.refresh_from_db()
        if i % 11 == 0 and bid.state == "planned":
            cancel_job(bid)
        if i == 40:
            change_policy(market, name="dps", parameters={"price": "paper"}, by=None)
        if i == 70:
            with checked_change(cluster):
                add_server(cluster, "extra", units=4)
                Capacity.objects.filter(server__cluster=cluster, server__name="edge-0").update(amount=9)
    receipts = DecisionRecord.objects.order_by("version").values_list("receipt", flat=True)
    return sha256("\n".join(receipts).encode()).hexdigest()


def _waiting() -> int:
    from auctions.models import Bid, BidState

    return Bid.objects.filter(state=BidState.SUBMITTED).count()


def _settle() -> int:
    """Wait until nobody waits for a decision: a process for each look would take a core from those that decide."""
    while waiting := _waiting():
        time.sleep(0.2)
    return waiting


def main(arguments: list[str]) -> None:
    """Answer one command with a line of JSON."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    match arguments:
        case ["prepare", policy, *clusters]:
            answer: Any = _prepare(policy, *clusters)
        case ["submit", client, count]:
            answer = _submit(int(client), int(count))
        case ["submit-all", count]:
            answer = _submit_all(int(count))
        case ["script"]:
            answer = _script()
        case ["waiting"]:
            answer = _waiting()
        case ["settle"]:
            answer = _settle()
        case ["verdict", cluster]:
            answer = _verdict(cluster)
        case _:
            raise SystemExit(f"unknown command: {arguments}")
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
