"""Instances of OASiS: one for each trap, and random ones."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

from tests.data.make.dps import constant, linear, sigmoid, step
from tests.data.make.text import document_text
from tests.scheduling.twins.documents.numbers import Document, shown
from tests.scheduling.twins.documents.oasis import POOLS, Cluster, most_welfare
from tests.scheduling.twins.documents.online import Choice, TooManyTies, best_of, decide_in_order

PROOF = (
    "every number of workers in every slot and every placement of them, in decimals of 28 digits; whole chunks by the "
    "recursion of Algorithm 2; the optimum in hindsight slot by slot over all jobs (twins/documents/oasis.py)"
)
SEEDS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)


def job(arrival: int, chunks: int, utility: Document, **other: Any) -> Document:
    """A job of one epoch and mini-batch of one slot, whose worker and PS take a unit, unless `other` says more."""
    return {
        "arrival": arrival,
        "epochs": other.get("epochs", 1),
        "chunks": chunks,
        "minibatches": other.get("minibatches", 1),
        "tau": other.get("tau", 1),
        "grad_mb": other.get("grad_mb", 0),
        "worker_bw_mbps": other.get("worker_bw", 100),
        "ps_bw_mbps": other.get("ps_bw", 200),
        "worker": other.get("worker", [1]),
        "ps": other.get("ps", [1]),
        "utility": utility,
    }


def instance(slots: int, workers: list[Any], pss: list[Any], jobs: list[Document], **other: Any) -> Document:
    """Slots of 100 s; L and U of both pools as `prices` says, derived from the jobs where it is None."""
    document = {
        "T": slots,
        "slot_seconds": other.get("slot_seconds", 100),
        "worker_servers": workers,
        "ps_servers": pss,
        "jobs": [{"id": i} | row for i, row in enumerate(jobs)],
    }
    prices = other.get("prices", ("0.25", 16))
    if isinstance(prices, tuple):
        low, high = prices
        resources = len(workers[0])
        document["prices"] = {"L1": low, "L2": low, "U1": [high] * resources, "U2": [high] * resources}
    elif prices is not None:
        document["prices"] = prices
    for key in ("initial_worker_usage", "initial_ps_usage"):
        if key in other:
            document[key] = other[key]
    return document


HAND_MADE: dict[str, tuple[str, Callable[[], Document]]] = {
    "one_server": (
        "two chunks in two epochs on one server: two workers in two slots, or fewer for longer",
        lambda: instance(5, [[4]], [[2]], [job(1, 2, sigmoid(12, "0.5", 3), epochs=2)]),
    ),
    "no_room_for_a_ps": (
        "PS servers without capacity: rejected, whatever it offers",
        lambda: instance(3, [[4]], [[0]], [job(1, 2, constant(40))]),
    ),
    "no_unit_of_what_is_asked": (
        "the worker asks for a resource of which there is none",
        lambda: instance(3, [[4, 0]], [[2, 2]], [job(1, 2, constant(40), worker=[1, 1], ps=[1, 1])]),
    ),
    "no_unit_of_what_nobody_asks": (
        "there is none of the second resource and nobody asks for it: it neither limits nor costs anything",
        lambda: instance(
            3,
            [[4, 0]],
            [[2, 0]],
            [job(1, 2, constant(40), worker=[1, 0], ps=[1, 0])],
            prices={"L1": "0.5", "L2": "0.5", "U1": [8, 0], "U2": [8, None]},
        ),
    ),
    "more_work_than_slots": (
        "N workers in all slots that are left do not do the work",
        lambda: instance(4, [[9]], [[9]], [job(2, 2, constant(90), epochs=4), job(3, 2, constant(9), epochs=2)]),
    ),
    "a_ps_for_each_worker": (
        "b = B, so there are as many PSs as workers, and those are scarce",
        lambda: instance(5, [[3], [3]], [[2]], [job(1, 4, sigmoid(30, 1, 2), ps_bw=100), job(1, 2, step(9, 3))]),
    ),
    "workers_faster_than_pss": (
        "b > B: (6) and (7) contradict each other, so it cannot run at all",
        lambda: instance(4, [[3]], [[9]], [job(1, 2, constant(30), worker_bw=300), job(2, 2, constant(5))]),
    ),
    "one_ps_serves_all": (
        "a PS of a thousand times a worker's bandwidth: one in every slot with a worker, so few slots are cheap",
        lambda: instance(4, [[2], [2]], [[1]], [job(1, 4, linear(20, 2), ps_bw=100000, epochs=2)]),
    ),
    "ceiling_of_pss": (
        "three workers need two PSs and two need one: a slot more is cheaper than another PS",
        lambda: instance(
            3,
            [[3]],
            [[3]],
            [job(1, 3, linear(30, 1))],
            prices={"L1": "0.125", "L2": 4, "U1": [1], "U2": [32]},
        ),
    ),
    "deadline_beyond_the_horizon": (
        "worth as much whenever it ends: it takes the slots that are idle",
        lambda: instance(
            4,
            [[3]],
            [[2]],
            [job(1, 2, step(10, 40)), job(1, 2, step(10, 40), epochs=2)],
            initial_worker_usage=[[[2]], [[0]], [[1]], [[0]]],
            initial_ps_usage=[[[0]], [[1]], [[0]], [[0]]],
        ),
    ),
    "arrival_in_the_last_slot": (
        "it arrives in slot T, which it may still use",
        lambda: instance(3, [[2]], [[1]], [job(3, 2, constant(9)), job(3, 1, constant(5), tau="3/2")]),
    ),
    "worth_nothing": (
        "a payoff of nothing is not above 0",
        lambda: instance(3, [[2]], [[1]], [job(1, 1, constant(0)), job(2, 2, step(9, 0), epochs=2)]),
    ),
    "urgent": (
        "a steep sigmoid: as early as it can be, at any price",
        lambda: instance(
            5, [[3], [2]], [[3]], [job(1, 4, sigmoid(50, 5, 2)), job(1, 3, sigmoid(40, 5, 1))], prices=("0.5", 6)
        ),
    ),
    "chunks_are_rounded_up": (
        "three quarters of a slot for a chunk: five worker-slots, of which whole chunks make six",
        lambda: instance(4, [[2]], [[2]], [job(1, 2, step(20, 3), epochs=3, tau="0.75")]),
    ),
    "chunk_longer_than_workers": (
        "a chunk of five halves with two workers: no slot trains a whole one, though the work fits",
        lambda: instance(4, [[2]], [[2]], [job(1, 2, step(20, 3), tau="5/2")]),
    ),
    "communication": (
        "2 x 8 x 250 Mbit at 100 Mbit/s are 40 s, 0.4 of a slot of 100 s, for each mini-batch",
        lambda: instance(5, [[3]], [[2]], [job(1, 3, linear(20, 2), tau="0.6", grad_mb=250, minibatches=2)]),
    ),
    "two_bottlenecks": (
        "the first server runs out of one resource, the second of the other",
        lambda: instance(
            3,
            [[4, 2], [1, 6]],
            [[3, 3]],
            [job(1, 4, linear(40, 3), worker=[1, 2], ps=[1, 1]), job(1, 2, linear(20, 3), worker=[2, 1], ps=[1, 1])],
        ),
    ),
    "prices_rise_until_rejection": (
        "five jobs alike, of one slot: each pays more than the one before, the last too much",
        lambda: instance(1, [[5]], [[5]], [job(1, 1, constant(9), ps_bw=100) for _ in range(5)], prices=("0.5", 32)),
    ),
    "order_of_the_file": (
        "of equal arrivals the first in the file comes first, though the second is worth more",
        lambda: instance(2, [[2]], [[2]], [job(1, 2, step(6, 1), epochs=2), job(1, 2, step(60, 1), epochs=2)]),
    ),
    "worth_that_underflows": (
        "derived prices where f(T - a) is e^-900: its logarithm is not, though it is 0 in doubles",
        lambda: instance(
            8, [[3]], [[3]], [job(1, 2, sigmoid(20, 150, 1), epochs=2), job(1, 2, sigmoid(30, 2, 3))], prices=None
        ),
    ),
    "derived_prices": (
        "prices from the file's own jobs, of two resources that they ask for unlike",
        lambda: instance(
            5,
            [[6, 8], [4, 4]],
            [[4, 4]],
            [
                job(1, 3, sigmoid(20, "0.5", 3), worker=[1, 2], ps=[1, 1], epochs=2),
                job(1, 2, linear(14, 2), worker=[2, 1], ps=[1, 2]),
                job(2, 2, step(9, 9), worker=[1, 1], ps=[2, 1], tau="3/4"),
            ],
            prices=None,
        ),
    ),
    "no_more_workers_than_chunks": (
        "six workers fit, and N is 2",
        lambda: instance(4, [[6]], [[3]], [job(1, 2, linear(20, 2), epochs=3)]),
    ),
    "parts_of_a_unit": (
        "a worker takes three quarters of a unit, and a server has five and a half",
        lambda: instance(
            3,
            [["5.5"]],
            [["2.5"]],
            [job(1, 7, linear(30, 2), worker=["0.75"], ps=["0.5"], epochs=2)],
            prices=("0.125", 8),
            initial_worker_usage=[[["0.25"]], [[2]], [["0.5"]]],
        ),
    ),
    "prices_as_logarithms": (
        "L and U as ln L and ln U, far below what a double can hold otherwise",
        lambda: instance(
            3,
            [[4]],
            [[4]],
            [job(1, 3, linear(20, 2)), job(1, 2, step(8, 2), epochs=2)],
            prices={"lnL1": -700, "lnL2": "-0.5", "lnU1": [2], "lnU2": ["2.5"]},
        ),
    ),
    "cheap_slots_between_dear_ones": (
        "machines change in number from slot to slot: many where it is idle, few or none where it is not",
        lambda: instance(
            5,
            [[4], [2]],
            [[4]],
            [job(1, 4, linear(30, 1), epochs=2), job(2, 3, sigmoid(20, 1, 2))],
            initial_worker_usage=[[[3], [2]], [[0], [1]], [[4], [0]], [[1], [0]], [[0], [0]]],
            initial_ps_usage=[[[3]], [[0]], [[2]], [[1]], [[0]]],
            prices=("0.25", 9),
        ),
    ),
}


def random_instance(seed: int) -> Document:
    """Two worker servers, one or two PS servers and one or two resources, and three jobs of any form of utility."""
    draw = Random(seed)
    resources, slots = draw.randrange(1, 3), draw.randrange(3, 6)
    workers = [[draw.randrange(2, 6) for _ in range(resources)] for _ in range(2)]
    pss = [[draw.randrange(2, 5) for _ in range(resources)] for _ in range(draw.randrange(1, 3))]

    def usage(rows: list[list[int]]) -> list[list[list[int]]]:
        return [[[draw.randrange(0, n) for n in row] for row in rows] for _ in range(slots)]

    def utility() -> Document:
        top = draw.randrange(6, 40)
        return draw.choice(
            [
                step(top, draw.randrange(1, slots)),
                sigmoid(top, f"{draw.randrange(1, 9)}/4", draw.randrange(1, slots)),
                linear(top, draw.randrange(1, 5)),
                constant(top),
            ]
        )

    jobs, arrival = [], 1
    for _ in range(3):
        arrival = min(slots, arrival + draw.randrange(0, 2))
        jobs.append(
            job(
                arrival,
                draw.randrange(1, 4),
                utility(),
                epochs=draw.randrange(1, 3),
                tau=f"{draw.randrange(2, 7)}/4",
                grad_mb=draw.choice([0, 0, 125]),
                ps_bw=draw.choice([100, 150, 250]),
                worker=[draw.randrange(1, 3) for _ in range(resources)],
                ps=[1] * resources,
            )
        )
    return instance(
        slots,
        workers,
        pss,
        jobs,
        prices=("0.25", draw.randrange(4, 20)),
        initial_worker_usage=usage(workers),
        initial_ps_usage=usage(pss),
    )


def answers(document: Document) -> Document:
    """What is expected of the prices, of each job alone, of the sequence, and in hindsight."""
    cluster = Cluster(document)
    used = cluster.first_usage()
    logs: Document = {}
    for pool, number in zip(POOLS, "12", strict=True):
        bounds = [cluster.logs[pool, r] for r in cluster.resources]
        logs[f"lnL{number}"], logs[f"lnU{number}"] = shown(bounds[0][0]), [shown(high) for _, high in bounds]
    found: Document = {"proof": PROOF, "ln_prices": logs, "isolated": []}
    for row in document["jobs"]:
        exact, whole = (
            best_of(Choice(*rest) for rest in cluster.plans(row, used, chunks=chunks)) for chunks in (False, True)
        )
        admitted = bool(exact) and exact[0].payoff > 0
        found["isolated"].append(
            {
                "id": row["id"],
                "rho": str(cluster.pace(row)),
                "worker_slots": cluster.worker_slots(row),
                "payoff": shown(exact[0].payoff) if admitted else 0.0,
                "t_hat": exact[0].t_hat if admitted else None,
                "payoff_chunk_dp": shown(whole[0].payoff) if whole and whole[0].payoff > 0 else 0.0,
                "feasible": bool(exact),
                "best_value_if_forced": shown(exact[0].payoff) if exact else None,
            }
        )
    for model in ("worker", "chunk"):
        with suppress(TooManyTies):
            online = decide_in_order(document["jobs"], used, partial(cluster.choices, chunks=model == "chunk"))
            found[f"online_{model}"] = online | {"total_utility": online.pop("welfare")}
    found["offline_optimum"] = shown(most_welfare(cluster))
    return found


def text(name: str, note: str, make: Callable[[], Document]) -> str:
    """The text of one file."""
    document = make()
    return document_text({"name": name, "note": note, "instance": document, "expected": answers(document)})


MAKERS = {f"cases/oasis/{name}.json": partial(text, name, note, make) for name, (note, make) in HAND_MADE.items()} | {
    f"cases/oasis/random_{seed}.json": partial(
        text, f"random_{seed}", "drawn from its seed", partial(random_instance, seed)
    )
    for seed in SEEDS
}
"""The text of each file, by its path in `tests/data`."""
