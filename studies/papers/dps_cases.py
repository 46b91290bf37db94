"""A network, its jobs and the schemes that the DPS paper compares."""

from dataclasses import dataclass, replace

import numpy as np

from scheduling.model.bid import Bid
from scheduling.policies.base import Policy
from scheduling.policies.baselines.drf import Drf
from scheduling.policies.baselines.fifo import Fifo
from scheduling.policies.baselines.gang import Gang
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.whole_gangs import whole_gang
from scheduling.policies.dps import Dps
from studies.papers.inputs import drew, remembered
from studies.papers.runs import Ran, by_end, run
from studies.workloads.generated.dps import Setting, draw, draw_bid
from studies.workloads.generated.system import Workload

PAPER_PRICES, QUANTILE, FIFO, DRF = "DPS", "DPS, quantile prices", "FIFO", "DRF"
SCHEMES = (PAPER_PRICES, QUANTILE, FIFO, DRF)


@dataclass(frozen=True)
class WholeFifo(Fifo):
    """FIFO whose jobs have as many workers as they have chunks."""

    def gang(self, bid: Bid, floor: PassState) -> Gang | None:
        """The job's gang; None if it is impossible."""
        return whole_gang(bid, floor)


@dataclass(frozen=True)
class Case:
    """A part of a network, and some of its jobs: figures that vary one of them keep the rest as it is."""

    whole: Setting
    servers: int
    jobs: int
    cloud: int = 1
    """Factor by which the cloud is smaller than the paper's."""


@remembered(128)
def drawn(case: Case, seed: int) -> tuple[Dps, Workload]:
    """Paper prices of an earlier time, and a workload whose jobs are worth nothing after the end."""
    rng = np.random.default_rng(seed)
    setting = case.whole
    work = draw(setting, rng)
    earlier = [draw_bid(setting, work.inventory, rng, name=str(i), arrival=0) for i in range(setting.jobs)]
    kept = np.sort(rng.permutation(setting.jobs)[: case.jobs]).tolist()
    there = [*range(case.servers), setting.servers]
    capacity = work.inventory.capacity[there]
    capacity[-1] //= case.cloud
    inventory = replace(
        work.inventory,
        servers=tuple(work.inventory.servers[s] for s in there),
        cloud=tuple(work.inventory.cloud[s] for s in there),
        capacity=capacity,
    )
    bids = [replace(bid, delay=tuple(bid.delay[s] for s in there)) for bid in (work.bids[i] for i in kept)]
    past = [replace(bid, delay=tuple(bid.delay[s] for s in there)) for bid in earlier]
    eta_worker, eta_ps = Dps().paper_etas(past, inventory, end=setting.slots)
    printed = Dps(price="paper", eta_worker=eta_worker, eta_ps=eta_ps)
    return printed, drew(Workload(inventory, by_end(bids, setting.slots)))


@remembered(1024)
def ran(name: str, case: Case, seed: int) -> Ran:
    """Run a scheme and return its result."""
    printed, work = drawn(case, seed)
    schemes: dict[str, Policy] = {PAPER_PRICES: printed, QUANTILE: Dps(), FIFO: WholeFifo(), DRF: Drf()}
    slots = case.whole.slots
    return run(schemes[name], work.bids, work.inventory, slots=slots, until=slots)
