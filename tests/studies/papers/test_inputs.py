"""The digest of a figure's inputs is that of all workloads drawn for it, whether they were drawn now or before."""

from dataclasses import replace

import numpy as np

from studies.papers.inputs import digest, drew, noted, remembered, whole
from studies.workloads.generated.dps import SMALL, draw
from studies.workloads.generated.system import Workload


def workload(seed: int) -> Workload:
    return draw(SMALL, np.random.default_rng(seed))


def test_the_same_workload_has_the_same_digest_and_another_one_not() -> None:
    assert digest(workload(1)) == digest(workload(1))
    assert digest(workload(1)) != digest(workload(2))
    first = workload(1)
    later = replace(first.bids[0], arrival=first.bids[0].arrival + 1)
    assert digest(Workload(first.inventory, (later, *first.bids[1:]))) != digest(first)


def test_an_earlier_result_brings_its_inputs_along() -> None:
    drawn: list[int] = []

    @remembered(8)
    def one(seed: int) -> int:
        drawn.append(seed)
        return drew(seed)

    @remembered(8)
    def twice(seed: int) -> int:
        return 2 * one(seed)

    for _ in range(2):
        with noted() as digests:
            assert twice(4) == 8
        assert digests == {digest(4)}
    assert drawn == [4]


def test_outside_nothing_is_noted() -> None:
    assert drew(5) == 5
    with noted() as digests:
        pass
    assert digests == set()


def test_one_digest_for_all_in_any_order() -> None:
    assert whole(["a", "b"]) == whole(["b", "a", "b"]) != whole(["a"])
