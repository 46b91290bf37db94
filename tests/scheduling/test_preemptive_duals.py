"""Flow, dual variables and both quotients: as the shared instances have them, and bounds that nothing is below."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.preemptive_quality import draw
from scheduling.instance_preemptive import read_preemptive
from scheduling.preemptive.bounds import TooLarge, least
from scheduling.preemptive.duals import Flow, Played, duals, flow, play
from tests.scheduling.cases import load, preemptive_cases
from tests.scheduling.twins.preemptive_milp import optimum

each_case = pytest.mark.parametrize("path", preemptive_cases(), ids=lambda path: path.stem)
BOUNDED = [path for path in preemptive_cases() if load(path)["expected"].get("lower_bound") is not None]


def played(document: dict[str, Any], rule: str = "paper", speed: Fraction = Fraction(1)) -> Played:
    """Times count in units of the instance; a tick is such a part of one that chunks take whole ticks."""
    instance = read_preemptive(document)
    return play(instance.bids, instance.inventory, rule=rule, ticks=speed.numerator, speed=speed)


@each_case
def test_flow_is_that_of_the_shared_instances(path: Path) -> None:
    document = load(path)
    expected, found = document["expected"]["event_paper"], flow(played(document))
    unit = read_preemptive(document).scale
    assert found.fractional / unit == Fraction(expected["frac_flow"])
    assert found.chunks / unit == Fraction(expected["avg_chunk_flow"])
    assert found.jobs / unit == Fraction(expected["total_jct"])


@each_case
def test_lemma_2_fails_where_the_shared_instances_say(path: Path) -> None:
    document = load(path)
    instance = read_preemptive(document)
    found = {
        (instance.ids[int(b.job[1:])], instance.number(b.worker), b.at / instance.scale, b.limit / instance.scale)
        for b in duals(played(document)).broken
    }
    rows = [row.strip("()").replace("'", "").split(", ") for row in document["expected"]["dual_violations_lemma2"]]
    expected = {(int(job), int(worker), Fraction(at), Fraction(limit)) for job, worker, at, _, limit in rows}
    # The files list two at most.
    assert expected <= found
    assert len(expected) == min(2, len(found))


@pytest.mark.parametrize("path", BOUNDED, ids=lambda path: path.stem)
def test_the_lower_bound_is_that_of_the_shared_instances(path: Path) -> None:
    document = load(path)
    instance = read_preemptive(document)
    loose, tight = (
        least(instance.bids, instance.inventory, step=1.0, ticks=1, whole=True, alone=alone) for alone in (True, False)
    )
    assert loose.jct == pytest.approx(document["expected"]["lower_bound"])
    assert loose.jct - 1e-6 <= tight.jct <= document["expected"]["opt_no_migration"] + 1e-6


@pytest.mark.parametrize("speed", [Fraction(1), Fraction(6, 5), Fraction(3, 2)])
def test_no_bound_is_above_what_it_bounds(speed: Fraction) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
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
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    rng = np.random.default_rng(seed)
    for _ in range(5):
        document = draw(rng)
        instance = read_preemptive(document)
        bound = least(instance.bids, instance.inventory, step=1.0, ticks=1, whole=True).jct
        assert bound <= optimum(document, 50) + 1e-6, seed


def test_faster_workers_take_less_time() -> None:
    """One job of two chunks of 3 slots on one worker: 6 slots, and 4 half as fast again."""
    job = {"id": 0, "r": 0, "D": 2, "p0": 3, "p1": 3, "delta": [0]}
    document = {"servers": [{"workers": [0], "pss": [0]}], "cloud": False, "jobs": [job]}
    assert flow(played(document)).jobs == 6
    augmented = flow(played(document, speed=Fraction(3, 2)))
    assert augmented == Flow(fractional=Fraction(2), chunks=Fraction(3), jobs=Fraction(4))


def test_a_programme_that_is_too_large_is_not_begun() -> None:
    job = {"id": 0, "r": 0, "D": 2, "p0": 3, "p1": 3, "delta": [0]}
    instance = read_preemptive({"servers": [{"workers": [0], "pss": [0]}], "cloud": False, "jobs": [job]})
    assert least(instance.bids, instance.inventory, step=1.0, ticks=1, most=15).jct > 0
    with pytest.raises(TooLarge, match="at most 5"):
        least(instance.bids, instance.inventory, step=1.0, ticks=1, most=5)
