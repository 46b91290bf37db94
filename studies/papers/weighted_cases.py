"""Workloads of the weighted-completion paper, by scale."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from scheduling.model.bid import Architecture
from studies.papers.figure import Task
from studies.workloads.generated.weighted_completion import Setting, Workload, draw

FACTORS = (0.01, 1.0, 10_000.0)
"""Values of F, the greatest weight per unit of consumption over the least one."""


@lru_cache(maxsize=128)
def drawn(setting: Setting, seed: int) -> Workload:
    """The workload of a seed."""
    return draw(setting, np.random.default_rng(seed))


def setting_of(task: Task, architecture: Architecture = Architecture.PS) -> Setting:
    """Return the size of the system at the task's scale."""
    small = Setting(jobs=6, servers=6, slots=14, workers=3, parameter_servers=2)
    middle, full = Setting(jobs=30, servers=50, slots=100), Setting(jobs=100, servers=150, slots=300)
    return replace(task.pick(small, middle, full), architecture=architecture)
