"""The kernels that each policy calls; none is compiled more often than necessary."""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from scheduling import kernels
from scheduling.batch import capacity
from scheduling.batch import kernel as batch_kernel
from scheduling.batch import search as batch_search
from scheduling.best_response.elastic import search as elastic_search
from scheduling.best_response.rigid import placement as rigid_placement
from scheduling.best_response.rigid import search as rigid_search
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.policies.base import Objective, Policy
from scheduling.registry import make_policy
from scheduling.split_learning import local_search, one_helper
from tests.scheduling.policy_settings import SETTINGS
from tests.scheduling.test_every_policy import run

MODULES = {
    "best_response.rigid.search": "rigid",
    "best_response.elastic.search": "elastic",
    "best_response.divided.kernel": "bounds",
    "batch.kernel": "planner",
    "competition.kernel": "competition",
    "preemptive.kernel": "queues",
    "pricing.fluid_descent": "fluid",
    "split_learning.local_search": "split-learning",
    "split_learning.helper": "split-learning",
}
"""A module of each group that no other group calls."""
LARGE = (
    (elastic_search, "_search", "search"),
    (batch_kernel, "_host", "place", "plan"),
    (rigid_placement, "load_window", "fits_together"),
    (batch_search, "_total", "improve"),
    (capacity, "build_until", "fits_one", "recompute"),
    (rigid_search, "improve", "search"),
    (local_search, "_search", "_least", "_with"),
    (one_helper, "_answer", "_search"),
)
"""Kernels that take longest to compile."""


def loaded() -> set[str]:
    """Groups of which a kernel was compiled or loaded in this process."""
    found = set()
    for name, group in MODULES.items():
        module = sys.modules.get(f"scheduling.{name}")
        if any(getattr(value, "signatures", None) for value in vars(module).values()):
            found.add(group)
    return found


def ask_bound(policy: Policy, inventory: Inventory, bid: Bid, *, slots: int) -> None:
    """Ask for one term of the upper bound that a market shows beside its welfare."""
    terms = policy.at_prices(inventory, np.zeros((slots, *inventory.capacity.shape)), start=0)
    if terms is not None:
        terms.term(bid)


def kernels_by_setting() -> list[tuple[str, set[str], set[str]]]:
    """Return the groups of each setting of each policy, and the groups loaded after its run; settings without kernels
    come first."""
    policies = [make_policy(name, parameters) for name, settings in SETTINGS.items() for parameters in settings]
    rows, before = [], loaded()
    for policy in sorted(policies, key=lambda policy: len(kernels.needed_by(policy))):
        for seed in range(2):
            drawn, bids, going = run(policy, seed)
            if policy.objective is Objective.WELFARE:
                ask_bound(policy, drawn.inventory, bids[0], slots=len(going.book.ledger.used))
        now = loaded()
        rows.append((repr(policy), {group.name for group in kernels.needed_by(policy)}, now - before))
        before = now
    return rows


@pytest.mark.slow
def test_a_policy_calls_the_kernels_that_are_compiled_for_it_and_no_others() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        rows = fresh.submit(kernels_by_setting).result()
    so_far: set[str] = set()
    for policy, needed, new in rows:
        so_far |= new
        assert new <= needed, policy
        assert needed <= so_far, policy
    assert so_far == {"rigid", "elastic", "planner", "competition", "queues", "fluid", "bounds"}


def test_each_large_kernel_is_compiled_for_one_set_of_types() -> None:
    kernels.warm_up(*kernels.GROUPS.values())
    for module, *names in LARGE:
        own = module.__name__.rpartition(".")[2]
        for name in names:
            dispatcher = getattr(module, name)
            kept = Path(dispatcher.stats.cache_path)
            files = sorted(path.name for path in kept.glob(f"{own}.{dispatcher.py_func.__qualname__}-*.nbc"))
            assert len(files) == 1, files


def test_parts_that_are_compiled_side_by_side_have_names_of_their_own() -> None:
    parts = kernels.parts_of(kernels.GROUPS.values())
    assert {name.split(".")[0] for name in parts} == set(kernels.GROUPS)
    assert len(parts) == sum(len(group.parts) for group in kernels.GROUPS.values())
