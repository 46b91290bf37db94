"""Profiles of a mini-batch: measured times if a trace or its publishers state them, else declared ones."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from cluster.traces.gavel import Throughputs, of_one_gpu
from cluster.traces.records import Record, StepTime, Throughput
from cluster.units import exact
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json


@dataclass(frozen=True)
class Profile:
    """The times of one mini-batch of a model, seconds, exact."""

    step_s: Fraction
    """Computing time on a worker of any type that `by_type` does not name."""
    sync_s: Fraction = Fraction(0)
    """Time to update parameters at a parameter server, or to reduce them around a large ring."""
    gradient_mb: Fraction = Fraction(0)
    """Data to transfer if a job's machines are on more than one server; 0 if `sync_s` includes the transfer."""
    by_type: Mapping[str, Fraction] = field(default_factory=dict)
    """Computing time by worker type in lower case, as traces write both `v100` and `V100`."""

    def __post_init__(self) -> None:
        for name in ("step_s", "sync_s", "gradient_mb"):
            if getattr(self, name) < 0 or (name == "step_s" and self.step_s == 0):
                raise InvalidField(name, f"expected more than 0, got {getattr(self, name)}")


MOST_COUNTS = 200
"""Largest number of GPU counts with step times in a file; Sia's files have at most 16."""
DECLARED = Profile(step_s=Fraction(1, 2), sync_s=Fraction(1, 50))
"""Profile of traces without models. Only the ratio to the run time matters, and 0.52 s is far below a slot."""


def measured_profiles(throughputs: Throughputs, *, reference: str) -> dict[str, Profile]:
    """Build profiles from Gavel's throughputs at one GPU: tau = 1 / throughput; `reference` is the GPU of other types.

    Models that do not fit the reference GPU's memory have no profile.

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
        model: Profile(step, by_type={gpu.casefold(): rows[model] for gpu, rows in steps.items() if model in rows})
        for model, step in steps[reference].items()
    }


@dataclass(frozen=True)
class StepTimes:
    """Measured step times that belong to a trace, as documents store them."""

    throughputs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Mini-batches a second on one GPU, by GPU type and model (Gavel)."""
    steps: tuple[tuple[int, float, float], ...] = ()
    """Rows for one model without a name: GPUs, seconds of a mini-batch, and seconds of its synchronisation (Sia)."""

    @classmethod
    def of(cls, rows: Sequence[Record], *, batch: int | None = None) -> "StepTimes":
        """Read a file's records; Sia's at the batch size nearest to `batch`, by default the largest measured one.

        Raises
        ------
        InvalidField
            If `batch` is given for a table in which each model has its own, or there are more than MOST_COUNTS.
        """
        steps = [row for row in rows if isinstance(row, StepTime)]
        if batch is not None and not steps:
            raise InvalidField(
                "batch", "expected no batch with throughputs, whose models have their own batch sizes, got one"
            )
        rates: dict[str, dict[str, float]] = {}
        for row in rows:
            if isinstance(row, Throughput) and row.gpus == 1:
                rates.setdefault(row.gpu_type, {})[row.model] = row.per_s
        largest = max((row.batch for row in steps), default=1) if batch is None else batch
        alike: dict[int, list[StepTime]] = {}
        for row in steps:
            alike.setdefault(sum(row.placement), []).append(row)
        if len(alike) > MOST_COUNTS:
            raise InvalidField("step_times", f"expected at most {MOST_COUNTS} numbers of GPUs, got {len(alike):,}")
        best = [(gpus, nearest(some, gpus=gpus, batch=largest)) for gpus, some in sorted(alike.items())]
        return cls(rates, tuple((gpus, row.step_s, row.sync_s) for gpus, row in best))

    def by_model(self, reference: str) -> dict[str, Profile]:
        """Return the profiles of the models in `throughputs`; raises InvalidField as `measured_profiles` does."""
        return measured_profiles(of_one_gpu(self.throughputs), reference=reference) if self.throughputs else {}

    def by_gpus(self) -> dict[int, Profile]:
        """Return the profiles of the one model by the number of GPUs."""
        return {gpus: Profile(exact(step) - exact(sync), exact(sync)) for gpus, step, sync in self.steps}

    def to_json(self) -> Json:
        """Return a document that `from_json` can read."""
        return {"throughputs": {gpu: dict(rows) for gpu, rows in self.throughputs.items()},
                "steps": [list(row) for row in self.steps]}  # fmt: skip

    @classmethod
    def from_json(cls, document: Json) -> "StepTimes":
        """Read the output of `to_json`."""
        return cls(document["throughputs"], tuple((gpus, step, sync) for gpus, step, sync in document["steps"]))


def nearest(measured: Iterable[StepTime], *, gpus: int, batch: int) -> StepTime:
    """Return the measurement nearest in number of GPUs, then in batch size.

    Distances are those of the logarithms; of equals the one on fewest nodes, then the first line.

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
        raise InvalidField("measured", "expected at least one measured step, got none")
    return best
