"""Instances of DPS: one for each trap, and random ones."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from tests.data.make.text import document_text
from tests.scheduling.twins.documents.dps import CONVENTIONS, Cluster, most_welfare
from tests.scheduling.twins.documents.dps_paper import printed
from tests.scheduling.twins.documents.numbers import Document, shown
from tests.scheduling.twins.documents.online import TooManyTies, decide_in_order

PROOF = (
    "payoffs, sequences and the optimum in hindsight by trying every schedule in decimals of 28 digits "
    "(twins/documents/dps.py); what the printed algorithms report and earn by a second reading of their listings"
)
SEEDS = (1, 8, 12, 15, 16, 17, 20, 22, 23, 24, 33, 35, 36, 38, 40)
"""Chosen from the first forty: jobs are admitted, rejected and tied, and the printed algorithms often fail."""


def server(workers: Any, pss: Any) -> Document:
    """Machines of each type; a number stands for one type."""
    return {
        "workers": workers if isinstance(workers, list) else [workers],
        "pss": pss if isinstance(pss, list) else [pss],
        "cloud": False,
    }


def job(arrival: int, chunks: int, utility: Document, *, servers: int, **other: Any) -> Document:
    """A job of one epoch and mini-batch, whose worker takes a slot for a chunk, unless `other` says more."""
    return {
        "id": other.get("id", 0),
        "arrival": arrival,
        "epochs": other.get("epochs", 1),
        "chunks": chunks,
        "minibatches": other.get("minibatches", 1),
        "worker_time": other.get("worker_time", [1]),
        "ps_time": other.get("ps_time", [0]),
        "grad_mb": other.get("grad_mb", 0),
        "delay": other.get("delay", [0] * servers),
        "utility": utility,
    }


def constant(v: Any) -> Document:
    return {"type": "constant", "v": v}


def step(v: Any, deadline: int) -> Document:
    return {"type": "step", "v": v, "deadline": deadline}


def sigmoid(g1: Any, g2: Any, g3: Any) -> Document:
    return {"type": "sigmoid", "g1": g1, "g2": g2, "g3": g3}


def linear(c: Any, b: Any) -> Document:
    return {"type": "linear", "c": c, "b": b}


def instance(slots: int, servers: list[Document], jobs: list[Document], **other: Any) -> Document:
    """Slots of 100 s; one worker type of 50 Mbit/s and one PS type of 200, unless `other` says more."""
    document = {
        "T": slots,
        "slot_seconds": other.get("slot_seconds", 100),
        "worker_types": [{"bw_mbps": rate} for rate in other.get("workers", [50])],
        "ps_types": [{"bw_mbps": rate} for rate in other.get("pss", [200])],
        "servers": servers,
        "jobs": [row | {"id": i} for i, row in enumerate(jobs)],
    }
    if "eta" in other:
        document["prices"] = {"eta_w": other["eta"][0], "eta_p": other["eta"][1]}
    for key in ("initial_worker_usage", "initial_ps_usage"):
        if key in other:
            document[key] = other[key]
    return document


def in_use(slots: int, rows: dict[int, list[list[int]]], idle: list[list[int]]) -> list[list[list[int]]]:
    """Machines in use by slot: as said for some slots, counted from 1, and `idle` in the others."""
    return [rows.get(t, idle) for t in range(1, slots + 1)]


def first_slot_free() -> Document:
    """A worker costs nothing on the first server in slot 1 and 7 later, and 1 on the second in every slot."""
    return instance(
        6,
        [server(8, 2), server(4, 2)],
        [job(1, 2, step(20, 3), servers=2, epochs=3)],
        eta=([16], [16]),
        initial_worker_usage=in_use(6, {1: [[0], [1]]}, [[6], [1]]),
    )


def spread_first_slot_free() -> Document:
    """Only the first server hosts PSs. In slots 1 to 3 a worker costs 0, 2, 2 on the second, 2, 0, 0 on the third."""
    return instance(
        5,
        [server(0, 1), server(2, 0), server(2, 0)],
        [job(1, 1, step(9, 3), servers=3, epochs=3)],
        eta=([9], [2]),
        initial_worker_usage=in_use(5, {1: [[0], [0], [1]]}, [[0], [1], [0]]),
    )


HAND_MADE: dict[str, tuple[str, Callable[[], Document]]] = {
    "one_server": (
        "everything fits one server: more workers end it sooner, and a sigmoid pays for that",
        lambda: instance(7, [server(3, 1)], [job(1, 3, sigmoid(40, "0.5", 3), servers=1, epochs=2)], eta=([5], [3])),
    ),
    "no_ps_anywhere": (
        "no server hosts a PS, so constraint (6) rejects whatever is offered",
        lambda: instance(5, [server(4, 0), server(2, 0)], [job(1, 2, constant(99), servers=2)], eta=([4], [4])),
    ),
    "ps_on_the_last_used_server": (
        "two workers fill two servers and the only PS is on the second: nothing moves, and a listing that stores only "
        "moves finds nothing",
        lambda: instance(
            6,
            [server(1, 0), server(1, 1)],
            [job(2, 2, step(7, 1), servers=2), job(2, 2, step(6, 3), servers=2)],
            eta=([3], [5]),
        ),
    ),
    "one_ps_serves_all": (
        "a PS of a thousand times a worker's bandwidth: never a second one, wherever workers are",
        lambda: instance(
            6,
            [server(2, 0), server(2, 1)],
            [job(1, 4, sigmoid(30, 1, 2), servers=2), job(1, 2, step(9, 4), servers=2)],
            workers=[10],
            pss=[10000],
            eta=([6], [2]),
        ),
    ),
    "too_long": (
        "D workers at once are still not over by T",
        lambda: instance(
            5,
            [server(9, 3)],
            [job(1, 2, constant(50), servers=1, epochs=5), job(2, 1, constant(5), servers=1)],
            eta=([4], [4]),
        ),
    ),
    "arrival_in_the_last_slot": (
        "it arrives at T, and a job of one slot completes at T + 1",
        lambda: instance(4, [server(2, 1)], [job(4, 1, constant(10), servers=1)], eta=([2], [2])),
    ),
    "deadline_beyond_the_horizon": (
        "its value lasts longer than the horizon, so that only prices tell starts apart",
        lambda: instance(
            5,
            [server(2, 1)],
            [job(1, 1, step(8, 30), servers=1), job(1, 2, step(8, 30), servers=1)],
            eta=([7], [7]),
            initial_worker_usage=in_use(5, {1: [[1]], 2: [[0]]}, [[1]]),
            initial_ps_usage=in_use(5, {}, [[0]]),
        ),
    ),
    "near_server_late": (
        "the cheap server has the data two slots late, the one that has it at once is half full and dear",
        lambda: instance(
            6,
            [server(2, 1), server(2, 2)],
            [job(1, 1, linear(20, 4), servers=2, delay=[2, 0]), job(2, 2, linear(15, 2), servers=2, delay=[2, 0])],
            eta=([50], [30]),
            initial_worker_usage=in_use(6, {}, [[0], [1]]),
            initial_ps_usage=in_use(6, {}, [[0], [1]]),
        ),
    ),
    "price_rises_after_the_first_slot": (
        "together on one server, chosen by the price of the window: free in slot 1 and dear later, or a little in "
        "every slot",
        first_slot_free,
    ),
    "price_rises_where_workers_go": (
        "the same for workers that are spread: the order of servers is by the window's price, not the first slot's",
        spread_first_slot_free,
    ),
    "spare_workers_on_the_host": (
        "the host of the PSs has workers to spare: moving workers from the host to itself saves nothing, though the "
        "listing counts it",
        lambda: instance(
            5,
            [server(3, 2), server(2, 0)],
            [job(1, 3, step(12, 2), servers=2), job(1, 3, constant(2), servers=2)],
            pss=[50],
            eta=([9], [64]),
            initial_worker_usage=in_use(5, {}, [[0], [1]]),
            initial_ps_usage=in_use(5, {}, [[1], [0]]),
        ),
    ),
    "one_move_saves_a_ps": (
        "five workers at a quarter of a PS each: one beside the PS saves the second PS, more of them save nothing and "
        "cost more",
        lambda: instance(
            4,
            [server(5, 0), server(10, 4)],
            [job(1, 5, step(30, 1), servers=2)],
            eta=([4], [16]),
            initial_worker_usage=in_use(4, {}, [[0], [5]]),
            initial_ps_usage=in_use(4, {}, [[0], [2]]),
        ),
    ),
    "types_differ": (
        "fast workers that are nearly sold out, slow ones that are not, and two kinds of PSs: the best pair depends on "
        "the deadline",
        lambda: instance(
            8,
            [server([2, 3], [1, 1]), server([1, 2], [0, 2])],
            [
                job(1, 2, step(20, 2), servers=2, worker_time=["1/2", 2], ps_time=[0, "1/2"], epochs=2),
                job(1, 2, sigmoid(12, 1, 5), servers=2, worker_time=["1/2", 2], ps_time=["1/4", 0]),
                job(3, 1, linear(9, 1), servers=2, worker_time=[1, 2], ps_time=["1/4", "1/2"], grad_mb=125),
            ],
            workers=[100, 50],
            pss=[100, 300],
            eta=([8, 3], [4, 6]),
            initial_worker_usage=in_use(8, {}, [[1, 0], [0, 1]]),
            initial_ps_usage=in_use(8, {}, [[0, 0], [0, 1]]),
        ),
    ),
    "back_to_back": (
        "two jobs of a slot each on one worker: both fit half-open windows, one does where windows are inclusive",
        lambda: instance(
            3, [server(1, 1)], [job(1, 1, step(5, 1), servers=1), job(1, 1, step(4, 2), servers=1)], eta=([2], [2])
        ),
    ),
    "no_more_workers_than_chunks": (
        "six workers are free and the job has two chunks: it cannot be over in one slot",
        lambda: instance(6, [server(6, 2)], [job(1, 2, step(9, 2), servers=1, epochs=2)], eta=([3], [3])),
    ),
    "etas_of_its_own_jobs": (
        "no prices in the file: eta is 1 + the most that any job offers for a machine and slot",
        lambda: instance(
            6,
            [server(3, 1), server(1, 1)],
            [
                job(1, 3, sigmoid(20, "0.4", 4), servers=2, delay=[0, 1]),
                job(1, 2, step(11, 3), servers=2, delay=[1, 0], epochs=2),
                job(2, 1, linear(6, 1), servers=2),
            ],
            initial_worker_usage=in_use(6, {}, [[1], [0]]),
        ),
    ),
    "host_away_from_the_workers": (
        "the cheap workers are on one server and the cheap PSs on the other, and the transfer costs a slot",
        lambda: instance(
            7,
            [server(4, 2), server(4, 2)],
            [job(1, 2, linear(16, 1), servers=2, epochs=2, grad_mb=100), job(2, 2, linear(16, 1), servers=2)],
            eta=([81], [81]),
            initial_worker_usage=in_use(7, {}, [[0], [2]]),
            initial_ps_usage=in_use(7, {}, [[1], [0]]),
        ),
    ),
    "worth_nothing": (
        "a job that is worth nothing is rejected, also where it costs nothing",
        lambda: instance(
            4, [server(2, 1)], [job(1, 1, constant(0), servers=1), job(1, 2, step(3, 0), servers=1)], eta=([3], [3])
        ),
    ),
    "quotient_that_doubles_miss": (
        "25 workers of 28 Mbit/s on PSs of 100: exactly 7 PSs, which are all there are; in doubles it is 8",
        lambda: instance(
            3,
            [server(25, 0), server(0, 7)],
            [job(1, 25, step(30, 1), servers=2)],
            workers=[28],
            pss=[100],
            eta=([2], [2]),
        ),
    ),
}


def random_instance(seed: int) -> Document:
    """Two or three servers of different price, and two or three jobs whose utilities are of any form."""
    draw = Random(seed)
    servers, types = draw.randrange(2, 4), draw.randrange(1, 3)
    slots = draw.randrange(5, 8)
    rows = [server([draw.randrange(1, 4) for _ in range(types)], [draw.randrange(0, 3)]) for _ in range(servers)]
    rows[draw.randrange(servers)]["pss"] = [2]

    def usage(kind: str) -> list[list[list[int]]]:
        return [
            [[draw.randrange(0, n + 1) if draw.random() < 0.5 else 0 for n in row[kind]] for row in rows]
            for _ in range(slots)
        ]

    def utility() -> Document:
        top = draw.randrange(4, 40)
        return draw.choice(
            [
                step(top, draw.randrange(1, slots)),
                sigmoid(top, f"{draw.randrange(1, 9)}/4", draw.randrange(1, slots)),
                linear(top, draw.randrange(1, 5)),
                constant(top),
                {"type": "inverse", "a": draw.randrange(1, 4), "work": draw.randrange(1, 5), "T": slots},
            ]
        )

    jobs, arrival = [], 1
    for _ in range(draw.randrange(2, 4)):
        arrival = min(slots, arrival + draw.randrange(0, 2))
        jobs.append(
            job(
                arrival,
                draw.randrange(1, 4),
                utility(),
                servers=servers,
                epochs=draw.randrange(1, 3),
                worker_time=[f"{draw.randrange(1, 7)}/4" for _ in range(types)],
                ps_time=[f"{draw.randrange(0, 3)}/8"],
                grad_mb=draw.choice([0, 0, 100, 250]),
                delay=[draw.choice([0, 0, 1]) for _ in range(servers)],
            )
        )
    return instance(
        slots,
        rows,
        jobs,
        workers=[draw.choice([50, 100]) for _ in range(types)],
        pss=[draw.choice([100, 150])],
        eta=([draw.randrange(2, 9) for _ in range(types)], [draw.randrange(2, 9)]),
        initial_worker_usage=usage("workers"),
        initial_ps_usage=usage("pss"),
    )


def answers(document: Document) -> Document:
    """What is expected under each convention."""
    found: Document = {"proof": PROOF}
    for convention in CONVENTIONS:
        cluster = Cluster(document, convention)
        used = cluster.first_usage()
        rows = []
        for row in document["jobs"]:
            best, listing = cluster.choices(row, used), printed(cluster, row, used)
            admitted = bool(best) and best[0].payoff > 0
            rows.append(
                {
                    "id": row["id"],
                    "payoff": shown(best[0].payoff) if admitted else 0.0,
                    "t_hat": best[0].t_hat if admitted else None,
                    "payoff_alg2_printed": 0.0 if listing is None else shown(listing.reported),
                    "true_payoff_alg2_printed": 0.0 if listing is None else shown(listing.true),
                }
            )
        etas = {role: [shown(cluster.etas[role, i]) for r, i in cluster.etas if r == role] for role in ("w", "p")}
        found[convention.name] = {"eta_w": etas["w"], "eta_p": etas["p"], "isolated": rows}
        with suppress(TooManyTies):
            found[convention.name]["online_exact"] = decide_in_order(document["jobs"], used, cluster.choices)
        found[convention.name]["offline_optimum"] = shown(most_welfare(cluster))
    return found


def text(name: str, note: str, make: Callable[[], Document]) -> str:
    """The text of one file."""
    document = make()
    return document_text({"name": name, "note": note, "instance": document, "expected": answers(document)})


MAKERS = {f"cases/dps/{name}.json": partial(text, name, note, make) for name, (note, make) in HAND_MADE.items()} | {
    f"cases/dps/random_{seed}.json": partial(
        text, f"random_{seed}", "drawn from its seed", partial(random_instance, seed)
    )
    for seed in SEEDS
}
"""The text of each file, by its path in `tests/data`."""
