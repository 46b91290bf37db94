"""`benchmarks.against_baselines --drf` compares with DRF, and with jobs that each have the whole cluster."""

import numpy as np
import pytest

from benchmarks import against_baselines
from benchmarks.against_baselines import DRF_ROWS, alone, drf_ratios, drf_table
from studies.papers.weighted_completion_comparison import horizon
from studies.workloads.generated.weighted_completion import Setting, draw

SETTINGS = (Setting(jobs=6, servers=8, slots=20), Setting(jobs=8, servers=6, slots=8))


def test_no_plan_of_gangs_that_keep_their_machines_is_below_jobs_alone() -> None:
    for setting in SETTINGS:
        work = draw(setting, np.random.default_rng(1))
        ratios = dict(zip(DRF_ROWS, drf_ratios(work), strict=True))
        assert (ratios["alone"] <= ratios["search"] + 1e-12).all()
        slots = horizon(work)
        assert all(alone(work, slots)[bid.id] > bid.arrival + min(bid.delay) for bid in work.bids)


def test_it_counts_the_settings_in_which_each_is_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against_baselines, "SETTINGS", SETTINGS)
    ratios = np.array([[0.9, 1.1], [0.8, 1.0], [0.7, 0.9]])
    found = iter([ratios, ratios + 0.02, ratios, ratios + 0.4, ratios])
    monkeypatch.setattr(against_baselines, "drf_ratios", lambda work: next(found))
    _, _, *lines = drf_table(range(1, 3), scale=1, burst=1)
    rows, (placed, fluid, *_) = lines[: -2 * len(DRF_ROWS)], lines[-2 * len(DRF_ROWS) :]
    assert len(rows) == len(SETTINGS) * len(DRF_ROWS)
    assert rows[0].split()[4:] == ["search", "0.910", "+-", "0.127", "1.110", "+-", "0.127"]
    assert placed == "search: ahead of drf placed in 1 of 2 settings, with the whole interval in 0"
    assert fluid == "search: ahead of drf fluid in 0 of 2 settings, with the whole interval in 0"
    with pytest.raises(SystemExit, match="expected at least two seeds, got one"):
        list(drf_table(range(1, 2), scale=1, burst=1))
