"""Instances of weighted completion with parameter servers and in rings: one for each trap, and random ones."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

from tests.data.make.text import document_text
from tests.scheduling.twins.documents.numbers import Document, exact, shown
from tests.scheduling.twins.documents.weighted import (
    ORDERS,
    Cluster,
    batch_weight,
    by_intervals,
    in_use,
    least_total,
    rolling,
)

PROOF = (
    "costs, sequences and the optimum by trying every placement, PSs on several servers too, at every start, in "
    "fractions and decimals of 28 digits (twins/documents/weighted.py)"
)
ALPHA = 4
"""Rounds of a literal batch, whatever the file says: the policy's default."""
PS_SEEDS = (2, 3, 5, 8, 9)
RING_SEEDS = (1, 4, 6, 7, 10)
BUSY_SEEDS = (1, 2, 3, 4, 5, 6, 7, 8)


def job(
    weight: int, chunks: int, *, a: int = 1, k: int = 1, v: Any = (1,), u: Any = (0,), comm: Any = (0,)
) -> Document:
    """A job of one epoch that arrives in slot `a`."""
    return {
        "a": a, "w": weight, "E": 1, "D": chunks, "K": k, "v": list(v), "U": u if isinstance(u, str) else list(u),
        "comm": list(comm),
    }  # fmt: skip


def instance(
    arch: str,
    servers: list[list[int]],
    workers: list[list[int]],
    pss: list[list[int]],
    jobs: list[Document],
    **other: Any,
) -> Document:
    """Resources are GPUs, then bandwidth; lambda 16 and alpha 2, unless `other` says more."""
    return {
        "arch": arch,
        "T": other.get("T", 24),
        "tau": other.get("tau", 6),
        "bw": 1,
        "servers": servers,
        "workers": workers,
        "pss": pss,
        "lambda": other.get("base", 16),
        "alpha": other.get("alpha", 2),
        **({"kappa": other["kappa"]} if "kappa" in other else {}),
        "jobs": [{"id": i} | row for i, row in enumerate(jobs)],
        "beta": other.get("beta"),
    }


def beta(*servers: tuple[int, int], slots: int) -> list[list[list[int]]]:
    """The same units of GPU and bandwidth in use on each server in every slot."""
    return [[[units] * slots for units in row] for row in servers]


HAND_MADE: dict[str, tuple[str, bool, Callable[[], Document]]] = {
    "one_job": (
        "one job on one idle server: it costs nothing, so it is over as soon as it can be, with the fewest workers",
        True,
        lambda: instance("ps", [[4, 8]], [[1, 2]], [[0, 2]], [job(7, 3, k=2, u=["1/2"])]),
    ),
    "light_job_in_the_way": (
        "in the order of the file a job of weight 1 takes the only server and one of weight 1000 is lost by tau; by "
        "weight or density it is not",
        True,
        lambda: instance("ps", [[1, 2]], [[1, 1]], [[0, 1]], [job(1, 1, k=4), job(1000, 1, k=3)], tau=5),
    ),
    "one_ps_serves_two_workers": (
        "by (2i) a PS of bandwidth 2 carries two workers of 1 from elsewhere, and a third needs another PS",
        False,
        lambda: instance("ps", [[2, 2], [1, 1], [0, 4]], [[1, 1]], [[0, 2]], [job(50, 3, k=2)]),
    ),
    "four_slots_by_slot_four": (
        "by (7b) t + L is at most tau: four slots do not fit tau = 4, and three do",
        False,
        lambda: instance("ps", [[2, 4]], [[1, 1]], [[0, 1]], [job(9, 1, k=4), job(9, 1, k=3)], tau=4),
    ),
    "quotient_is_whole": (
        "3 x 7 x 1/10 + 3 x 7 x 1/5 slots over three workers are 2.1, so 3, and 3 x 10 x 1/10 over three are exactly 1",
        False,
        lambda: instance(
            "ps",
            [[3, 6]],
            [[1, 1]],
            [[0, 1]],
            [job(5, 3, k=7, v=["1/10"], u=["1/5"]), job(5, 3, k=10, v=["1/10"])],
            tau=8,
        ),
    ),
    "two_types_of_ps": (
        "a thin PS is cheap and slow, and a thick one takes bandwidth that is nearly sold out",
        False,
        lambda: instance(
            "ps",
            [[4, 12], [4, 9]],
            [[1, 2]],
            [[0, 1], [0, 4]],
            [job(30, 3, k=3, v=["1/2"], u=["1/2", "0"], comm=["1/4"])],
            beta=beta((1, 2), (0, 3), slots=5),
        ),
    ),
    "full_server_with_ps_room": (
        "the first server has bandwidth for a PS and no GPU free, the second is in use: a placement without workers "
        "would cost nothing, and is none",
        False,
        lambda: instance(
            "ps",
            [[3, 4], [6, 9]],
            [[1, 1]],
            [[0, 1]],
            [job(400, 2, comm=["1/4"])],
            tau=3,
            beta=beta((3, 0), (2, 3), slots=2),
        ),
    ),
    "best_host_is_not_the_last": (
        "five workers and three servers in unlike use: every host has to be looked at with every number of workers "
        "beside it",
        False,
        lambda: instance(
            "ps",
            [[6, 12], [5, 10], [4, 8]],
            [[1, 2]],
            [[0, 3]],
            [job(5000, 5, k=2, comm=["1/8"])],
            tau=4,
            base=50,
            beta=beta((4, 3), (2, 4), (1, 2), slots=3),
        ),
    ),
    "no_room_by_tau": (
        "nothing fits beside what is in use until the last slot before tau, and then one of two jobs does",
        False,
        lambda: instance(
            "ps",
            [[2, 4]],
            [[1, 1]],
            [[0, 1]],
            [job(9, 1, k=2), job(9, 2, k=1)],
            tau=5,
            beta=[[[2, 2, 2, 0], [0, 0, 0, 0]]],
        ),
    ),
    "price_scaled": (
        "the price (11) with kappa 1/4 and lambda 9, where a third of a server is in use",
        False,
        lambda: instance(
            "ps",
            [[3, 6], [6, 6]],
            [[1, 1], [2, 1]],
            [[0, 1]],
            [job(3, 3, v=[1, "1/2"], comm=["1/8", "0"])],
            base=9,
            kappa=0.25,
            beta=beta((1, 2), (2, 2), slots=5),
        ),
    ),
    "heavier_than_its_price": (
        "what is in use makes every placement cost more than the weight: what is told is still the least cost",
        False,
        lambda: instance("ps", [[4, 4]], [[1, 1]], [[0, 1]], [job(1, 2, k=2)], base=100, beta=beta((2, 2), slots=5)),
    ),
    "ring_on_one_server": (
        "a ring on one server does not use the network, so one server in use may cost more and be over sooner",
        False,
        lambda: instance(
            "ring",
            [[4, 4], [3, 4]],
            [[1, 1]],
            [],
            [job(60, 3, k=2, v=["1/2"], u="1/4", comm=["3/4"])],
            tau=8,
            beta=beta((1, 1), (1, 2), slots=7),
        ),
    ),
    "ring_of_one_or_more": (
        "a ring of one worker exchanges nothing: with slow networks more workers are slower",
        False,
        lambda: instance("ring", [[1, 4], [1, 4]], [[1, 1]], [], [job(60, 2, k=2, v=[1], u="1/2", comm=[2])], tau=9),
    ),
    "ring_must_spread": (
        "rings of two workers where each server has room for one; the second job has to wait or to do with one",
        True,
        lambda: instance(
            "ring",
            [[1, 3], [1, 3]],
            [[1, 1]],
            [],
            [job(5, 2, k=3, v=[1], u="1/2", comm=["1/8"]), job(8, 2, a=2, k=2, v=[1], u="0", comm=["1/4"])],
            tau=8,
        ),
    ),
    "batches_that_would_overlap": (
        "three jobs of three slots come at once and one of six later, all for one worker: a batch must wait until the "
        "one before it is over",
        True,
        lambda: instance(
            "ps",
            [[1, 2]],
            [[1, 1]],
            [[0, 1]],
            [job(4, 1, a=3, k=3), job(5, 1, a=3, k=3), job(6, 1, a=3, k=3), job(20, 1, a=6, k=6)],
            tau=8,
            T=40,
        ),
    ),
    "dense_job_passes": (
        "a short job that comes later is denser: it goes before one that waits, not before one that runs",
        True,
        lambda: instance(
            "ps",
            [[2, 4]],
            [[1, 1]],
            [[0, 2]],
            [job(3, 2, k=4), job(4, 2, k=4), job(9, 2, a=2, k=1), job(1, 1, a=2, k=1)],
            tau=9,
            T=40,
        ),
    ),
    "two_worker_types": (
        "the first type is slow and small, the second fast and large: which is better depends on who else is there",
        True,
        lambda: instance(
            "ps",
            [[4, 8], [2, 8]],
            [[1, 1], [3, 2]],
            [[0, 2]],
            [
                job(9, 2, k=4, v=[1, "1/4"], comm=[0, 0]),
                job(8, 2, k=2, v=[1, "1/4"], comm=[0, 0]),
                job(2, 1, a=3, k=2, v=["1/2", "1/4"], comm=[0, 0]),
            ],
            tau=8,
            T=40,
        ),
    ),
}


def _times(draw: Random, parts: int, low: int, high: int) -> list[str]:
    return [f"{draw.randrange(low, high)}/{parts}" for _ in range(2)]


def _random(draw: Random, arch: str, jobs: int, **other: Any) -> Document:
    ring = arch == "ring"
    return instance(
        arch,
        [[draw.randrange(3, 6), draw.randrange(3, 7)] for _ in range(2)],
        [[draw.randrange(1, 3), draw.randrange(1, 3)] for _ in range(2)],
        [] if ring else [[draw.randrange(0, 2), draw.randrange(1, 4)] for _ in range(2)],
        [
            job(
                draw.randrange(1, 50), draw.randrange(1, 4), a=draw.randrange(1, 5), k=draw.randrange(1, 4),
                v=_times(draw, 4, 1, 5), u=_times(draw, 8, 0, 4)[0] if ring else _times(draw, 8, 0, 4),
                comm=_times(draw, 8, 0, 5),
            )
            for _ in range(jobs)
        ],
        **other,
    )  # fmt: skip


def random_sequence(arch: str, seed: int) -> Document:
    """Three jobs that compete for two small servers; every one fits the empty cluster."""
    draw = Random(seed)
    while True:
        document = _random(draw, arch, 3, T=40, tau=draw.randrange(5, 8), base=20)
        if all(Cluster(document).ways(row["id"]) for row in document["jobs"]):
            return document


def random_busy(seed: int) -> Document:
    """Two jobs alone, one after the other, against two servers whose use changes from slot to slot."""
    draw = Random(seed)
    tau = draw.randrange(4, 8)
    document = _random(draw, draw.choice(["ps", "ring"]), 2, tau=tau, base=draw.choice([1, 10, 50]))
    document["beta"] = [
        [[draw.randrange(0, 1 + units // 2) for _ in range(tau - 1)] for units in row] for row in document["servers"]
    ]
    return document


def answers(document: Document, *, sequence: bool) -> Document:
    """What is expected of each job alone and, of a sequence, of batches, of jobs in turn and of the optimum."""
    cluster = Cluster(document)
    found: Document = {"proof": PROOF, "mincost": {}}
    for row in document["jobs"]:
        best = cluster.best(row["id"], in_use(document), first=1, last=document["tau"], base=exact(document["lambda"]))
        found["mincost"][str(row["id"])] = {
            "optimal": {
                "cost": None if best is None else shown(best.cost),
                "schedule": None if best is None else best.way.document(best.start),
            }
        }
    if not sequence:
        return found
    for order in ORDERS:
        free, priced = (batch_weight(cluster, order, base) for base in (Fraction(1), exact(document["lambda"])))
        if free != priced:
            raise ValueError(f"prices decide what a batch places: {free} and {priced}")
        found[f"maxweight_exact_{order}"] = {"weight": free}
    for key, completion in (
        ("rolling_density", rolling(cluster)),
        ("online_commit_alpha4", by_intervals(cluster, alpha=ALPHA, chained=False)),
        ("online_chain", by_intervals(cluster, alpha=ALPHA, chained=True)),
    ):
        total = sum(int(row["w"]) * completion[str(row["id"])] for row in document["jobs"])
        found[key] = {"completion": dict(sorted(completion.items())), "twct": total}
    found["opt_twct"] = least_total(cluster, found["rolling_density"]["twct"])
    return found


def text(name: str, note: str, sequence: bool, make: Callable[[], Document]) -> str:
    """The text of one file."""
    document = make()
    expected = answers(document, sequence=sequence)
    return document_text({"name": name, "note": note} | document | {"expected": expected})


RANDOM = {
    f"random_{arch}_{seed}": ("drawn from its seed", True, partial(random_sequence, arch, seed))
    for arch, seeds in (("ps", PS_SEEDS), ("ring", RING_SEEDS))
    for seed in seeds
} | {f"random_busy_{seed}": ("drawn from its seed", False, partial(random_busy, seed)) for seed in BUSY_SEEDS}
MAKERS = {
    f"cases/weighted_completion/{name}.json": partial(text, name, *row) for name, row in (HAND_MADE | RANDOM).items()
}
"""The text of each file, by its path in `tests/data`."""
