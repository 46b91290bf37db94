"""OASiS: online scheduling of jobs whose workers and parameter servers may change in number every slot."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduling.best_response.base import Kernel, PriceOf
from scheduling.best_response.chunked import ChunkKernel
from scheduling.best_response.dual_bound import AtPrices, elastic_terms
from scheduling.best_response.elastic.kernel import ElasticKernel
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.inventory import Inventory
from scheduling.model.parameters import parameter
from scheduling.model.types import Floats, Ints
from scheduling.policies.learned_prices import LearnedPricePolicy, with_default
from scheduling.pricing.density import elastic_density
from scheduling.pricing.paper import OasisPaperRule
from scheduling.pricing.price_function import LARGEST_LOG
from scheduling.pricing.quantile import scarcity_of_resources
from scheduling.pricing.rule import PriceRule

SMALLEST_LOG = -1e6


@dataclass(frozen=True)
class Oasis(LearnedPricePolicy):
    """Posted prices, exponential in utilisation, and the elastic best response (OASiS, Algorithm 1).

    `scheduling.pricing.price_function` computes the price from L, U and the units in use; `price_rule` chooses L and U.
    docs/algorithms/oasis.md lists the deviations from the paper and their reasons.
    """

    worker_reserve_factor: float = with_default("worker_reserve_factor", 2.0)
    ps_reserve_factor: float = with_default("ps_reserve_factor", 0.5)
    near_share: float = with_default("near_share", 0.0625)
    sooner: float = with_default("sooner", 1e-5)
    model: str = parameter(
        "worker",
        "worker: a total number of worker-slots, solved exactly; chunk: whole data chunks in every slot, the paper's "
        "Algorithm 2, which rejects some jobs that fit.",
        choices=("worker", "chunk"),
    )
    log_low: tuple[float, ...] = parameter(
        (),
        "Paper prices: ln L of a unit of each resource, in order. Empty: from past bids.",
        low=SMALLEST_LOG,
        high=LARGEST_LOG,
    )
    log_high: tuple[float, ...] = parameter(
        (),
        "Paper prices: ln U of a unit of each resource, in order. Empty: from past bids.",
        low=SMALLEST_LOG,
        high=LARGEST_LOG,
    )

    name = "oasis"
    title = "OASiS: posted prices, machines that change in number every slot"

    def misfits(self) -> Iterator[InvalidField]:
        """Yield those of `LearnedPricePolicy`, and one for each bound of the paper's prices."""
        yield from super().misfits()
        if len(self.log_low) != len(self.log_high):
            yield InvalidField(
                "log_high", f"expected {len(self.log_low)} numbers, as in log_low, got {len(self.log_high)}"
            )
            return
        for r, (low, high) in enumerate(zip(self.log_low, self.log_high, strict=True)):
            if high < low:
                yield InvalidField(f"log_high[{r}]", f"expected at least log_low[{r}] = {low:g}, got {high:g}")

    @property
    def exact(self) -> bool:
        """Whether the granted schedule is optimal; it is not when training in whole chunks."""
        return self.model == "worker"

    @property
    def price_rule(self) -> PriceRule:
        """The rule that `price` names."""
        if self.price == "quantile":
            return self.quantile_rule(scarcity_of_resources, initial_for_all=True)
        if self.price == "fluid":
            return self.fluid_rule()
        return OasisPaperRule(self.log_low, self.log_high, self.learning, self.initial_low, self.initial_high)

    def kernel(self, ledger: Ledger, prices: PriceOf) -> Kernel:
        """Return the kernel for machines whose number may change every slot."""
        return ElasticKernel(ledger, prices) if self.model == "worker" else ChunkKernel(ledger, prices)

    def density(self, bid: Bid, inventory: Inventory, *, horizon: int) -> tuple[float, ...]:
        """Return the value per unit-slot of each resource that the bid offers, R numbers."""
        return elastic_density(bid, inventory, horizon=horizon)

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> AtPrices:
        """Return the terms of the dual bound at these prices; whole chunks never earn more than worker-slots."""
        return elastic_terms(inventory, prices, start=start)

    def check(self, inventory: Inventory) -> None:
        """Check that workers and PSs are on separate servers (Section III-A) and that there is a bound for each
        resource."""
        wrong = []
        both = (inventory.worker_demand.max(axis=0, initial=0) > 0) & (inventory.ps_demand.max(axis=0, initial=0) > 0)
        if both.any():
            shared = inventory.resources[int(np.flatnonzero(both)[0])]
            problem = f"expected workers and PSs apart, with their own resources, got {shared}, which both use"
            wrong.append(InvalidField("resources", problem))
        # A worker on the server of its PS needs no network. This model ignores that case and would promise too little.
        both = _hosts(inventory, inventory.worker_demand) & _hosts(inventory, inventory.ps_demand)
        if both.any():
            shared = inventory.servers[int(np.flatnonzero(both)[0])]
            problem = f"expected workers and PSs apart, on their own servers, got {shared}, which has room for both"
            wrong.append(InvalidField("servers", problem))
        if self.log_low and len(self.log_low) != len(inventory.resources):
            problem = f"expected {len(inventory.resources)} numbers, got {len(self.log_low)}"
            wrong.append(InvalidField("log_low", problem))
        refuse_all(wrong)


def _hosts(inventory: Inventory, demands: Ints) -> NDArray[np.bool_]:
    """Whether each server has room for a machine of any of these types."""
    fits = np.all(np.greater_equal(inventory.capacity[:, np.newaxis], demands), axis=2)
    return np.asarray(np.any(fits, axis=1))
