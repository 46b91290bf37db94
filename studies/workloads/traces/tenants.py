"""Tenants of jobs for traces without tenants: they are drawn by the quotas of another trace."""

from collections.abc import Mapping, Sequence

import numpy as np

from cluster.traces.records import Quota, TraceJob
from scheduling.model.errors import InvalidField


def shares_of(quotas: Sequence[Quota]) -> dict[str, int]:
    """Return the GPU-days of each tenant over all days of a file, for tenants with any.

    Raises
    ------
    InvalidField
        If no tenant had any.
    """
    shares: dict[str, int] = {}
    for row in quotas:
        shares[row.tenant] = shares.get(row.tenant, 0) + row.gpus
    shares = {tenant: gpus for tenant, gpus in shares.items() if gpus}
    if not shares:
        raise InvalidField("quotas", "expected at least one tenant with GPUs, got none")
    return shares


def tenants_of(jobs: Sequence[TraceJob], shares: Mapping[str, int], rng: np.random.Generator) -> list[str]:
    """Return each job's own tenant, or, if there are shares, one drawn in proportion to them.

    The quotas belong to other days than the trace, so a tenant's share is its share of all days. Draws come from a
    child generator: values and targets are the same with and without quotas.
    """
    if not shares:
        return [job.tenant for job in jobs]
    names = sorted(shares)  # a database may return them in another order
    weights = np.array([shares[name] for name in names], dtype=np.float64)
    drawn = rng.spawn(1)[0].choice(len(weights), size=len(jobs), p=weights / weights.sum())
    return [names[k] for k in drawn.tolist()]
