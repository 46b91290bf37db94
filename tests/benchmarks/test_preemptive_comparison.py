"""`benchmarks.preemptive_comparison` judges the rule that the preemptive policy has by default."""

import re

import numpy as np
import pytest

from benchmarks import preemptive_comparison
from benchmarks.preemptive_comparison import compared, table
from scheduling.policies.preemptive import Preemptive
from studies.papers.preemptive_comparison import SCHEDULERS
from studies.workloads.generated.preemptive import Setting, draw

SETTINGS = (Setting(jobs=12, servers=60, span=60), Setting(jobs=30, servers=20, span=20))


def test_the_default_rule_is_judged_against_all_others() -> None:
    assert compared()[0] == Preemptive().cloud
    assert sorted(compared()) == sorted(SCHEDULERS)
    assert compared(["jobmax", "cloud"]) == [Preemptive().cloud, "jobmax", "cloud"]


def test_it_counts_the_settings_in_which_the_judged_rule_is_no_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemptive_comparison, "SETTINGS", SETTINGS)
    names = ["paper", "jobmax", "cloud"]
    head, *rows, over_jobmax, over_cloud = table(range(1, 3), names)
    assert head.split() == ["jobs", "servers", "span", *names]
    times = []
    for setting, row in zip(SETTINGS, rows, strict=True):
        drawn = [draw(setting, np.random.default_rng(seed)) for seed in (1, 2)]
        times.append([np.mean([SCHEDULERS[name](work).mean_time(work) for work in drawn]) for name in names])
        assert row.split()[3:] == [f"{mean:.1f}" for mean in times[-1]]
    assert [[bool(row[0] <= row[i]) for i in (1, 2)] for row in times] == [[False, True], [False, False]]
    for i, line in ((1, over_jobmax), (2, over_cloud)):
        better = sum(bool(row[0] <= row[i]) for row in times)
        assert line.startswith(f"paper no worse than {names[i]} in {better} of 2")
        assert len(re.findall(r"span [0-9]+: \+", line)) == 2 - better
