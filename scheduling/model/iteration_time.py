"""Duration of a mini-batch, with parameter servers or in a ring (Ring-AllReduce); its inverse is a worker's rate.

`scheduling.model.progress` computes from it what a schedule has done. `scheduling.best_response.rigid.durations` has
the same formulas for every number of workers at once.
"""

from collections.abc import Iterable
from fractions import Fraction

from scheduling.model.bid import Architecture, Bid
from scheduling.model.schedule import Placement, Role


def iteration_time(bid: Bid, machines: Iterable[Placement]) -> Fraction | None:
    """Compute the exact number of slots in which every worker does one mini-batch.

    Parameters
    ----------
    machines
        All machines that the job holds at one time.

    Returns
    -------
    Fraction or None
        None if it cannot work: there is no worker, or no parameter server for a job that needs one.

    Notes
    -----
    The slowest machine sets the pace. With parameter servers it is `worker_time + ps_time`, plus `transfer_time` if the
    machines are on several servers (DPS, eq. 1). In a ring of N workers it is `worker_time + reduce_time (N - 1) / N`,
    plus `transfer_time (N - 1) / N` if they are on several servers (weighted completion, eq. 14).

    Examples
    --------
    >>> from scheduling.model.example import job
    >>> from scheduling.model.schedule import Placement, Role
    >>> workers, ps = Placement(0, 2, Role.WORKER, 0, 0, 2), Placement(0, 2, Role.PS, 1, 0, 1)
    >>> iteration_time(job(), [workers, ps])
    Fraction(1, 1)
    >>> iteration_time(job(), [workers]) is None
    True
    """
    held = tuple(machines)
    workers = [p for p in held if p.role is Role.WORKER]
    if not workers:
        return None
    spread = len({p.server for p in held}) > 1
    step = max(bid.worker_time[p.type] for p in workers)
    transfer = max(bid.transfer_time[p.type] for p in workers) if spread else Fraction(0)
    if bid.architecture is Architecture.RING:
        count = sum(p.count for p in workers)
        return step + (bid.reduce_time + transfer) * Fraction(count - 1, count)
    pss = [p for p in held if p.role is Role.PS]
    if not pss:
        return None
    return step + max(bid.ps_time[p.type] for p in pss) + transfer
