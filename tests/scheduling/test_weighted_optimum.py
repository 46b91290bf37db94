"""Rolling, chained and literal against the proven optimum of tiny instances, drawn again at each run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scheduling.book.ledger import Ledger
from scheduling.instances.fields import parse_document
from scheduling.instances.weighted_completion import WeightedInstance, read_weighted
from scheduling.model.bid import Architecture
from scheduling.policies.simulation import simulate
from scheduling.policies.weighted_completion import WeightedCompletion
from tests.draws import fresh_seed, rounds
from tests.scheduling.cases import is_sequence, load, weighted_cases
from tests.scheduling.twins.weighted_cases import random_instance
from tests.scheduling.twins.weighted_optimum import least_total, total_without_foresight

SEQUENCES = weighted_cases(keep=is_sequence)
DRAWN = 150
ROLLING = WeightedCompletion(mode="rolling")


def total(instance: WeightedInstance, policy: WeightedCompletion) -> float:
    """Weight x completion, of all jobs."""
    bids = sorted(instance.bids, key=lambda bid: bid.arrival)
    done = simulate(policy, bids, Ledger(instance.inventory, start=1, slots=128), until=2000).done
    return sum(bid.utility.value * (done[bid.id].completion or 0) for bid in bids)


@pytest.mark.parametrize("path", SEQUENCES)
def test_the_twin_proves_the_expected_optimum(path: Path) -> None:
    instance, expected = read_weighted(parse_document(path.read_text())), load(path)["expected"]
    least = least_total(instance.bids, instance.inventory, at_most=expected["rolling_density"]["twct"])
    assert least == expected["opt_twct"]


@pytest.mark.parametrize("architecture", Architecture)
def test_rolling_is_within_a_twentieth_of_the_optimum_in_the_mean(architecture: Architecture) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    ratios = []
    for _ in range(DRAWN):
        instance = random_instance(rng, architecture, jobs=int(rng.integers(3, 5)))
        rolling = total(instance, ROLLING)
        ratios.append(rolling / least_total(instance.bids, instance.inventory, at_most=rolling))
    assert min(ratios) >= 1 - 1e-9, f"seed {seed}: better than the optimum"
    assert np.mean(ratios) <= 1.05, f"seed {seed}: {np.mean(ratios):.3f} in the mean"


@pytest.mark.parametrize("architecture", Architecture)
def test_a_search_over_jobs_that_are_all_there_is_within_a_hundredth_of_the_optimum(architecture: Architecture) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    ratios = []
    for _ in range(DRAWN // 5):
        drawn = random_instance(rng, architecture, jobs=int(rng.integers(3, 6)))
        instance = replace(drawn, bids=tuple(replace(bid, arrival=1) for bid in drawn.bids))
        found = total(instance, WeightedCompletion())
        ratios.append(found / least_total(instance.bids, instance.inventory, at_most=found))
    assert min(ratios) >= 1 - 1e-9, f"seed {seed}: better than the optimum"
    assert np.mean(ratios) <= 1.01, f"seed {seed}: {np.mean(ratios):.4f} in the mean"


@pytest.mark.parametrize("architecture", Architecture)
def test_plans_without_foresight_are_optimal_if_all_jobs_are_there(architecture: Architecture) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    for _ in range(rounds(2)):
        drawn = random_instance(rng, architecture, jobs=3)
        together = tuple(replace(bid, arrival=1) for bid in drawn.bids)
        without = [total_without_foresight(bids, drawn.inventory) for bids in (drawn.bids, together)]
        least = [least_total(bids, drawn.inventory, at_most=without[0]) for bids in (drawn.bids, together)]
        assert without[0] >= least[0], f"seed {seed}"
        assert without[1] == least[1], f"seed {seed}"


@pytest.mark.parametrize("architecture", Architecture)
def test_chained_intervals_are_better_than_literal_ones_and_worse_than_rolling(architecture: Architecture) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    policies = [ROLLING] + [WeightedCompletion(mode="interval", batches=b) for b in ("chained", "literal")]
    drawn = [random_instance(rng, architecture) for _ in range(20)]
    rolling, chained, literal = ([total(instance, policy) for instance in drawn] for policy in policies)
    assert sum(rolling) < sum(chained) < sum(literal), f"seed {seed}"
