"""The cases of the corpus: each has a name and a document of what was decided, without words and without times."""

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np

from cluster.traces import gavel
from cluster.traces.formats import open_trace
from cluster.traces.records import TraceJob
from scheduling.__main__ import main
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture, Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.types import Json
from scheduling.policies.simulation import simulate
from scheduling.registry import make_policy
from studies.workloads.generated.generators import read_generator
from studies.workloads.simulation.replay import horizon_for
from studies.workloads.traces.machines import gpu_cluster
from studies.workloads.traces.mapping import Rules, to_bids
from studies.workloads.traces.profiles import measured_profiles
from tests.collection import OWN, larger
from tests.scheduling.policy_settings import SETTINGS
from tests.traces import LARGER, Traces
from tests.traces import OWN as OWN_TRACES

Case = tuple[str, Json]
"""A name, and a document of finite numbers, strings and nulls."""

GENERATED: Final[dict[str, Json]] = {
    "dps": {"jobs": 30, "servers": 6, "types": 2, "chunks": [2, 30]},
    "oasis": {"jobs": 14, "servers": 5},
    "preemptive": {"jobs": 25, "servers": 4, "span": 12, "types": [2, 2]},
    "weighted_completion": {"jobs": 20, "servers": 5, "slots": 30},
}
"""A setting of each generator that every policy decides in seconds."""
SEEDS: Final = (11, 12)
TRACE_JOBS: Final = 24
"""The first jobs of each trace."""
TRACE_GPUS: Final = 8
MOST_SLOTS: Final = 300
OPTIONS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "dps": (
        (),
        ("--price", "learned"),
        ("--window", "inclusive", "--start", "strict"),
        ("--policy", "fifo"),
        ("--policy", "drf"),
    ),
    "oasis": ((), ("--price", "learned"), ("--model", "chunk"), ("--policy", "rrh")),
    "weighted_completion": ((), ("--mode", "interval"), ("--policy", "dorm"), ("--policy", "tiresias")),
    "preemptive": ((), ("--cloud", "paper"), ("--storage", "limited"), ("--ageing", "0.5"), ("--policy", "srtf")),
    "split_learning": ((), ("--method", "balanced-greedy"), ("--method", "random-fcfs", "--seed", "3")),
    "counterexamples": ((),),
}
"""Options of `python -m scheduling decide` for each instance, by the folder of instances."""
WORDS: Final = frozenset({"explanation", "note", "seconds", "elapsed_s", "message", "why"})
"""Keys of texts for people, and of measured times: not compared."""


def generated() -> Iterator[Case]:
    """Every policy, at every parameter that changes its decisions, on jobs of every generator."""
    for generator, setting in GENERATED.items():
        for seed in SEEDS:
            workload = read_generator({"generator": generator, "setting": setting}, "workload").draw(seed)
            for policy, parameters in _policies():
                name = f"generator/{generator}/{seed}/{policy}/{json.dumps(parameters, sort_keys=True)}"
                yield name, run(policy, parameters, workload.jobs.bids, workload.inventory, workload.plan.horizon)


def traces() -> Iterator[Case]:
    """Every policy on the first jobs of every trace: the project's samples, then those of the larger collection."""
    for collection in (OWN_TRACES, LARGER):
        if collection is not None:
            for path in collection.jobs:
                yield from _of_trace(collection, path)


def _of_trace(traces: Traces, path: Path) -> Iterator[Case]:
    rows = open_trace(path, TraceJob).rows[:TRACE_JOBS]
    table = gavel.throughputs(traces.throughputs.read_text())
    for policy, parameters in _policies(first_only=True):
        inventory = gpu_cluster(TRACE_GPUS, apart=policy == "oasis")
        profiles = measured_profiles(table, reference="v100")
        rules = Rules(slot_s=3600, architecture=Architecture.PS, profiles=profiles)
        longest_s = max(to_bids(rows, inventory, rules, np.random.default_rng(1)).runs_s.values())
        rules = replace(rules, slot_s=rules.slot_s * ceil(2 * longest_s / rules.slot_s / MOST_SLOTS))
        traced = to_bids(rows, inventory, rules, np.random.default_rng(1))
        horizon = horizon_for(traced, slot_s=rules.slot_s)
        source = "own" if traces is OWN_TRACES else "larger"
        name = f"trace/{source}/{path.relative_to(traces.root)}/{policy}/{json.dumps(parameters, sort_keys=True)}"
        yield name, run(policy, parameters, traced.bids, inventory, horizon)


def instances() -> Iterator[Case]:
    """Every instance of the tests, then of the larger collection, as `python -m scheduling decide` decides it."""
    more = larger()
    for source, root in (("own", OWN), ("larger", more)):
        if root is None:
            continue
        for family, options in OPTIONS.items():
            for path in sorted((root / "cases" / family).glob("*.json")):
                for chosen in options:
                    name = " ".join((f"instance/{source}/{family}/{path.stem}", *chosen))
                    yield name, decide(path, chosen)


def decide(path: Path, options: tuple[str, ...]) -> Json:
    """The answer of the command; where it refuses the instance, its exit status alone."""
    output, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
        try:
            status = main(["decide", str(path), *options])
        except SystemExit as end:
            status = int(end.code or 0)
    return {"answer": without_words(json.loads(output.getvalue()))} if status == 0 else {"status": status}


def run(policy: str, parameters: Json, bids: tuple[Bid, ...], inventory: Inventory, horizon: int) -> Json:
    """Decisions, moves and completions of a simulation; `refused` where the policy runs no such jobs or servers."""
    chosen = make_policy(policy, parameters)
    try:
        chosen.check(inventory)
    except InvalidField:
        return {"refused": True}
    if any(bid.architecture not in chosen.architectures for bid in bids):
        return {"refused": True}
    last = max(bid.arrival for bid in bids)
    ended = simulate(chosen, bids, Ledger(inventory, start=0, slots=horizon), until=last + 10 * horizon)
    return {
        "decisions": [without_words(decision.to_json()) for decision in ended.decisions],
        "moves": [
            [slot, move.job, None if move.schedule is None else move.schedule.to_json()] for slot, move in ended.moves
        ],
        "completions": [[name, job.completion] for name, job in ended.done.items()],
    }


def without_words(value: Any, words: frozenset[str] = WORDS) -> Any:
    """The document without texts for people and without measured times."""
    if isinstance(value, dict):
        return {key: without_words(one, words) for key, one in value.items() if key not in words}
    return [without_words(one, words) for one in value] if isinstance(value, list) else value


def _policies(*, first_only: bool = False) -> Iterator[tuple[str, Json]]:
    for name, settings in SETTINGS.items():
        for parameters in settings[:1] if first_only else settings:
            yield name, parameters
