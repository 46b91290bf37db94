"""Instances of preemptive edge-cloud scheduling: one for each trap, and random ones."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

from tests.data.make.text import document_text
from tests.scheduling.twins.documents.numbers import Document
from tests.scheduling.twins.documents.preemptive import NoMigration, broken_duals, flow, lower_bound, ps_hosts
from tests.scheduling.twins.preemptive_exact import Outcome, number, simulate

PROOF = (
    "runs event by event in fractions (twins/preemptive_exact.py); flow, duals and parameter servers from all that was "
    "processed; the optimum by every deal of chunks and every order of jobs; the bound by a linear programme slot by "
    "slot (twins/documents/preemptive.py)"
)
SEEDS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
LONGEST = 24
"""Slots by which an optimum has to be complete, to be proven by the integer programmes too."""


def job(r: Any, chunks: int, p0: Any, p1: Any, delta: list[Any], away: Any = 9, **other: Any) -> Document:
    """A job of `chunks` chunks that take p0 slots, and p1 in the cloud alone, after `away` slots of upload."""
    row = {"r": r, "D": chunks, "worker_type": other.get("kind", 0), "p0": p0, "p1": p1, "delta": delta}
    return row | {"delta_cloud": away} | ({"chunk_size": other["size"]} if "size" in other else {})


def server(workers: list[int], pss: int = 1, storage: int | None = None) -> Document:
    row: Document = {"workers": workers, "pss": [0] * pss}
    return row if storage is None else row | {"storage": storage}


def instance(servers: list[Document], jobs: list[Document], *, cloud: bool) -> Document:
    return {"servers": servers, "cloud": cloud, "jobs": [{"id": i} | row for i, row in enumerate(jobs)]}


HAND_MADE: dict[str, tuple[str, Callable[[], Document]]] = {
    "one_chunk": (
        "one chunk on one worker: uploaded after 2 slots, complete 5 slots later",
        lambda: instance([server([0])], [job(1, 1, 5, 5, [2])], cloud=False),
    ),
    "chunks_spread": (
        "Q of a worker grows with each chunk that it gets, so two chunks go to two workers and the third comes back",
        lambda: instance([server([0, 0])], [job(0, 3, 4, 4, [0])], cloud=False),
    ),
    "short_job_preempts": (
        "a job of less work comes while a longer one runs: that is preempted for the newcomer's slots, and goes on",
        lambda: instance([server([0])], [job(0, 2, 5, 5, [0]), job(2, 1, 3, 3, [1])], cloud=False),
    ),
    "worker_does_not_wait_for_an_upload": (
        "the first in rank is still on its way: the worker does what is there, and changes when it comes",
        lambda: instance([server([0])], [job(0, 1, 4, 4, [8]), job(0, 1, 12, 12, [0])], cloud=False),
    ),
    "rank_is_not_what_is_left": (
        "a long job is nearly over when a shorter one comes: it still has to wait, as ranks never change",
        lambda: instance([server([0])], [job(0, 1, 10, 10, [0]), job(9, 1, 6, 6, [0])], cloud=False),
    ),
    "first_chunk_decides_for_all": (
        "by the paper the first chunk is better at the edge, so the job is split and communicates; all in the cloud "
        "would be over sooner, which jobmax sees",
        lambda: instance([server([0])], [job(0, 4, 10, 2, [0], away=8)], cloud=True),
    ),
    "rest_in_the_cloud": (
        "workers fill up, and from then on all chunks that are left go to the cloud",
        lambda: instance([server([0, 0])], [job(0, 6, 3, 3, [0], away=4)], cloud=True),
    ),
    "too_few_parameter_servers": (
        "two jobs run at once and the edge has one parameter server: the second uses one of the cloud",
        lambda: instance(
            [server([0, 0], pss=1)], [job(0, 1, 4, 4, [0], away=30), job(0, 1, 4, 4, [0], away=30)], cloud=True
        ),
    ),
    "no_parameter_server": (
        "the same without a cloud: the second job runs without one, which is counted",
        lambda: instance([server([0, 0], pss=1)], [job(0, 1, 4, 4, [0]), job(1, 1, 4, 4, [0])], cloud=False),
    ),
    "half_at_the_edge_has_one_parameter_server": (
        "a job whose chunks are at the edge and in the cloud has one parameter server, at the edge",
        lambda: instance([server([0], pss=2)], [job(0, 3, 4, 3, [0], away=3)], cloud=True),
    ),
    "nobody_of_its_type": (
        "no worker of the edge is of the job's type, so all its chunks go to the cloud",
        lambda: instance([server([0])], [job(0, 2, 3, 3, [0], away=4, kind=1), job(1, 1, 2, 2, [0])], cloud=True),
    ),
    "two_types": (
        "two types of workers on two servers: jobs of one never meet those of the other",
        lambda: instance(
            [server([0, 1]), server([1, 0], pss=2)],
            [
                job(0, 2, 4, 3, [0, 2], away=12),
                job(1, 2, 3, 3, [1, 0], away=12, kind=1),
                job(2, 1, 2, 1, [0, 1], away=9),
            ],
            cloud=True,
        ),
    ),
    "equal_in_everything": (
        "four jobs alike at once on two workers: order of the file, then the first worker",
        lambda: instance([server([0, 0], pss=2)], [job(0, 1, 3, 3, [0]) for _ in range(4)], cloud=False),
    ),
    "fractions": (
        "chunks of 7/3 and 5/2 slots that arrive at halves and thirds of a slot: all completions are exact",
        lambda: instance(
            [server([0, 0])],
            [
                job(0, 2, "7/3", "4/3", ["1/2"], away="9/2"),
                job("2/3", 1, "5/2", "5/2", [0], away=8),
                job("1.5", 3, "1/3", "1/4", ["1/6"], away=3),
            ],
            cloud=True,
        ),
    ),
    "little_storage": (
        "the first server stores one chunk, the second two, each until its job is complete: the next goes elsewhere",
        lambda: instance(
            [server([0, 0], storage=1), server([0], storage=2)],
            [
                job(0, 3, 3, 3, [0, 1], away=25, size=1),
                job(1, 1, 2, 2, [0, 1], away=20, size=1),
                job(9, 1, 2, 2, [0, 1], away=20, size=1),
            ],
            cloud=True,
        ),
    ),
    "long_job_starves": (
        "short jobs keep coming and a long one waits for all of them",
        lambda: instance(
            [server([0])], [job(0, 1, 6, 6, [1]), *(job(2 * k, 1, 2, 2, [0]) for k in range(1, 5))], cloud=False
        ),
    ),
    "near_and_slow_or_far_and_idle": (
        "the near server is busy with short chunks, the far one idle after a long upload",
        lambda: instance(
            [server([0]), server([0])],
            [job(0, 2, 3, 3, [0, 5], away=20), job(1, 2, 2, 2, [0, 5], away=20), job(1, 1, 4, 4, [1, 2], away=20)],
            cloud=True,
        ),
    ),
}


def random_instance(seed: int) -> Document:
    """One or two servers of one or two types, three jobs of up to three chunks, whole slots, mostly a cloud."""
    draw = Random(seed)
    kinds = draw.randrange(1, 3)
    servers = [
        server([draw.randrange(kinds) for _ in range(draw.randrange(1, 3))], pss=draw.randrange(1, 3))
        for _ in range(draw.randrange(1, 3))
    ]
    cloud = draw.random() < 0.75
    here = sorted({kind for row in servers for kind in row["workers"]})
    jobs, arrival = [], 0
    for _ in range(3):
        arrival += draw.randrange(0, 3)
        slow = draw.randrange(1, 6)
        jobs.append(
            job(
                arrival, draw.randrange(1, 4), slow, draw.randrange(1, slow + 1),
                [draw.randrange(0, 4) for _ in servers], away=draw.randrange(2, 10), kind=draw.choice(here),
            )
        )  # fmt: skip
    return instance(servers, jobs, cloud=cloud)


def _run(document: Document, outcome: Outcome) -> Document:
    completion = {str(name): str(end) for name, end in outcome.completion.items()}
    arrivals = {job["id"]: number(job["r"]) for job in document["jobs"]}
    total = sum((end - arrivals[name] for name, end in outcome.completion.items()), Fraction(0))
    return {
        "total_jct": str(total),
        "completion": completion,
        "dispatch": {str(name): places for name, places in outcome.dispatch.items()},
        "preemptions": outcome.preemptions,
    }


def answers(document: Document) -> Document:
    """What is expected of the runs by both rules, and of any schedule."""
    found: Document = {"proof": PROOF}
    for rule in ("paper", "jobmax"):
        outcome = simulate(document, rule)
        found[f"event_{rule}"] = _run(document, outcome)
        if rule == "paper":
            took = flow(document, outcome)
            found["event_paper"] |= {
                "alpha": {str(name): [str(alpha) for alpha in alphas] for name, alphas in outcome.alpha.items()},
                "frac_flow": str(took.fractional),
                "avg_chunk_flow": str(took.chunks),
            }
            found["ps_repaired"] = {"stat": dict(ps_hosts(document, outcome))}
            found["dual_violations"] = [
                [name, worker, *map(str, numbers)] for name, worker, *numbers in broken_duals(document, outcome)
            ]
    if any("storage" in row for row in document["servers"]):
        found["event_paper_storage"] = _run(document, simulate(document, "paper", limited=True))
    if all(number(job[key]).denominator == 1 for job in document["jobs"] for key in ("r", "p0", "p1", "delta_cloud")):
        found["opt_no_migration"] = int(NoMigration(document).total())
        found["lower_bound"] = lower_bound(document, 2 * LONGEST)
    return found


def text(name: str, note: str, make: Callable[[], Document]) -> str:
    """The text of one file."""
    document = make()
    return document_text({"name": name, "note": note} | document | {"expected": answers(document)})


MAKERS = {
    f"cases/preemptive/{name}.json": partial(text, name, note, make) for name, (note, make) in HAND_MADE.items()
} | {
    f"cases/preemptive/random_{seed}.json": partial(
        text, f"random_{seed}", "drawn from its seed", partial(random_instance, seed)
    )
    for seed in SEEDS
}
"""The text of each file, by its path in `tests/data`."""
