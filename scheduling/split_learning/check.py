"""Check a plan against constraints (1) to (9) and the makespan (10) of the paper, without the code that makes plans."""

from collections.abc import Iterator
from itertools import pairwise

from scheduling.split_learning.instance import Instance
from scheduling.split_learning.plan import Pieces, Plan


def violations(plan: Plan) -> list[str]:
    """Return every violated constraint of a plan, with the client or helper; empty if the plan is valid."""
    return [*_assigned(plan), *_passes(plan), *_alone(plan)]


def _assigned(plan: Plan) -> Iterator[str]:
    instance = plan.instance
    if plan.assignment.shape != (len(instance.clients),):
        yield f"(4) {plan.assignment.shape} helpers for {len(instance.clients)} clients"
        return
    taken = [0] * len(instance.helpers)
    for j, i in enumerate(plan.assignment.tolist()):
        if not 0 <= i < len(instance.helpers):
            yield f"(4) client {instance.clients[j]} has helper {i} of {len(instance.helpers)}"
        else:
            taken[i] += int(instance.demand[j])
    for i, (bytes_taken, there) in enumerate(zip(taken, instance.capacity.tolist(), strict=True)):
        if bytes_taken > there:
            yield f"(5) helper {instance.helpers[i]} holds {bytes_taken} of {there} bytes"


def _passes(plan: Plan) -> Iterator[str]:
    instance = plan.instance
    for j, (i, name) in enumerate(zip(plan.assignment.tolist(), instance.clients, strict=True)):
        forward, backward = plan.forward[j], plan.backward[j]
        if not _in_order(forward) or not _in_order(backward):
            yield f"client {name} has pieces that are empty, touch or go back in time"
            continue
        if _length(forward) != instance.forward[i, j]:
            yield f"(6) client {name} runs forward for {_length(forward)} of {instance.forward[i, j]} slots"
        if _length(backward) != instance.backward[i, j]:
            yield f"(7) client {name} runs backward for {_length(backward)} of {instance.backward[i, j]} slots"
        if forward and forward[0][0] < instance.release[i, j]:
            yield f"(1) client {name} runs forward from {forward[0][0]}, before {instance.release[i, j]}"
        there = _backward_there(instance, i, j, forward)
        if backward and backward[0][0] < there:
            yield f"(2) client {name} runs backward from {backward[0][0]}, before {there}"
        over = (backward[-1][1] if backward else there) + 2 * max(1, len(backward)) * int(instance.switch[i])
        over += int(instance.tail[i, j])
        if over != plan.completion[j]:
            yield f"(8), (9) client {name} is over at {over}, not at {plan.completion[j]}"
    if plan.makespan != max(plan.completion.tolist()):
        yield f"(10) makespan {plan.makespan}"


def _backward_there(instance: Instance, i: int, j: int, forward: Pieces) -> int:
    ended = forward[-1][1] if forward else int(instance.release[i, j])
    return ended + 2 * max(1, len(forward)) * int(instance.switch[i]) + int(instance.gap[i, j])


def _alone(plan: Plan) -> Iterator[str]:
    instance = plan.instance
    busy: list[list[tuple[int, int, int]]] = [[] for _ in instance.helpers]
    for j, i in enumerate(plan.assignment.tolist()):
        busy[i] += [(start, end, j) for start, end in (*plan.forward[j], *plan.backward[j])]
    for i, rows in enumerate(busy):
        rows.sort()
        for (_, end, j), (start, _, k) in pairwise(rows):
            if start < end:
                yield (
                    f"(3) helper {instance.helpers[i]} runs clients {instance.clients[j]} and {instance.clients[k]} at"
                    f" slot {start}"
                )


def _in_order(row: Pieces) -> bool:
    return all(start < end for start, end in row) and all(a[1] < b[0] for a, b in pairwise(row))


def _length(row: Pieces) -> int:
    return sum(end - start for start, end in row)
