"""OASiS: online scheduling of jobs whose workers and parameter servers may change in number every slot."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduling.best_response.at_prices import AtPrices, elastic_terms
from scheduling.best_response.base import Kernel, PriceOf
from scheduling.best_response.chunked import ChunkKernel
from scheduling.best_response.elastic.kernel import ElasticKernel
from scheduling.book.ledger import Ledger
from scheduling.book.state import HISTORY, Book
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.parameters import parameter
from scheduling.model.types import Floats, Ints
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.pricing.density import elastic_density
from scheduling.pricing.fluid import fluid_prices
from scheduling.pricing.paper import Bounds, pool_of
from scheduling.pricing.price_function import LARGEST_LOG, PriceFunction
from scheduling.pricing.quantile import check_learning, learned_prices, past, scarcity_of_resources

SMALLEST_LOG = -1e6


@dataclass(frozen=True)
class Oasis(PostedPricePolicy):
    """Posted prices, exponential in utilisation, and the elastic best response (OASiS, Algorithm 1).

    docs/algorithms/oasis.md lists the deviations from the paper and their reasons, and how the defaults were chosen.
    """

    price: str = parameter(
        "learned",
        "learned: a reserve price from quantiles of past bids; fluid: what the last unit-slot would earn if recent "
        "bids could be poured; printed: L (U/L)^(share in use), as in the paper.",
        choices=("learned", "fluid", "printed"),
    )
    model: str = parameter(
        "worker",
        "worker: so many worker-slots in all, solved exactly; chunk: whole data chunks in every slot, the paper's "
        "Algorithm 2, which turns away jobs that fit.",
        choices=("worker", "chunk"),
    )
    log_low: tuple[float, ...] = parameter(
        (),
        "Printed prices: ln L of a unit of each resource, in order. Empty: from past bids.",
        low=SMALLEST_LOG,
        high=LARGEST_LOG,
    )
    log_high: tuple[float, ...] = parameter(
        (),
        "Printed prices: ln U of a unit of each resource, in order. Empty: from past bids.",
        low=SMALLEST_LOG,
        high=LARGEST_LOG,
    )
    reserve_quantile: float = parameter(
        0.5,
        "Learned prices: quantile of past values per unit-slot from which the reserve price is taken.",
        low=0.0,
        high=1.0,
    )
    worker_share: float = parameter(
        2.0,
        "Learned prices: times that quantile asked for what workers take, once it is sold out in the near horizon.",
        low=1e-6,
        high=100.0,
    )
    ps_share: float = parameter(0.5, "Learned prices: the same for what parameter servers take.", low=1e-6, high=100.0)
    full_quantile: float = parameter(
        0.95, "Learned prices: quantile of past values per unit-slot reached when a server is full.", low=0.0, high=1.0
    )
    fluid_fill: float = parameter(
        0.7, "Fluid prices: share of all capacity that jobs, which cannot be poured, will fill.", low=0.01, high=1.0
    )
    refit_every: int = parameter(
        8,
        "Prices from past bids: bids between two looks at the past; prices keep their parameters between.",
        low=1,
        high=HISTORY // 2,
    )
    prior_low: float = parameter(
        0.001,
        "Price of all there is of a resource, idle, until bids of four owners were decided, money per slot.",
        low=1e-9,
        high=1e9,
    )
    prior_high: float = parameter(1.0, "The same of a resource that is full, money per slot.", low=1e-9, high=1e9)

    name = "oasis"
    title = "OASiS: posted prices, machines that change in number every slot"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_learning(self)
        if len(self.log_low) != len(self.log_high):
            raise InvalidField("log_high", f"expected {len(self.log_low)} numbers, as many as log_low has")
        for r, (low, high) in enumerate(zip(self.log_low, self.log_high, strict=True)):
            if high < low:
                raise InvalidField(f"log_high[{r}]", f"expected at least log_low[{r}] = {low:g}, got {high:g}")

    @property
    def exact(self) -> bool:
        """Whether the granted schedule is optimal; it is not when training in whole chunks."""
        return self.model == "worker"

    def kernel(self, ledger: Ledger, prices: PriceOf) -> Kernel:
        """Return the kernel for machines whose number may change every slot."""
        return ElasticKernel(ledger, prices) if self.model == "worker" else ChunkKernel(ledger, prices)

    def density(self, bid: Bid, inventory: Inventory, *, horizon: int) -> tuple[float, ...]:
        """Return the value per unit-slot of each resource that the bid offers, R numbers."""
        return elastic_density(bid, inventory, horizon=horizon)

    def check(self, inventory: Inventory) -> None:
        """Check that workers and PSs are on separate servers (Section III-A) and that there is a bound for each
        resource."""
        both = (inventory.worker_demand.max(axis=0, initial=0) > 0) & (inventory.ps_demand.max(axis=0, initial=0) > 0)
        if both.any():
            shared = inventory.resources[int(np.flatnonzero(both)[0])]
            raise InvalidField("resources", f"OASiS keeps workers and PSs apart, but both ask for {shared}")
        # A worker on the server of its PS needs no network. This model ignores that case and would promise too little.
        both = _hosts(inventory, inventory.worker_demand) & _hosts(inventory, inventory.ps_demand)
        if both.any():
            shared = inventory.servers[int(np.flatnonzero(both)[0])]
            raise InvalidField("servers", f"OASiS keeps workers and PSs apart, but {shared} has room for both")
        if self.log_low and len(self.log_low) != len(inventory.resources):
            raise InvalidField("log_low", f"expected {len(inventory.resources)} numbers, got {len(self.log_low)}")

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> AtPrices:
        """Return the terms of the dual bound at these prices; whole chunks never earn more than worker-slots."""
        return elastic_terms(inventory, prices, start=start)

    def price_function(self, book: Book) -> PriceFunction:
        """Return the current price function, from given bounds or from bids decided before the last refit."""
        if self.price == "fluid":
            return fluid_prices(self, book)
        if self.price == "learned":
            total = np.maximum(1, book.inventory.capacity.sum(axis=0)).tolist()
            return learned_prices(self, book, scarcity=scarcity_of_resources(book), units=total)
        self.check(book.inventory)
        if self.log_low:
            return Bounds(self.log_low, self.log_high).price_function()
        return self._from_past(book).price_function()

    def _from_past(self, book: Book) -> Bounds:
        """Estimate (23)-(26) from receipts, which contain a bid's value per unit-slot but not its whole utility.

        U is the largest offer for a unit-slot. L is a quarter of the smallest offer of one bid for an equal share of
        every
        resource that it uses. eta is 1.
        """
        inventory, rows = book.inventory, past(self, book)
        total = inventory.capacity.sum(axis=0)
        for_workers = np.array(pool_of(inventory))
        low, high = (np.log(prior / np.maximum(1, total)) for prior in (self.prior_low, self.prior_high))
        for mine in (for_workers, ~for_workers):
            offers, units = rows[:, mine], total[mine]
            asked = (offers > 0) & (units > 0)
            shares = np.divide(1.0, offers * units, out=np.zeros(offers.shape), where=asked).sum(axis=1)
            if shares.any():
                low[mine] = -np.log(4.0 * shares.max()) - np.log(np.maximum(units, 1))
                most = offers.max(axis=0)
                high[mine] = np.maximum(np.log(most, out=low[mine], where=most > 0), low[mine])
        return Bounds(tuple(low.tolist()), tuple(high.tolist()))


def _hosts(inventory: Inventory, demands: Ints) -> NDArray[np.bool_]:
    """Whether each server has room for a machine of any of these types."""
    fits = np.all(np.greater_equal(inventory.capacity[:, np.newaxis], demands), axis=2)
    return np.asarray(np.any(fits, axis=1))
