"""DPS: dynamic pricing and scheduling in edge-cloud networks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from scheduling.best_response.base import Kernel, PriceOf
from scheduling.best_response.dual_bound import AtPrices, rigid_terms
from scheduling.best_response.rigid.kernel import RigidKernel
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.parameters import parameter
from scheduling.model.types import Floats
from scheduling.model.validation import LARGEST_MONEY
from scheduling.policies.learned_prices import LearnedPricePolicy, with_default
from scheduling.pricing.backlog import sellable_share
from scheduling.pricing.density import density
from scheduling.pricing.paper import DpsPaperRule, etas_by_resource
from scheduling.pricing.quantile import scarcity_of_roles
from scheduling.pricing.rule import PriceRule


@dataclass(frozen=True)
class Dps(LearnedPricePolicy):
    """Posted prices, exponential in utilisation, and the rigid best response (DPS, Algorithm 1).

    docs/algorithms/dps.md lists the deviations from the paper and their reasons.
    """

    worker_reserve_factor: float = with_default("worker_reserve_factor", 4.0)
    ps_reserve_factor: float = with_default("ps_reserve_factor", 0.2)
    eta_worker: tuple[float, ...] = parameter(
        (), "Paper prices: eta of each worker type, in order. Empty: from past bids.", low=1.0, high=LARGEST_MONEY
    )
    eta_ps: tuple[float, ...] = parameter(
        (), "Paper prices: eta of each PS type, in order. Empty: from past bids.", low=1.0, high=LARGEST_MONEY
    )
    slot_convention: str = parameter(
        "half_open",
        "half_open: a job of d slots holds d slots; inclusive: it holds d + 1, as in the paper's Algorithms 3 and 4.",
        choices=("half_open", "inclusive"),
    )
    start_convention: str = parameter(
        "ge",
        "ge: a server can be used from arrival + delay on; strict: only after it, as in Algorithms 3 and 4.",
        choices=("ge", "strict"),
    )

    name = "dps"
    title = "DPS: posted prices, the same machines from start to end"

    def misfits(self) -> Iterator[InvalidField]:
        """Yield those of `LearnedPricePolicy`, and one if only one of the etas is given."""
        yield from super().misfits()
        if bool(self.eta_worker) != bool(self.eta_ps):
            yield InvalidField(
                "eta_ps" if self.eta_worker else "eta_worker", "expected both etas or neither, got the other one only"
            )

    @property
    def price_rule(self) -> PriceRule:
        """The rule that `price` names."""
        if self.price == "quantile":
            return self.quantile_rule(scarcity_of_roles, initial_for_all=False)
        if self.price == "fluid":
            return self.fluid_rule(sellable_share)
        return DpsPaperRule(self.eta_worker, self.eta_ps, self.learning, self.initial_high)

    def kernel(self, ledger: Ledger, prices: PriceOf) -> Kernel:
        """Return the kernel for machines that stay the same from start to completion."""
        return RigidKernel(ledger, prices, self.tail)

    def density(self, bid: Bid, inventory: Inventory, *, horizon: int) -> tuple[float, ...]:
        """Return the value per unit-slot of each resource that the bid offers, R numbers."""
        return density(self.adjusted(bid), inventory, horizon=horizon, tail=self.tail)

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> AtPrices:
        """Return the terms of the dual bound at these prices."""
        return rigid_terms(inventory, prices, start=start, tail=self.tail)

    def check(self, inventory: Inventory) -> None:
        """Accept any servers; given etas need one number for each machine type, and each type its own resource."""
        if self.eta_worker:
            etas_by_resource(self.eta_worker, self.eta_ps, inventory)

    @property
    def tail(self) -> int:
        """Slots that machines are held after completion: 1 in inclusive windows, as in the paper, and otherwise 0."""
        return 1 if self.slot_convention == "inclusive" else 0

    def adjusted(self, bid: Bid) -> Bid:
        """Return the bid with delays one slot longer if `start_convention` is strict."""
        if self.start_convention == "ge":
            return bid
        return replace(bid, delay=tuple(delay + 1 for delay in bid.delay))

    def paper_etas(
        self, bids: Iterable[Bid], inventory: Inventory, *, end: int
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Compute eta of each worker type and each PS type from past bids: 1 + the greatest value per unit-slot.

        `end` is the slot by which those bids had to be complete (DPS, remark below eq. 20).
        """
        peak = np.zeros(len(inventory.resources))
        for bid in bids:
            np.maximum(peak, self.density(bid, inventory, horizon=end - bid.arrival), out=peak)
        # Only the largest value for a single unit-slot reaches the limit of the parameters, which it passes by 1.
        etas = np.minimum(peak + 1.0, LARGEST_MONEY)
        by_type = [
            tuple(float(etas[machine.demand.index(max(machine.demand))]) for machine in machines)
            for machines in (inventory.workers, inventory.parameter_servers)
        ]
        return by_type[0], by_type[1]
