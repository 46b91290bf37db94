"""Traces to test with: samples of the project's own, in `tests/data/traces`, and published ones of a larger collection.

A test that takes the fixture `traces` runs on the samples, and again on the larger collection where it is there.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests import collection

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


@dataclass(frozen=True)
class Traces:
    """Files of one collection, by their kind."""

    root: Path
    philly_day: Path
    philly_week: Path
    philly_tenant: Path
    """One tenant over months."""
    gavel_few: Path
    """15 jobs as a physical cluster ran them."""
    gavel_steady: Path
    """Jobs as a physical cluster ran them, which arrive over hours."""
    gavel: tuple[Path, ...]
    """All of Gavel's jobs."""
    throughputs: Path
    shockwave: tuple[Path, ...]
    tiresias: Path
    """60 jobs."""
    nodes: Path
    """One line of Tiresias's nodes, of four GPUs each."""
    machines: Path
    """PAI's."""
    quotas: Path
    """Helios's."""
    placements: Path
    """Step times of BERT."""
    scalability: Path
    facts: Mapping[str, Mapping[str, Any]]
    """What is known of files by their paths: `records` and more, none of it found by a reader of this project."""

    @property
    def jobs(self) -> tuple[Path, ...]:
        """Every trace of jobs, all of whose lines are jobs."""
        philly = self.philly_day, self.philly_week, self.philly_tenant
        return (*philly, *self.gavel, *self.shockwave, self.tiresias)

    def of(self, path: Path) -> Mapping[str, Any]:
        """What is known of a file."""
        return self.facts[path.relative_to(self.root).as_posix()]


def _own() -> Traces:
    root = collection.OWN / "traces"
    gavel = {name: root / "gavel" / f"{name}.trace" for name in ("few", "steady", "drawn")}
    return Traces(
        root,
        philly_day=root / "philly/day.csv",
        philly_week=root / "philly/week.csv",
        philly_tenant=root / "philly/tenant.csv",
        gavel_few=gavel["few"],
        gavel_steady=gavel["steady"],
        gavel=tuple(gavel.values()),
        throughputs=root / "gavel/throughputs.json",
        shockwave=(root / "shockwave/dynamic.trace",),
        tiresias=root / "tiresias/jobs.csv",
        nodes=root / "tiresias/n8g4.csv",
        machines=root / "pai2020/machine_spec.csv",
        quotas=root / "helios/gpu_number.csv",
        placements=root / "sia/step_times/bert/placements.csv",
        scalability=root / "sia/step_times/bert/scalability.csv",
        facts=json.loads((root / "record.json").read_text()),
    )


OWN: Final = _own()
"""The project's samples: synthetic rows."""
PUBLISHED: Final[Mapping[str, Mapping[str, Any]]] = {
    "philly/philly_day_2017-10-12.csv": {
        "records": 3022, "gpu_seconds": 56_868_502, "longest_s": 1_083_118,
        "jobs_of_gpus": {"1": 2960, "2": 21, "4": 27, "8": 11, "16": 3},
    },
    "philly/philly_week_2017-10-09_15.csv": {
        "records": 12_751, "gpu_seconds": 275_207_802, "longest_s": 2_028_350,
        "jobs_of_gpus": {"1": 12_404, "2": 129, "4": 104, "8": 98, "16": 16},
    },
    "philly/philly_vc_ee9e8c.csv": {
        "records": 1511, "gpu_seconds": 922_003_842, "longest_s": 1_102_767, "jobs_of_tenants": {"ee9e8c": 1511},
    },
    "gavel/artifact_evaluation.trace": {"records": 15, "steps": 304_697, "models": 12},
    "gavel/max_min_fairness.trace": {"records": 96, "steps": 18_166_806, "models": 8, "last_submitted_s": 46_317},
    "gavel/minimize_makespan.trace": {"records": 100, "steps": 42_596_220, "models": 25},
    "gavel/msr_seed0_ee9e8c.trace": {
        "records": 2000, "steps": 9_875_481_880, "models": 26, "last_submitted_s": 4_508_448,
    },
    "shockwave/120_0.2_5_100_40_25_0,0.5,0.5_0.6,0.3,0.09,0.01_multigpu_dynamic.trace": {
        "records": 120, "steps": 24_328_903, "gpu_seconds": 711_371, "last_submitted_s": 5011,
        "jobs_of_modes": {"accordion": 59, "gns": 57, "static": 4},
    },
    "shockwave/220_0.2_5_100_25_4_0,0.5,0.5_0.6,0.3,0.09,0.01_multigpu_dynamic.trace": {
        "records": 220, "steps": 43_856_275, "gpu_seconds": 1_453_927, "last_submitted_s": 5956,
        "jobs_of_modes": {"accordion": 106, "gns": 107, "static": 7},
    },
    "tiresias/60_job.csv": {"records": 60, "gpu_seconds": 26_624, "steps": 85_790, "last_submitted_s": 1779},
    "tiresias/n32g4.csv": {"records": 1, "machines": 32, "gpus": 128},
    "pai2020/pai_machine_spec.csv": {
        "records": 1897, "machines": 1897, "gpus": 6742,
        "gpus_of_types": {"CPU": 0, "MISC": 2240, "P100": 1596, "T4": 994, "V100": 832, "V100M32": 1080},
    },
    "helios/Earth_gpu_number.csv": {
        "records": 181 * 25, "days": 181, "gpu_days": 180_576, "last_day": "2020-09-28", "gpus_of_last_day": 1208,
    },
}  # fmt: skip
"""What is known of the published files, counted with awk."""


def _larger() -> Traces | None:
    where = collection.larger()
    if where is None or not (where / "traces").is_dir():
        return None
    root = where / "traces"
    return Traces(
        root,
        philly_day=root / "philly/philly_day_2017-10-12.csv",
        philly_week=root / "philly/philly_week_2017-10-09_15.csv",
        philly_tenant=root / "philly/philly_vc_ee9e8c.csv",
        gavel_few=root / "gavel/artifact_evaluation.trace",
        gavel_steady=root / "gavel/max_min_fairness.trace",
        gavel=tuple(root / path for path in PUBLISHED if path.startswith("gavel/")),
        throughputs=root / "gavel/physical_cluster_throughputs.json",
        shockwave=tuple(root / path for path in PUBLISHED if path.startswith("shockwave/")),
        tiresias=root / "tiresias/60_job.csv",
        nodes=root / "tiresias/n32g4.csv",
        machines=root / "pai2020/pai_machine_spec.csv",
        quotas=root / "helios/Earth_gpu_number.csv",
        placements=root / "sia/step_times/bert/placements-aws.csv",
        scalability=root / "sia/step_times/bert/scalability-aws.csv",
        facts=PUBLISHED,
    )


LARGER: Final = _larger()
"""The larger collection, or None if there is none."""


def _params(*values: Any, name: str, of: Traces) -> "ParameterSet":
    own = of is OWN
    return pytest.param(
        *values, id=f"{'own' if own else collection.MARKER}{name}", marks=() if own else pytest.mark.collection
    )


def _there() -> Iterator[Traces]:
    yield OWN
    if LARGER is not None:
        yield LARGER


def each() -> "list[ParameterSet]":
    """The project's samples, and the larger collection where it is there."""
    return [_params(one, name="", of=one) for one in _there()]


def files_of(choose: Callable[[Traces], Iterable[Path]]) -> "list[ParameterSet]":
    """A collection and a file of it, for each file that `choose` names."""
    return [
        _params(one, path, name=f"-{path.parent.name}-{path.stem[:20]}", of=one)
        for one in _there()
        for path in choose(one)
    ]
