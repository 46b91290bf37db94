"""Small random clusters and bids, from a seed: what machines share is one of `KINDS`, in turn."""

from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.book.state import HISTORY, Book
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import Constant, Linear, Sigmoid, Step, Table, Utility
from scheduling.policies.base import Policy

SLOTS = 9
KINDS = ("own", "shared", "pools")
"""Each machine type has a resource of its own; all share all; or workers share some and PSs others. One kind more is
drawn only where a policy asks for it: as the last, with servers for workers and servers for PSs (apart)."""
PS_ONLY = frozenset({Architecture.PS})


@dataclass(frozen=True)
class World:
    inventory: Inventory
    bids: tuple[Bid, ...]

    def ledger(self) -> Ledger:
        return Ledger(self.inventory, start=0, slots=SLOTS)


def world(
    seed: int,
    *,
    bids: int = 8,
    servers: int | None = None,
    architectures: frozenset[Architecture] = PS_ONLY,
    kind: str = "",
) -> World:
    rng = np.random.default_rng(seed)
    drawn, workers, pss = (int(n) for n in rng.integers(1, (4, 3, 3)))
    kind = kind or KINDS[seed % len(KINDS)]
    servers = drawn + (2 if kind == "apart" else 0) if servers is None else servers
    roles = {"worker": (range(workers), 100), "ps": (range(workers, workers + pss), 300)}
    shared = {"own": range(0), "shared": range(workers + pss)}

    def demand(mine: range, i: int) -> tuple[int, ...]:
        return _demand(rng, workers + pss, of=shared.get(kind, mine), own=mine[i] if kind == "own" else None)

    types = [
        tuple(MachineType(f"{role}{i}", demand(mine, i), _rate(rng, scale)) for i in range(len(mine)))
        for role, (mine, scale) in roles.items()
    ]
    capacity = rng.integers(0, 4 if kind == "own" else 9, (servers, workers + pss)).astype(np.int64)
    if kind == "apart":
        capacity[::2, workers:] = 0
        capacity[1::2, :workers] = 0
    inventory = Inventory(
        resources=tuple(f"r{r}" for r in range(workers + pss)),
        servers=tuple(f"s{s}" for s in range(servers)),
        cloud=(*(False,) * (servers - 1), servers > 1 and seed % 2 == 1),
        capacity=capacity,
        workers=types[0],
        parameter_servers=types[1],
    )
    return World(inventory, tuple(_bid(rng, inventory, i, sorted(architectures)) for i in range(bids)))


def finer(inventory: Inventory, rng: np.random.Generator, unit: int = 10**8) -> Inventory:
    """Multiply units by `unit` and add a few, so that the last digit often decides what fits."""

    def split(types: tuple[MachineType, ...]) -> tuple[MachineType, ...]:
        return tuple(
            replace(kind, demand=tuple(n * unit + int(rng.integers(3)) * (n > 0) for n in kind.demand))
            for kind in types
        )

    more = rng.integers(0, 7, inventory.capacity.shape)
    return replace(
        inventory,
        workers=split(inventory.workers),
        parameter_servers=split(inventory.parameter_servers),
        capacity=inventory.capacity * unit + more * (inventory.capacity > 0),
    )


def world_for(policy: Policy, seed: int) -> World:
    """A world the policy can run in.

    Where it refuses the one drawn: one in which workers and PSs share no server, or no two types share a resource.
    """
    for kind in ("", "apart"):
        drawn = world(seed, architectures=policy.architectures, kind=kind)
        with suppress(InvalidField):
            policy.check(drawn.inventory)
            return drawn
    drawn = world(seed, architectures=policy.architectures, kind="own")
    policy.check(drawn.inventory)
    return drawn


def _demand(rng: np.random.Generator, resources: int, *, of: range, own: int | None) -> tuple[int, ...]:
    """One unit of its own resource, as in DPS; or a vector over the resources `of` its like."""
    demand = np.zeros(resources, dtype=np.int64)
    demand[list(of)] = rng.integers(0, 3, len(of))
    demand[int(rng.choice(of)) if own is None else own] = 1
    return tuple(int(units) for units in demand)


def _rate(rng: np.random.Generator, scale: int) -> Fraction:
    return Fraction(int(rng.integers(1, 5)) * scale)


def _bid(rng: np.random.Generator, inventory: Inventory, i: int, architectures: list[Architecture]) -> Bid:
    def times(count: int, top: int) -> tuple[Fraction, ...]:
        return tuple(Fraction(int(rng.integers(1, top)), 100) for _ in range(count))

    return Bid(
        id=f"bid-{i}",
        arrival=0,
        epochs=1,
        chunks=int(rng.integers(1, 5)),
        minibatches=int(rng.integers(1, 4)),
        worker_time=times(len(inventory.workers), 150),
        ps_time=times(len(inventory.parameter_servers), 20),
        transfer_time=times(len(inventory.workers), 60),
        delay=tuple(int(d) for d in rng.integers(0, 4, len(inventory.servers))),
        utility=_utility(rng),
        architecture=architectures[int(rng.integers(len(architectures)))],
        reduce_time=times(1, 60)[0],
    )


def _utility(rng: np.random.Generator) -> Utility:
    value = float(np.round(rng.uniform(0.5, 60), 2))
    forms: list[Utility] = [
        Constant(value),
        Sigmoid(value, float(rng.uniform(0.05, 2)), float(rng.uniform(0, 6))),
        Step(value, float(rng.integers(1, SLOTS))),
        Linear(value, value / float(rng.uniform(2, 12))),
        Table(tuple(sorted((float(x) for x in rng.uniform(0, value, 6)), reverse=True))),
    ]
    return forms[int(rng.integers(len(forms)))]


def rings(seed: int, *, bids: int = 8) -> World:
    """A world whose jobs are rings that wait long for one another: two workers are often slower than one."""
    rng = np.random.default_rng(seed)
    drawn = world(seed, bids=bids, architectures=frozenset({Architecture.RING}))
    slow = [
        replace(bid, chunks=int(rng.integers(1, 13)), reduce_time=Fraction(int(rng.integers(0, 900)), 100))
        for bid in drawn.bids
    ]
    return replace(drawn, bids=tuple(slow))


@dataclass
class Run:
    """A policy deciding bids one after another, with the book as it goes."""

    ledger: Ledger
    policy: Policy
    past: list[Decision]

    def book(self) -> Book:
        known = self.past[-HISTORY:]
        rows = np.array([decision.density for decision in known], dtype=np.float64)
        return Book(
            now=self.ledger.start,
            ledger=self.ledger,
            history=rows.reshape(-1, len(self.ledger.inventory.resources)),
            decided=len(self.past),
            slots=np.array([decision.slot for decision in known], dtype=np.int64),
            standalone_values=np.array([decision.standalone_value for decision in known], dtype=np.float64),
        )

    def decide(self, bid: Bid) -> Decision:
        decision = self.policy.decide(replace(bid, arrival=self.ledger.start), self.book())
        self.past.append(decision)
        if decision.schedule is not None:
            self.ledger.commit(decision.schedule)
        return decision
