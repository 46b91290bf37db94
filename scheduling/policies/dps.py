"""DPS: dynamic pricing and scheduling in edge-cloud networks."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from scheduling.best_response.at_prices import AtPrices, rigid_terms
from scheduling.best_response.base import Kernel, PriceOf
from scheduling.best_response.rigid.kernel import RigidKernel
from scheduling.book.ledger import Ledger
from scheduling.book.state import HISTORY, Book
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.parameters import parameter
from scheduling.model.types import Floats
from scheduling.model.validation import LARGEST_MONEY
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.pricing.backlog import room_to_put_off
from scheduling.pricing.density import density
from scheduling.pricing.fluid import fluid_prices
from scheduling.pricing.price_function import PriceFunction, printed_prices
from scheduling.pricing.quantile import check_learning, learned_prices, past, scarcity_of_roles


@dataclass(frozen=True)
class Dps(PostedPricePolicy):
    """Posted prices, exponential in utilisation, and the rigid best response (DPS, Algorithm 1).

    docs/algorithms/dps.md lists the deviations from the paper and their reasons; docs/algorithms/prices.md explains how
    the
    defaults of the learned prices were chosen.
    """

    price: str = parameter(
        "learned",
        "learned: a reserve price from quantiles of past bids; fluid: what the last unit-slot would earn if recent "
        "bids could be poured; printed: eta^(share in use) - 1, as in the paper.",
        choices=("learned", "fluid", "printed"),
    )
    eta_worker: tuple[float, ...] = parameter(
        (), "Printed prices: eta of each worker type, in order. Empty: from past bids.", low=1.0, high=LARGEST_MONEY
    )
    eta_ps: tuple[float, ...] = parameter(
        (), "Printed prices: eta of each PS type, in order. Empty: from past bids.", low=1.0, high=LARGEST_MONEY
    )
    window: str = parameter(
        "half_open",
        "half_open: a job of d slots holds d slots; inclusive: it holds d + 1, as in the paper's Algorithms 3 and 4.",
        choices=("half_open", "inclusive"),
    )
    start: str = parameter(
        "ge",
        "ge: a server can be used from arrival + delay on; strict: only after it, as in Algorithms 3 and 4.",
        choices=("ge", "strict"),
    )
    reserve_quantile: float = parameter(
        0.5,
        "Learned prices: quantile of past values per unit-slot from which the reserve price is taken.",
        low=0.0,
        high=1.0,
    )
    worker_share: float = parameter(
        4.0,
        "Learned prices: times that quantile asked for an idle worker once the near horizon is sold out.",
        low=1e-6,
        high=100.0,
    )
    ps_share: float = parameter(0.2, "Learned prices: the same for an idle parameter server.", low=1e-6, high=100.0)
    full_quantile: float = parameter(
        0.95, "Learned prices: quantile of past values per unit-slot reached when a server is full.", low=0.0, high=1.0
    )
    fluid_fill: float = parameter(
        0.7,
        "Fluid prices: share of all capacity that jobs, which cannot be poured, will fill, if none can be put off.",
        low=0.01,
        high=1.0,
    )
    refit_every: int = parameter(
        32,
        "Learned prices: bids between two looks at the past; prices keep their parameters between.",
        low=1,
        high=HISTORY // 2,
    )
    prior_low: float = parameter(
        0.01, "Price of an idle unit until bids of four owners were decided, money per slot.", low=1e-9, high=1e9
    )
    prior_high: float = parameter(1.0, "The same of a full server's unit.", low=1e-9, high=1e9)

    name = "dps"
    title = "DPS: posted prices, the same machines from start to end"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_learning(self)
        if bool(self.eta_worker) != bool(self.eta_ps):
            raise InvalidField("eta_ps" if self.eta_worker else "eta_worker", "expected both etas or neither")

    @property
    def tail(self) -> int:
        """Slots held after completion."""
        return 1 if self.window == "inclusive" else 0

    @property
    def wait(self) -> int:
        """Slots added to every delay."""
        return 1 if self.start == "strict" else 0

    def kernel(self, ledger: Ledger, prices: PriceOf) -> Kernel:
        """Return the kernel for machines that stay the same from start to completion."""
        return RigidKernel(ledger, prices, self.tail)

    def check(self, inventory: Inventory) -> None:
        """Accept any servers; given etas need one number for each machine type, and each type its own resource."""
        if self.eta_worker:
            _etas_by_resource(self.eta_worker, self.eta_ps, inventory)

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> AtPrices:
        """Return the terms of the dual bound at these prices."""
        return rigid_terms(inventory, prices, start=start, tail=self.tail)

    def density(self, bid: Bid, inventory: Inventory, *, horizon: int) -> tuple[float, ...]:
        """Return the value per unit-slot of each resource that the bid offers, R numbers."""
        return density(self.waiting(bid), inventory, horizon=horizon, tail=self.tail)

    def waiting(self, bid: Bid) -> Bid:
        """Return the bid with delays adjusted to this policy's `start` convention."""
        return replace(bid, delay=tuple(delay + self.wait for delay in bid.delay)) if self.wait else bid

    def price_function(self, book: Book) -> PriceFunction:
        """Return the current price function, from given etas or from bids decided before the last refit."""
        inventory = book.inventory
        if self.price == "fluid":
            return fluid_prices(self, book, room=room_to_put_off(book))
        if self.price == "printed" and self.eta_worker:
            return printed_prices(_etas_by_resource(self.eta_worker, self.eta_ps, inventory))
        if self.price == "printed":
            peak = past(self, book).max(axis=0, initial=0.0)
            return printed_prices([float(top if top > 0 else self.prior_high) + 1.0 for top in peak])
        return learned_prices(self, book, scarcity=scarcity_of_roles(book))

    def printed_etas(
        self, bids: Iterable[Bid], inventory: Inventory, *, end: int
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Compute eta of each worker type and each PS type from past bids: 1 + the greatest value per unit-slot.

        `end` is the slot by which those bids had to be complete.
        """
        peak = np.zeros(len(inventory.resources))
        for bid in bids:
            np.maximum(peak, self.density(bid, inventory, horizon=end - bid.arrival), out=peak)
        by_type = [
            tuple(float(peak[machine.demand.index(max(machine.demand))]) + 1.0 for machine in machines)
            for machines in (inventory.workers, inventory.pss)
        ]
        return by_type[0], by_type[1]


def _etas_by_resource(eta_worker: tuple[float, ...], eta_ps: tuple[float, ...], inventory: Inventory) -> list[float]:
    """Return the given etas by resource: in DPS every machine type has its own resource."""
    etas: dict[int, float] = {}
    both = (("eta_worker", eta_worker, inventory.workers), ("eta_ps", eta_ps, inventory.pss))
    for name, given, machines in both:
        if len(given) != len(machines):
            raise InvalidField(name, f"expected {len(machines)} numbers, one for each type, got {len(given)}")
        for eta, machine in zip(given, machines, strict=True):
            etas[_own_resource(machine, etas)] = eta
    return [etas.get(r, 1.0) for r in range(len(inventory.resources))]


def _own_resource(machine: MachineType, taken: dict[int, float]) -> int:
    uses = [r for r, units in enumerate(machine.demand) if units]
    if len(uses) != 1 or uses[0] in taken:
        raise InvalidField(
            "eta_worker", f"printed etas need a resource of its own for each type; {machine.name} shares"
        )
    return uses[0]
