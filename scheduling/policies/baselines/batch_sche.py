"""BatchSche: the interval scheduler, as used for comparison in the preemptive edge-cloud paper."""

from dataclasses import dataclass

from scheduling.model.parameters import parameter
from scheduling.policies.weighted_completion import WeightedCompletion


@dataclass(frozen=True)
class BatchSche(WeightedCompletion):
    """Jobs are collected until the end of an interval and run as one batch, smallest jobs first.

    It is `weighted_completion` in interval mode (`interval`: A_online over A_dual over A_maxweight), where all
    jobs have the same weight, as in the mean JCT: the order is by the least share of the cluster x slots that a job
    needs. Everything else is the same; the parameters are separate.

    References
    ----------
    Preemptive edge-cloud paper, Section V (BatchSche); weighted completion, Algorithms 1 to 3.
    """

    mode: str = parameter("interval", "Jobs are planned in batches at the ends of intervals.", choices=("interval",))
    order: str = parameter("size", "The least share of the cluster x slots first.", choices=("size",))

    name = "batch_sche"
    title = "BatchSche: jobs run in batches at the ends of intervals, the smallest first, nobody pays"
