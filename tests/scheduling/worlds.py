"""Small random clusters and bids, from a seed: own resources for each type at even seeds, shared ones at odd."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from scheduling.bid import Bid
from scheduling.decision import Decision
from scheduling.inventory import Inventory, MachineType
from scheduling.ledger import Ledger
from scheduling.policy import HISTORY, Book, Policy
from scheduling.utility import Constant, Linear, Sigmoid, Step, Table, Utility

SLOTS = 9


@dataclass(frozen=True)
class World:
    inventory: Inventory
    bids: tuple[Bid, ...]

    def ledger(self) -> Ledger:
        return Ledger(self.inventory, start=0, slots=SLOTS)


def world(seed: int, *, bids: int = 8, servers: int | None = None) -> World:
    rng = np.random.default_rng(seed)
    drawn, workers, pss = (int(n) for n in rng.integers(1, (4, 3, 3)))
    servers = drawn if servers is None else servers
    one_hot = seed % 2 == 0
    types = [
        tuple(
            MachineType(
                f"{role}{i}", _demand(rng, workers + pss, own=first + i if one_hot else None), _rate(rng, scale)
            )
            for i in range(count)
        )
        for role, first, count, scale in (("worker", 0, workers, 100), ("ps", workers, pss, 300))
    ]
    inventory = Inventory(
        resources=tuple(f"r{r}" for r in range(workers + pss)),
        servers=tuple(f"s{s}" for s in range(servers)),
        cloud=(False,) * servers,
        capacity=rng.integers(0, 4 if one_hot else 9, (servers, workers + pss)).astype(np.int64),
        workers=types[0],
        pss=types[1],
    )
    return World(inventory, tuple(_bid(rng, inventory, i) for i in range(bids)))


def _demand(rng: np.random.Generator, resources: int, *, own: int | None) -> tuple[int, ...]:
    """One unit of its own resource, as in DPS; or a vector over resources that all machines share."""
    demand = rng.integers(0, 3, resources) if own is None else np.zeros(resources, dtype=np.int64)
    demand[int(rng.integers(resources)) if own is None else own] = 1
    return tuple(int(units) for units in demand)


def _rate(rng: np.random.Generator, scale: int) -> Fraction:
    return Fraction(int(rng.integers(1, 5)) * scale)


def _bid(rng: np.random.Generator, inventory: Inventory, i: int) -> Bid:
    def times(count: int, top: int) -> tuple[Fraction, ...]:
        return tuple(Fraction(int(rng.integers(1, top)), 100) for _ in range(count))

    return Bid(
        id=f"bid-{i}",
        arrival=0,
        epochs=1,
        chunks=int(rng.integers(1, 5)),
        minibatches=int(rng.integers(1, 4)),
        worker_time=times(len(inventory.workers), 150),
        ps_time=times(len(inventory.pss), 20),
        transfer_time=times(len(inventory.workers), 60),
        delay=tuple(int(d) for d in rng.integers(0, 4, len(inventory.servers))),
        utility=_utility(rng),
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


@dataclass
class Run:
    """A policy deciding bids one after another, with the book as it goes."""

    ledger: Ledger
    policy: Policy
    history: list[tuple[float, ...]]

    def book(self) -> Book:
        past = np.array(self.history[-HISTORY:], dtype=np.float64).reshape(-1, len(self.ledger.inventory.resources))
        return Book(now=self.ledger.start, ledger=self.ledger, history=past, decided=len(self.history))

    def decide(self, bid: Bid) -> Decision:
        decision = self.policy.decide(replace(bid, arrival=self.ledger.start), self.book())
        self.history.append(decision.density)
        if decision.schedule is not None:
            self.ledger.commit(decision.schedule)
        return decision
