"""Instances of split learning: by hand, tiny, with a plan that was there first, and of measured devices."""

from collections.abc import Callable
from functools import partial
from itertools import product
from random import Random
from typing import Any

from tests.data.make.text import document_text
from tests.scheduling.twins.documents import split_learning as twin
from tests.scheduling.twins.documents import split_learning_profile as profile
from tests.scheduling.twins.documents.numbers import Document

TINY = range(1, 13)
PLANTED = (
    ("loose", 10, 2),
    ("loose", 15, 3),
    ("loose", 30, 5),
    ("loose", 50, 10),
    ("tight", 10, 2),
    ("tight", 15, 3),
    ("tight", 30, 5),
    ("tight", 50, 10),
)
DEVICES = (
    ("resnet101", 1, 10, 2, 1),
    ("resnet101", 2, 10, 2, 1),
    ("resnet101", 1, 15, 5, 2),
    ("resnet101", 2, 30, 5, 2),
    ("vgg19", 1, 10, 2, 1),
    ("vgg19", 2, 10, 2, 1),
    ("vgg19", 1, 30, 5, 2),
    ("vgg19", 2, 15, 5, 2),
)
"""Model, scenario, clients, helpers and the first seed that is tried."""
SLOT_MS = {"resnet101": 180, "vgg19": 550}
PAPERS_CUTS = {"resnet101": [3, 33], "vgg19": [3, 23]}
CUTS = {"resnet101": ((2, 3, 4), (32, 33, 34)), "vgg19": ((2, 3, 4), (21, 22, 23))}
HELPERS = ("vm", "m1")
CLIENTS = ("rpi4", "rpi3", "jetson-cpu", "jetson-gpu")


class NotProven(Exception):
    """No plan was found that is as short as the bound."""


def instance(
    times: dict[str, list[list[int]]], demand: list[Any], memory: list[Any], slot_ms: int = 100, **other: Any
) -> Document:
    """Memory in GB."""
    return {
        "slot_ms": slot_ms,
        "helpers": [{"memory_gb": gb} for gb in memory],
        "clients": [{"demand_gb": gb} for gb in demand],
        **times,
        **other,
    }


def one_helper(*rows: tuple[int, int, int, int, int]) -> Document:
    """Clients of one helper with memory for all: release, forward, gap, backward, tail."""
    times = {name: [[row[k] for row in rows]] for k, name in enumerate(twin.TIMES)}
    return instance(times, [1] * len(rows), [len(rows)])


def alike(helpers: int, *rows: tuple[int, int, int, int, int]) -> dict[str, list[list[int]]]:
    """The same times at every helper."""
    return {name: [[row[k] for row in rows] for _ in range(helpers)] for k, name in enumerate(twin.TIMES)}


HAND_MADE: dict[str, tuple[str, int, Callable[[], Document]]] = {
    "one_client": (
        "nobody else is there: 2 + 3 + 4 + 3 + 1 slots",
        13,
        lambda: one_helper((2, 3, 4, 3, 1)),
    ),
    "gap_counted_once": (
        "the gap is both ways between the passes together, 3 + 5 slots, and no part of it is counted twice: 14 in all",
        14,
        lambda: instance(
            {
                "release": [[1]],
                "forward": [[2]],
                "tail_forward": [[3]],
                "head_backward": [[5]],
                "gap": [[8]],
                "backward": [[2]],
                "tail": [[1]],
            },
            [1],
            [1],
        ),
    ),
    "interrupting_pays": (
        "a pass of 6 slots from 0, and at 2 one of 1 slot that has 9 + 1 + 1 after it: interrupted, the first ends its "
        "forward pass at 7, its backward pass at 8 and its tail at 14; if it waited the second would end at 18",
        14,
        lambda: one_helper((0, 6, 0, 1, 6), (2, 1, 9, 1, 1)),
    ),
    "largest_tail_first": (
        "three passes there at 0: in the order of their tails, 9, 4 and 1, all are over at 1 + 1 + 9 or before",
        11,
        lambda: one_helper((0, 1, 0, 1, 1), (0, 1, 0, 1, 9), (0, 1, 0, 1, 4)),
    ),
    "memory_divides_in_one_way": (
        "5 + 4 on one helper and 3 + 3 + 3 on the other is the only division: three clients of 1 + 2 slots each and no "
        "other wait are 1 + 9 + 1",
        11,
        lambda: instance(alike(2, *[(1, 1, 0, 2, 1)] * 5), [5, 4, 3, 3, 3], [9, 9]),
    ),
    "slow_helper_stays_idle": (
        "the second helper takes ten times as long: both clients are better off one after the other at the first",
        7,
        lambda: instance(
            {
                "release": [[1, 1], [1, 1]],
                "forward": [[1, 1], [10, 10]],
                "gap": [[0, 0], [0, 0]],
                "backward": [[1, 1], [10, 10]],
                "tail": [[2, 2], [2, 2]],
            },
            [1, 1],
            [2, 2],
        ),
    ),
    "longest_path_decides": (
        "one client's own path is longer than all work of the others: 8 + 2 + 15 + 3 + 4",
        32,
        lambda: instance(alike(2, (8, 2, 15, 3, 4), *[(1, 2, 3, 2, 1)] * 4), [1] * 5, [3, 3]),
    ),
}


def tiny(seed: int) -> Document:
    """Three or four clients and two helpers, times of a few slots, little memory for every second seed."""
    draw = Random(seed)
    clients, helpers = draw.randrange(3, 5), 2
    longest = {"release": 4, "forward": 4, "gap": 5, "backward": 5, "tail": 5}
    times = {
        name: [
            [draw.randrange(int(name in ("forward", "backward")), most) for _ in range(clients)] for _ in range(helpers)
        ]
        for name, most in longest.items()
    }
    demand = [draw.randrange(1, 4) for _ in range(clients)]
    each = -(-sum(demand) // helpers) + (0 if seed % 2 else max(demand))
    return instance(times, demand, [max(each, max(demand))] * helpers)


def planted(kind: str, clients: int, helpers: int) -> tuple[Document, twin.Plan]:
    """An instance made around a plan in which every helper works from the first release until the last tail.

    Own passes come in any order; release, gap and tail are what the plan leaves or less, other helpers are as slow or
    slower. `tight`: helpers have 8 % more memory than the plan needs; `loose`: twice as much.
    """
    draw = Random(f"{kind} {clients} {helpers}")
    first, last = draw.randrange(3, 9), draw.randrange(3, 9)
    assignment = [j % helpers for j in range(clients)]
    draw.shuffle(assignment)
    mine = [[j for j in range(clients) if assignment[j] == i] for i in range(helpers)]
    lengths = _same_work(draw, mine, [[draw.randrange(2, 9), draw.randrange(3, 13)] for _ in range(clients)])
    plan = twin.Plan(assignment, [[] for _ in range(clients)], [[] for _ in range(clients)])
    for rows in mine:
        now, left = first, [(0, j) for j in rows]
        while left:
            phase, j = left.pop(draw.randrange(len(left)))
            (plan.forward, plan.backward)[phase][j] += range(now, now + lengths[j][phase])
            now += lengths[j][phase]
            left += [(1, j)] * (phase == 0)
    end = max(max(slots) for slots in plan.backward) + 1
    times: dict[str, list[list[int]]] = {name: [[0] * clients for _ in range(helpers)] for name in twin.TIMES}
    for j in range(clients):
        room = {
            "release": min(plan.forward[j]) - first,
            "gap": min(plan.backward[j]) - max(plan.forward[j]) - 1,
            "tail": end - max(plan.backward[j]) - 1,
        }
        own = {name: most - draw.randrange(0, 1 + most // 3) for name, most in room.items()}
        own |= {"release": own["release"] + first, "tail": own["tail"] + last}
        own |= {"forward": lengths[j][0], "backward": lengths[j][1]}
        for i, name in product(range(helpers), twin.TIMES):
            times[name][i][j] = own[name] + (0 if i == assignment[j] else draw.randrange(0, 1 + own[name] // 3))
    demand = [draw.randrange(600, 2000) for _ in range(clients)]
    memory = [sum(demand[j] for j in rows) * (200 if kind == "loose" else 108) // 100 for rows in mine]
    return instance(times, [gb / 1000 for gb in demand], [gb / 1000 for gb in memory]), plan


def _same_work(draw: Random, mine: list[list[int]], lengths: list[list[int]]) -> list[list[int]]:
    """Longer passes where helpers have less to do than another one, so that none of them can be over sooner."""
    work = [sum(sum(lengths[j]) for j in rows) for rows in mine]
    for rows, done in zip(mine, work, strict=True):
        for _ in range(max(work) - done):
            lengths[draw.choice(rows)][draw.randrange(2)] += 1
    return lengths


def of_devices(model: str, scenario: int, clients: int, helpers: int, seed: int) -> Document:
    """Measured devices (1) or ones between two of them, with cuts of their own and little memory (2)."""
    draw = Random(f"{model} {scenario} {clients} {helpers} {seed}")

    def device(names: tuple[str, ...]) -> tuple[str, str, float]:
        if scenario == 1:
            name = draw.choice(names)
            return name, name, 0.0
        one, other = draw.sample(names, 2)
        return one, other, draw.randrange(0, 1000) / 1000

    first, second = CUTS[model]
    rows: list[Document] = []
    for _ in range(clients):
        cuts = PAPERS_CUTS[model] if scenario == 1 else [draw.choice(first), draw.choice(second)]
        rows.append({"device": device(CLIENTS), "cuts": cuts})
    places = [device(HELPERS) for _ in range(helpers)]
    mbps = [[draw.randrange(1, 21) for _ in rows] for _ in places]
    demand = [profile.demand(model, row["cuts"]) for row in rows]
    share = 16 * 2**30 if scenario == 1 else -(-sum(demand) * 5 // (4 * helpers)) + max(demand)
    return instance(
        profile.times(model, rows, places, mbps, SLOT_MS[model]),
        [one / 10**9 for one in demand],
        [share / 10**9] * helpers,
        SLOT_MS[model],
        meta={
            "model": model,
            "scenario": scenario,
            "seed": seed,
            "link_units": "si",
            "memory_units": "GB",
            "client_device": [list(row["device"]) for row in rows],
            "helper_device": [list(place) for place in places],
            "cut_layers": [row["cuts"] for row in rows],
            "mbps": mbps,
        },
    )


def shortest(batch: twin.Batch, *, tries: int) -> twin.Plan | None:
    """The shortest of a few simple plans, that by remaining paths after inserting clients one by one."""
    draw, found = Random(1), []
    for order in [*twin.orders(batch), *(draw.sample(batch.clients, len(batch.clients)) for _ in range(tries))]:
        plan = twin.inserted(batch, order)
        if plan is not None:
            found.append(plan)
            if twin.makespan(batch, plan) == twin.simple_bound(batch)[0]:
                break
    return min(found, key=lambda plan: twin.makespan(batch, plan), default=None)


def text(name: str, note: str, document: Document, makespan: int, proof: str) -> str:
    """The text of one file."""
    batch = twin.read(document)
    expected = {
        "proof": proof,
        "clients": len(batch.demand),
        "helpers": len(batch.capacity),
        "lower_bound": makespan,
        "best_makespan": makespan,
    }
    try:
        expected["balanced_greedy_makespan"] = twin.balanced_greedy(batch)
    except ValueError:
        expected["balanced_greedy_makespan"] = None
    return document_text({"name": name, "note": note} | document | {"expected": expected})


def by_hand(name: str, note: str, makespan: int, make: Callable[[], Document]) -> str:
    document = make()
    batch = twin.read(document)
    if twin.least(batch, makespan + 3) != makespan:
        raise NotProven(f"{name}: {twin.least(batch, makespan + 3)}, by hand {makespan}")
    return text(name, note, document, makespan, "by hand, and by an integer programme over slots")


def by_programme(name: str, seed: int) -> str:
    document = tiny(seed)
    batch = twin.read(document)
    known = shortest(batch, tries=5)
    at_most = (
        sum(max(batch.path(i, j) for i in batch.helpers) for j in batch.clients)
        if known is None
        else twin.makespan(batch, known)
    )
    return text(name, "drawn from its seed", document, twin.least(batch, at_most), "an integer programme over slots")


def by_its_plan(name: str, kind: str, clients: int, helpers: int) -> str:
    document, plan = planted(kind, clients, helpers)
    batch = twin.read(document)
    bound, why = twin.simple_bound(batch)
    if twin.makespan(batch, plan) != bound:
        raise NotProven(f"{name}: {twin.makespan(batch, plan)} slots, at least {bound}")
    note = f"made around a plan in which no helper is ever idle; {kind} memory"
    return text(name, note, document, bound, f"at least {why}; the plan that it was made around takes no more")


def by_a_simple_plan(name: str, model: str, scenario: int, clients: int, helpers: int, first: int) -> str:
    for seed in range(first, first + 100):
        document = of_devices(model, scenario, clients, helpers, seed)
        batch = twin.read(document)
        bound, why = twin.simple_bound(batch)
        plan = shortest(batch, tries=3)
        if plan is not None and twin.makespan(batch, plan) == bound:
            note = f"measured devices and links of 1 to 20 Mbit/s, as in the paper's scenario {scenario}"
            return text(name, note, document, bound, f"{why}; inserting clients one by one gives a plan as short")
    raise NotProven(f"{name}: no seed has a simple plan that is as short as its bound")


MAKERS = {
    f"cases/split_learning/{name}.json": make
    for name, make in (
        *((name, partial(by_hand, name, *row)) for name, row in HAND_MADE.items()),
        *((f"tiny-{seed}", partial(by_programme, f"tiny-{seed}", seed)) for seed in TINY),
        *(
            (f"stress-{kind}-j{j}-i{i}", partial(by_its_plan, f"stress-{kind}-j{j}-i{i}", kind, j, i))
            for kind, j, i in PLANTED
        ),
        *(
            (f"{m}-s{s}-j{j}-i{i}", partial(by_a_simple_plan, f"{m}-s{s}-j{j}-i{i}", m, s, j, i, seed))
            for m, s, j, i, seed in DEVICES
        ),
    )
}
"""The text of each file, by its path in `tests/data`."""
