"""One history: a market of some hours, its bidders, its operator and their machines; the same again from its seed."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Final

import numpy as np
from django.contrib.auth.models import User

from accounts.errors import AccountsError
from accounts.models import Membership, Role, Team
from auctions.domain.bid_conversion import policy_in_force
from auctions.domain.errors import AuctionError, CannotDecide, KeyReused
from auctions.domain.lock import market_time
from auctions.domain.refunds import Refund
from auctions.engine.jobs import cancel_job, complete_job, fail_job, retry_bid, withdraw_bid
from auctions.engine.markets import open_market, set_open
from auctions.engine.policies import change_policy
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.engine.submission import quote, submit_bids
from auctions.models import Bid, BidState, DecisionRecord, Event, Market, Outage, PolicyVersion
from cluster import clock
from cluster.models import Capacity, ClockKind, Cluster, Server
from scheduling.model.decision import canonical
from scheduling.model.errors import InvalidField
from scheduling.policies.base import Objective
from scheduling.registry import POLICIES
from tests.auctions.faulty import UNLUCKY
from tests.auctions.worlds import SLOT_S, body, make_cluster
from tests.histories.points import Injected, Killed
from tests.histories.policies import PARAMETERS, Failing, failing
from tests.histories.simulation import EPOCH, Rates, Simulation

POLICY_NAMES: Final = tuple(POLICIES)
HORIZON: Final = 8
PEOPLE: Final = 6
MEMBERS: Final = 2
"""People in the same team."""
ACTIONS: Final = {
    "submit": 12.0,
    "submit_many": 2.0,
    "withdraw": 2.0,
    "end_job": 3.0,
    "ask_for_quote": 2.0,
    "change_server": 2.0,
    "retry": 1.0,
    "step_clock": 1.5,
    "kill_process": 1.0,
    "change_policy": 0.5,
    "open_or_close": 0.7,
    "stop_beat": 0.7,
}
"""What people, machines and the clock do, with weights."""
VALUES: Final = (1e-4, 0.5, 3.0, UNLUCKY, 20.0, 80.0, 300.0, 1e9)
UTILITIES: Final[tuple[dict[str, Any], ...]] = (
    {"form": "constant"},
    {"form": "step", "deadline_s": 600},
    {"form": "linear", "zero_at_s": 900},
    {"form": "inverse", "zero_at_s": 1500},
    {"form": "sigmoid", "steepness_per_s": 0.01, "midpoint_s": 500},
    {"form": "piecewise_linear", "points": [[0, 1], [500, 0.5], [800, 0]]},
)
SWEEP_S: Final = 80.0
SLOTS_AT_ONCE: Final = 6
"""Number of slots that pass at once after the last fault, until all jobs have ended."""
MOST_TURNS: Final = 60
"""Number of such steps after which a job that has not ended is an error."""
GOING: Final = (BidState.SUBMITTED, BidState.STANDING, BidState.PLANNED, BidState.RUNNING)
REFUSALS: Final = (AuctionError, AccountsError, InvalidField)


@dataclass
class Sent:
    """Bids that a client sent under one key, and what it knows of them."""

    owner: int
    key: str
    bodies: list[dict[str, Any]]
    sequences: list[int] | None = None
    """Their numbers, once an answer came."""
    refused: str = ""
    """The refusal, once it came."""


@dataclass
class History:
    """A market and everything that happens to it."""

    seed: int
    sent: dict[str, Sent] = field(default_factory=dict)
    ended: dict[int, BidState] = field(default_factory=dict)
    """States in which bids ended as their owners or an operator were answered."""
    acts: Counter[str] = field(default_factory=Counter)
    where: Failing = field(default_factory=Failing)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, 1])
        rng = np.random.default_rng([self.seed, 2])
        self.simulation = Simulation(rng, Rates.drawn(rng))
        self.policy = POLICY_NAMES[self.seed % len(POLICY_NAMES)]
        self.beat_until = 0.0

    @contextmanager
    def ran(self) -> Iterator["History"]:
        """Let everything happen, to the end of all jobs; the block sees the result."""
        with failing(self.where), self.simulation.begun():
            self._open()
            at = 0.0
            for _ in range(int(self.rng.integers(8, 24))):
                at += float(self.rng.exponential(0.3 * SLOT_S))
                self.simulation.at(at, "", self._act)
            self._sweep()
            while self.simulation.now < at and self.simulation.step():
                pass
            self._settle()
            yield self

    def digest(self) -> str:
        """Return a digest of the events and receipts: another run of the same seed has the same."""
        rows: list[Any] = [
            [one.version, one.kind, one.slot, one.at.isoformat(), one.payload]
            for one in Event.objects.filter(market=self.market).order_by("version")
        ]
        rows += (
            DecisionRecord.objects.filter(bid__market=self.market).order_by("version").values_list("receipt", flat=True)
        )
        return sha256(canonical(rows).encode()).hexdigest()[:16]

    def _open(self) -> None:
        self.people = [User.objects.create(username=f"person-{number}") for number in range(PEOPLE)]
        team = Team.objects.create(name="team", title="Team", created_at=clock.now())
        for member in self.people[:MEMBERS]:  # they take turns, and are in pools of prices, as one owner
            Membership.objects.create(team=team, user=member, role=Role.BIDDER)
        self.cluster = make_cluster(units=int(self.rng.integers(2, 4)), horizon=HORIZON)
        Cluster.objects.filter(pk=self.cluster.pk).update(clock_kind=ClockKind.REAL, epoch=EPOCH)
        if self.policy == "oasis":  # workers and parameter servers are apart
            here = Capacity.objects.filter(server__cluster=self.cluster)
            here.filter(server__name="edge-1", resource__name="gpu").update(amount=0)
            here.exclude(server__name="edge-1").filter(resource__name="ps").update(amount=0)
        self.cluster.refresh_from_db()
        choices = PARAMETERS.get(self.policy, ({},))
        self.market = open_market(
            self.cluster, policy=self.policy, parameters=choices[int(self.rng.integers(len(choices)))]
        )
        self.servers = list(Server.objects.filter(cluster=self.cluster).order_by("pk"))
        if self.rng.random() < 0.3:
            self.where.slots = frozenset(int(slot) for slot in self.rng.integers(0, 12, 3))

    def _settle(self) -> None:
        """Let faults be over, every client ask until it is answered, every bid be decided, and every job end."""
        self.simulation.is_calm, self.where.is_corrected = True, True
        self.simulation.ahead = max(0.0, self.simulation.ahead)
        set_open(self.market, True)
        for outage in Outage.objects.filter(ended_version=None).select_related("server__cluster").order_by("pk"):
            self._operate(partial(restore_server, outage.server, reason="", by=None))
        for bid in Bid.objects.filter(market=self.market, state=BidState.QUARANTINED).order_by("sequence"):
            if self.rng.random() < 0.5:
                self._operate(partial(retry_bid, bid))
        self.beat_until = self.simulation.now + 6 * SLOT_S
        while self.simulation.step():
            pass
        self._pass_slots()
        going = Bid.objects.filter(market=self.market, state__in=GOING)
        for _ in range(MOST_TURNS):
            if not going.exists():
                break
            self._pass_slots()

    def _pass_slots(self) -> None:
        self.simulation.now += SLOTS_AT_ONCE * SLOT_S
        self.simulation.send("sweep")
        while self.simulation.step():
            pass

    def _sweep(self) -> None:
        """Beat sends the sweep, and sometimes the renewal of certificates."""
        if self.simulation.now >= self.beat_until:
            self.simulation.send("sweep")
            if self.rng.random() < 0.3:
                self.simulation.send("certify")
        if not self.simulation.is_calm:
            self.simulation.at(SWEEP_S, "beat", self._sweep)

    def _act(self) -> None:
        """One of these things happens."""
        weights = np.array(list(ACTIONS.values()))
        name = list(ACTIONS)[int(self.rng.choice(len(ACTIONS), p=weights / weights.sum()))]
        self.acts[name] += 1
        self.simulation.log.append(f"{'':10}{name}")
        getattr(self, f"_{name}")()

    def _submit(self) -> None:
        self._send_bids([self._body()])

    def _submit_many(self) -> None:
        self._send_bids([self._body() for _ in range(int(self.rng.integers(2, 6)))])

    def _body(self) -> dict[str, Any]:
        """Return a bid as the policy in force requires it, which may stand."""
        value, epochs = float(self.rng.choice(VALUES)), int(self.rng.integers(1, 7))
        policy = policy_in_force(self.cluster)
        if policy.objective is not Objective.WELFARE:
            ring = epochs % 2 and "ring" in policy.architectures
            return {
                "model": "ResNet-50",
                "epochs": epochs,
                "weight": value,
                "architecture": "ring" if ring else "ps",
            }
        found = body(
            value, epochs=epochs, utility={**UTILITIES[int(self.rng.integers(len(UTILITIES)))], "value": value}
        )
        if self.rng.random() < 0.5:
            found |= {"standing": True, "standing_until_s": float(self.rng.choice([450.0, 1e6]))}
        return found

    def _send_bids(self, bodies: list[dict[str, Any]]) -> None:
        sent = Sent(int(self.rng.integers(PEOPLE)), f"key-{len(self.sent)}", bodies)
        self.sent[sent.key] = sent
        self._try_to_send(sent)
        if self.rng.random() < 0.1:
            self.simulation.at(float(self.rng.uniform(0, 3 * SLOT_S)), "request repeated", lambda: self._repeat(sent))

    def _repeat(self, sent: Sent) -> None:
        """Send a request again that was answered: the answer is the same, or a refusal if the body differs."""
        if sent.sequences is None:
            return
        first, sent.sequences = sent.sequences, None
        self._try_to_send(sent)
        if sent.sequences is None:  # it is on its way again
            sent.sequences = first
        assert sent.sequences == first, f"{sent.key} has the numbers {first} and {sent.sequences}"
        other = [{**sent.bodies[0], "epochs": 7}, *sent.bodies[1:]]
        result = self._on_web(lambda: self._store(sent, other))
        assert result is None or isinstance(result, KeyReused | Killed | Injected), result

    def _try_to_send(self, sent: Sent) -> None:
        """Send; without an answer, send again after a while."""
        result = self._on_web(lambda: self._store(sent, sent.bodies))
        if isinstance(result, list):
            assert sent.sequences in (None, result), f"{sent.key} has the numbers {sent.sequences} and {result}"
            sent.sequences = result
        elif result is None or isinstance(result, Killed | Injected):
            delay = float(self.rng.uniform(0.1, 0.5 * SLOT_S))
            self.simulation.at(delay, f"{sent.key} again", lambda: self._try_to_send(sent))
        else:
            sent.refused = str(result)

    def _store(self, sent: Sent, bodies: Sequence[dict[str, Any]]) -> list[int]:
        owner = User.objects.get(pk=self.people[sent.owner].pk)
        stored = submit_bids(cluster=self.cluster.name, owner=owner, bodies=bodies, idempotency_key=sent.key)
        return [one.bid.sequence for one in stored]

    def _on_web(self, work: Callable[[], Any]) -> Any:
        """Let a web process answer; None if none is free."""
        web = self.simulation.free(self.simulation.web)
        return None if web is None else self.simulation.run_in(web, work, refusals=REFUSALS)

    def _operate(self, work: Callable[[], Any]) -> bool:
        """Let a web process do what a user wants; return whether it was answered that it is done."""
        result = self._on_web(lambda: (work(), True)[1])
        return result is True

    def _drawn(self, *states: BidState) -> Bid | None:
        """Return a bid in one of these states; None without one."""
        bids = list(Bid.objects.filter(market=self.market, state__in=states).order_by("sequence"))
        return bids[int(self.rng.integers(len(bids)))] if bids else None

    def _withdraw(self) -> None:
        bid = self._drawn(BidState.SUBMITTED, BidState.STANDING, BidState.QUARANTINED, BidState.REJECTED)
        if bid is not None and self._operate(lambda: withdraw_bid(bid)):
            self.ended[bid.sequence] = BidState.WITHDRAWN

    def _end_job(self) -> None:
        bid = self._drawn(BidState.PLANNED, BidState.RUNNING, BidState.COMPLETED)
        if bid is None:
            return
        how = int(self.rng.integers(3))
        refund = list(Refund)[int(self.rng.integers(len(Refund)))]
        deed: Callable[[], Bid]
        deed, state = (
            (lambda: cancel_job(bid), BidState.CANCELLED),
            (lambda: fail_job(bid, "a disk broke", refund=refund), BidState.FAILED),
            (lambda: complete_job(bid), BidState.COMPLETED),
        )[how]
        if self._operate(deed):
            self.ended[bid.sequence] = state

    def _ask_for_quote(self) -> None:
        offer = self._body()
        result = self._on_web(lambda: quote(market=self.market, body=offer))
        unlucky = offer.get("weight", offer.get("utility", {}).get("value")) == UNLUCKY
        assert unlucky or not isinstance(result, CannotDecide), result

    def _change_server(self) -> None:
        server, how = self.servers[int(self.rng.integers(len(self.servers)))], float(self.rng.random())
        if how < 0.35:
            self.simulation.faults["server lost"] += self._operate(lambda: lose_server(server, reason="fan", by=None))
        elif how < 0.6:
            first = market_time(Market.objects.get(pk=self.market.pk)).now + int(self.rng.integers(3))
            deadline = first + int(self.rng.integers(1, 5)) if self.rng.random() < 0.5 else None
            self.simulation.faults["server drained"] += self._operate(
                lambda: drain_server(server, from_slot=first, deadline=deadline, reason="", by=None)
            )
        else:
            self._operate(lambda: restore_server(server, reason="", by=None))

    def _retry(self) -> None:
        bid = self._drawn(BidState.QUARANTINED)
        if bid is not None:
            self.where.is_corrected = bool(self.rng.random() < 0.5)
            self._operate(lambda: retry_bid(bid))

    def _step_clock(self) -> None:
        """The machine's clock is set back, or forward again."""
        by = float(self.rng.uniform(-3.0, 2.0)) * SLOT_S
        self.simulation.ahead += by
        self.simulation.faults["clock back" if by < 0 else "clock forward"] += 1

    def _kill_process(self) -> None:
        """A process that does nothing now is killed, and starts again with nothing in memory."""
        nodes = [*self.simulation.web, *self.simulation.workers]
        node = self.simulation.free(nodes)
        if node is not None:
            node.restart()
            self.simulation.faults["idle process killed"] += 1

    def _change_policy(self) -> None:
        name = POLICY_NAMES[int(self.rng.integers(len(POLICY_NAMES)))]
        self._operate(lambda: change_policy(self.market, name=name, parameters={}, by=None))

    def _open_or_close(self) -> None:
        is_open = bool(self.rng.random() < 0.7)
        self._operate(lambda: set_open(self.market, is_open))

    def _stop_beat(self) -> None:
        """Beat is gone for a while."""
        self.simulation.faults["beat stopped"] += 1
        self.beat_until = self.simulation.now + float(self.rng.uniform(1, 5)) * SLOT_S

    def policies(self) -> list[str]:
        """Return the policies that the market had, in order."""
        return list(PolicyVersion.objects.filter(market=self.market).order_by("number").values_list("name", flat=True))
