"""Synthetic rows in the format of Philly's CSV slices: what benchmarks replay where no trace is named.

Numbers of jobs, of tenants and of GPUs, hours of arrival and quantiles of run times are near those of the published day
of 2017-10-12 and of the week around it (docs/users/traces.md says how to get them); no row is one of theirs.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from math import exp, log
from typing import Final

import numpy as np

HEADING = "timestamp,duration,num_gpus,gpu_time,cluster"
P90: Final = 1.2815515655446004
"""The 0.9 quantile of the standard normal distribution."""
HOURS = (5, 5, 1, 1, 1, 2, 7, 13, 12, 7, 6, 4, 6, 1, 1, 1, 1, 3, 1, 1, 5, 6, 4, 12)
"""Relative number of jobs that are submitted in each hour of a day."""


@dataclass(frozen=True)
class Job:
    """One row."""

    submitted: datetime
    duration_s: int
    gpus: int
    tenant: str

    @property
    def row(self) -> str:
        """The row as a line, without its end."""
        return f"{self.submitted},{self.duration_s:.1f},{self.gpus},{self.gpus * self.duration_s:.1f},{self.tenant}"


@dataclass(frozen=True)
class Tenant:
    """A tenant whose jobs have log-normal run times with this median and this 0.9 quantile."""

    name: str
    share: float
    """Share of the jobs, relative to the other tenants."""
    median_s: float
    p90_s: float
    gpus: Mapping[int, int]
    """Relative number of its jobs by their number of GPUs."""


@dataclass(frozen=True)
class Slice:
    """The settings from which a slice of a trace is drawn."""

    begin: datetime
    days: int
    jobs: int
    longest_s: int
    """Longest run time; longer ones are cut to this."""
    tenants: Sequence[Tenant]
    seed: int = 0
    """Seed of the benchmarks."""


DAY = Slice(
    datetime.fromisoformat("2017-10-12"),
    days=1,
    jobs=3022,
    seed=4,
    longest_s=1_083_000,
    tenants=(
        Tenant("vc0001", 0.888, 4500, 9600, {1: 1}),
        Tenant("vc0002", 0.044, 1500, 60_000, {1: 90, 2: 1, 4: 8, 8: 1}),
        Tenant("vc0003", 0.043, 1300, 9200, {1: 88, 2: 12}),
        Tenant("vc0004", 0.006, 600, 37_000, {1: 78, 4: 22}),
        Tenant("vc0005", 0.006, 31_000, 260_000, {1: 24, 4: 58, 8: 18}),
        Tenant("vc0006", 0.005, 60_000, 270_000, {1: 27, 2: 27, 4: 6, 8: 20, 16: 20}),
        Tenant("vc0007", 0.005, 69_000, 75_000, {1: 1}),
        Tenant("vc0008", 0.002, 14_000, 45_000, {1: 86, 4: 14}),
        Tenant("vc0009", 0.001, 100_000, 216_000, {1: 40, 8: 60}),
    ),
)
WEEK = Slice(
    datetime.fromisoformat("2017-10-09"),
    days=7,
    jobs=12_751,
    seed=3,
    longest_s=2_028_000,
    tenants=(
        Tenant("vc0001", 0.801, 2600, 5400, {1: 1}),
        Tenant("vc0003", 0.133, 150, 5000, {1: 93, 2: 7}),
        Tenant("vc0002", 0.032, 6000, 78_000, {1: 87, 4: 7, 8: 6}),
        Tenant("vc0004", 0.012, 600, 31_000, {1: 83, 2: 1, 4: 16}),
        Tenant("vc0006", 0.008, 58_000, 264_000, {1: 35, 2: 9, 4: 9, 8: 38, 16: 9}),
        Tenant("vc0007", 0.005, 70_000, 86_000, {1: 1}),
        Tenant("vc0005", 0.004, 90_000, 590_000, {1: 17, 4: 63, 8: 20}),
        Tenant("vc0008", 0.003, 31_000, 97_000, {1: 70, 4: 22, 8: 8}),
        Tenant("vc0009", 0.002, 180_000, 319_000, {1: 15, 8: 85}),
    ),
)


def draw_jobs(cut: Slice, rng: np.random.Generator) -> list[Job]:
    """Jobs in order of submission; the same generator gives the same jobs."""
    moments = sorted(_moment(cut, rng) for _ in range(cut.jobs))
    return [_job(cut, at, rng) for at in moments]


def text_of(jobs: Sequence[Job]) -> str:
    """A file of them."""
    return "".join(f"{line}\n" for line in (HEADING, *(job.row for job in jobs)))


def _moment(cut: Slice, rng: np.random.Generator) -> datetime:
    day, hour, second = int(rng.integers(cut.days)), _choice(HOURS, rng), int(rng.integers(3600))
    return cut.begin + timedelta(days=day, hours=hour, seconds=second)


def _job(cut: Slice, submitted: datetime, rng: np.random.Generator) -> Job:
    tenant = cut.tenants[_choice([one.share for one in cut.tenants], rng)]
    spread = log(tenant.p90_s / tenant.median_s) / P90
    duration_s = round(tenant.median_s * exp(spread * float(rng.standard_normal())))
    gpus = list(tenant.gpus)[_choice(list(tenant.gpus.values()), rng)]
    return Job(submitted, min(max(duration_s, 1), cut.longest_s), gpus, tenant.name)


def _choice(weights: Sequence[float], rng: np.random.Generator) -> int:
    """An index, in proportion to the weights."""
    edges = list(accumulate(weights))
    return bisect_right(edges, float(rng.random()) * edges[-1])
