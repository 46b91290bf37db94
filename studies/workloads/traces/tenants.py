"""Whose jobs they are, where a trace does not say: tenants drawn by the quotas that another trace has of its own."""

from collections.abc import Mapping, Sequence

import numpy as np

from cluster.traces.records import Quota, TraceJob
from scheduling.model.errors import InvalidField


def shares_of(quotas: Sequence[Quota]) -> dict[str, int]:
    """GPU-days of each tenant over all days of a file, of those that had any.

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
        raise InvalidField("quotas", "expected at least one tenant with GPUs")
    return shares


def tenants_of(jobs: Sequence[TraceJob], shares: Mapping[str, int], rng: np.random.Generator) -> list[str]:
    """Each job's own, or where there are shares one drawn in proportion to them.

    The days of another cluster's quotas are not those of the trace, so that a tenant's share is that of all days. Draws
    come from a child of the generator: values and targets are the same with quotas and without.
    """
    if not shares:
        return [job.tenant for job in jobs]
    names = sorted(shares)  # a database may give them back in another order
    weights = np.array([shares[name] for name in names], dtype=np.float64)
    drawn = rng.spawn(1)[0].choice(len(weights), size=len(jobs), p=weights / weights.sum())
    return [names[k] for k in drawn.tolist()]
