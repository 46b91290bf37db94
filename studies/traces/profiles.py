"""How long a mini-batch takes: measured where a trace or its publishers say, declared where nobody does."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from cluster.traces.gavel import Throughputs
from cluster.traces.records import StepTime
from cluster.units import MBIT_PER_MB, exact
from scheduling.errors import InvalidField


@dataclass(frozen=True)
class Profile:
    """Times of one mini-batch of a model, seconds, exact."""

    step_s: Fraction
    """Computing, on a worker of any type that `by_type` does not name."""
    sync_s: Fraction = Fraction(0)
    """Updating parameters at a parameter server, or reducing them around a ring of many."""
    gradient_mb: Fraction = Fraction(0)
    """What moves where a job's machines are on more than one server; 0 where `sync_s` has all of it."""
    by_type: Mapping[str, Fraction] = field(default_factory=dict)
    """Computing, by the name of the worker type."""

    def __post_init__(self) -> None:
        for name in ("step_s", "sync_s", "gradient_mb"):
            if getattr(self, name) < 0 or (name == "step_s" and self.step_s == 0):
                raise InvalidField(name, f"expected more than 0, got {getattr(self, name)}")


DECLARED = Profile(step_s=Fraction(1, 2), sync_s=Fraction(1, 50))
"""For traces that name no model. Only the ratio to the run time matters, and 0.52 s is far below a slot."""


def measured_profiles(throughputs: Throughputs, *, reference: str) -> dict[str, Profile]:
    """Profiles from Gavel's throughputs at one GPU: tau = 1 / throughput; `reference` is the GPU of other types.

    Models that do not fit the reference GPU's memory have none.

    Raises
    ------
    InvalidField
        If no such GPU was measured.
    """
    if reference not in throughputs:
        raise InvalidField("reference", f"expected one of {', '.join(sorted(throughputs))}, got {reference!r}")
    steps = {
        gpu: {model: 1 / exact(rate) for (model, gpus), rate in rows.items() if gpus == 1 and rate > 0}
        for gpu, rows in throughputs.items()
    }
    return {
        model: Profile(step, by_type={gpu: rows[model] for gpu, rows in steps.items() if model in rows})
        for model, step in steps[reference].items()
    }


def nearest_profile(measured: Iterable[StepTime], *, gpus: int, batch: int, link_mbps: float | None = None) -> Profile:
    """The profile of the measurement nearest in number of GPUs, then in batch size: tau = step - sync.

    Nearness is that of the logarithms; of equals the one on fewest nodes, then the first line. With `link_mbps` what
    synchronisation moves is a size, sync x bandwidth, and so free where all machines are on one server.

    Raises
    ------
    InvalidField
        If nothing was measured.
    """

    def distance(one: StepTime) -> tuple[float, float, int, int]:
        apart = abs(math.log(sum(one.placement) / gpus)), abs(math.log(one.batch / batch))
        return *apart, len(one.placement), one.line

    best = min(measured, key=distance, default=None)
    if best is None:
        raise InvalidField("measured", "expected at least one measured step")
    step, sync = exact(best.step_s), exact(best.sync_s)
    if link_mbps is None:
        return Profile(step - sync, sync)
    # Gradients are pushed and parameters pulled: each way takes half of it.
    return Profile(step - sync, gradient_mb=sync * exact(link_mbps) / (2 * MBIT_PER_MB))
