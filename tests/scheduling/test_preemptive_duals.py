"""Flow, dual variables and both competitive ratios: as instances expect them, and bounds that nothing is below."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.preemptive_quality import draw, draw_near
from scheduling.instances.preemptive import read_preemptive
from scheduling.preemptive.bounds import TooLarge, least
from scheduling.preemptive.duals import Flow, Played, duals, flow, play
from tests.data.make.preemptive import random_instance
from tests.draws import fresh_seed, rounds
from tests.scheduling.cases import load, preemptive_cases
from tests.scheduling.twins.documents import preemptive as twin
from tests.scheduling.twins.preemptive_exact import simulate

DRAWN = rounds(8)
each_case = pytest.mark.parametrize("path", preemptive_cases())
BOUNDED = preemptive_cases(keep=lambda path: load(path)["expected"].get("lower_bound") is not None)


def played(document: dict[str, Any], rule: str = "paper", speed: Fraction = Fraction(1)) -> Played:
    """Times count in units of the instance; a tick is such a part of one that chunks take whole ticks."""
    instance = read_preemptive(document)
    return play(instance.bids, instance.inventory, rule=rule, ticks=speed.numerator, speed=speed)


@each_case
def test_flow_is_the_expected_one(path: Path) -> None:
    document = load(path)
    expected, found = document["expected"]["event_paper"], flow(played(document))
    unit = read_preemptive(document).scale
    assert found.fractional / unit == Fraction(expected["frac_flow"])
    assert found.chunks / unit == Fraction(expected["avg_chunk_flow"])
    assert found.jobs / unit == Fraction(expected["total_jct"])


@each_case
def test_lemma_2_fails_where_it_is_expected(path: Path) -> None:
    document = load(path)
    instance = read_preemptive(document)
    found = {
        (instance.ids[int(b.job[1:])], instance.number(b.worker), b.at / instance.scale, b.limit / instance.scale)
        for b in duals(played(document)).broken
    }
    expected = document["expected"]
    if "dual_violations" in expected:
        rows = [(job, worker, at, limit) for job, worker, at, _, limit in expected["dual_violations"]]
        assert found == {(job, worker, Fraction(at), Fraction(limit)) for job, worker, at, limit in rows}
        return
    texts = [row.strip("()").replace("'", "").split(", ") for row in expected["dual_violations_lemma2"]]
    first = {(int(job), int(worker), Fraction(at), Fraction(limit)) for job, worker, at, _, limit in texts}
    # These files list two at most.
    assert first <= found
    assert len(first) == min(2, len(found))


def test_flow_duals_and_bounds_of_fresh_instances_are_those_of_slow_twins() -> None:
    first = fresh_seed()
    for seed in range(first, first + DRAWN):
        document = random_instance(seed)
        instance, run, outcome = read_preemptive(document), played(document), simulate(document, "paper")
        assert twin.flow(document, outcome) == twin.Flow(flow(run).fractional, flow(run).chunks), f"seed {seed}"
        broken = {(instance.ids[int(b.job[1:])], instance.number(b.worker), b.at, b.limit) for b in duals(run).broken}
        rows = twin.broken_duals(document, outcome)
        assert broken == {(job, worker, at, limit) for job, worker, at, _, limit in rows}, f"seed {seed}"
        bound = least(instance.bids, instance.inventory, step=1.0, ticks=1, whole=True, alone=True).jct
        assert bound == pytest.approx(twin.lower_bound(document, 48)), f"seed {seed}"


@pytest.mark.parametrize("path", BOUNDED)
def test_the_lower_bound_is_the_expected_one(path: Path) -> None:
    document = load(path)
    instance = read_preemptive(document)
    loose, tight = (
        least(instance.bids, instance.inventory, step=1.0, ticks=1, whole=True, alone=alone) for alone in (True, False)
    )
    assert loose.jct == pytest.approx(document["expected"]["lower_bound"])
    assert loose.jct - 1e-6 <= tight.jct <= document["expected"]["opt_no_migration"] + 1e-6


@pytest.mark.parametrize("speed", [Fraction(1), Fraction(6, 5), Fraction(3, 2)])
def test_no_bound_is_above_what_it_bounds(speed: Fraction) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    for _ in range(20):
        document = draw(rng)
        instance = read_preemptive(document)
        exact = least(instance.bids, instance.inventory, step=1.0, ticks=1, whole=True)
        rough = least(instance.bids, instance.inventory, step=2.0, ticks=1)
        fine = least(instance.bids, instance.inventory, step=0.25, ticks=1)
        slow, fast = played(document, "jobmax"), played(document, "jobmax", speed)
        assert exact.fractional <= float(flow(slow).fractional) + 1e-6, seed
        assert exact.jct <= float(flow(slow).jobs) + 1e-6, seed
        assert rough.jct <= exact.jct + 1e-6, seed
        # In continuous time, to a step's width.
        assert float(duals(fast).bound) <= fine.fractional + 0.25 * len(instance.bids) + 1e-6, seed


def test_no_schedule_takes_less_time_than_the_bound() -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    for _ in range(DRAWN):
        document = draw_near(rng)
        instance = read_preemptive(document)
        bound = least(instance.bids, instance.inventory, step=1.0, ticks=1, whole=True).jct
        assert bound <= float(twin.NoMigration(document).total()) + 1e-6, seed


def test_faster_workers_take_less_time() -> None:
    """One job of two chunks of 3 slots on one worker: 6 slots, and 4 half as fast again."""
    job = {"id": 0, "r": 0, "D": 2, "p0": 3, "p1": 3, "delta": [0]}
    document = {"servers": [{"workers": [0], "pss": [0]}], "cloud": False, "jobs": [job]}
    assert flow(played(document)).jobs == 6
    augmented = flow(played(document, speed=Fraction(3, 2)))
    assert augmented == Flow(fractional=Fraction(2), chunks=Fraction(3), jobs=Fraction(4))


def test_a_program_that_is_too_large_is_not_begun() -> None:
    job = {"id": 0, "r": 0, "D": 2, "p0": 3, "p1": 3, "delta": [0]}
    instance = read_preemptive({"servers": [{"workers": [0], "pss": [0]}], "cloud": False, "jobs": [job]})
    assert least(instance.bids, instance.inventory, step=1.0, ticks=1, most=15).jct > 0
    with pytest.raises(TooLarge, match="at most 5"):
        least(instance.bids, instance.inventory, step=1.0, ticks=1, most=5)
