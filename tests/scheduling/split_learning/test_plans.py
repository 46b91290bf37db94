"""Plans by static priorities against a slot-by-slot twin; the checker against plans broken on purpose."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduling.instances.fields import parse_document
from scheduling.model.errors import InvalidField
from scheduling.split_learning.check import violations
from scheduling.split_learning.document import instance_document, read_split_learning
from scheduling.split_learning.helper import MANY, span
from scheduling.split_learning.instance import TIMES, Instance
from scheduling.split_learning.plan import Pieces, Plan, by_priority, largest_path_first, merged
from tests.scheduling.split_learning.worlds import draw, read, split_groups


def slot_by_slot(plan: Plan) -> tuple[list[Pieces], list[Pieces]]:
    """What static priorities do, a slot at a time."""
    instance, assignment = plan.instance, plan.assignment.tolist()
    there = [instance.release[i, j] for j, i in enumerate(assignment)]
    left = [[instance.forward[i, j], instance.backward[i, j]] for j, i in enumerate(assignment)]
    ready = [[r, None] for r in there]
    slots: list[list[list[tuple[int, int]]]] = [[[], []] for _ in assignment]
    keys = (plan.key_forward, plan.key_backward)
    for t in range(instance.horizon + 1):
        for j, i in enumerate(assignment):
            if left[j][0] == 0 and ready[j][1] is None and t >= ready[j][0]:
                ready[j][1] = t + instance.gap[i, j]
        for i in range(len(instance.helpers)):
            mine = [j for j, helper in enumerate(assignment) if helper == i]
            able = [
                (-keys[kind][j], ready[j][kind], kind, j)
                for j in mine
                for kind in (0, 1)
                if ready[j][kind] is not None and ready[j][kind] <= t and left[j][kind]
            ]
            if able:
                *_, kind, j = min(able)
                left[j][kind] -= 1
                slots[j][kind].append((t, t + 1))
                if kind == 0 and left[j][0] == 0:
                    ready[j][1] = t + 1 + instance.gap[i, j]
    assert not any(x for row in left for x in row)
    return [merged(row[0]) for row in slots], [merged(row[1]) for row in slots]


def by_hand(rng: np.random.Generator, instance: Instance) -> Plan:
    helpers, clients = instance.release.shape
    keys = rng.integers(0, 4, (2, clients))
    return by_priority(instance, rng.integers(0, helpers, (clients,)), keys[0], keys[1])


@pytest.mark.thorough
def test_static_priorities_are_what_slots_say() -> None:
    rng = np.random.default_rng(4)
    for count in (*rng.integers(1, 6, 300), *range(2 * MANY - 3, 2 * MANY + 15)):
        plan = by_hand(rng, draw(rng, clients=int(count), helpers=int(rng.integers(1, 3))))
        forward, backward = slot_by_slot(plan)
        assert list(plan.forward) == forward
        assert list(plan.backward) == backward


def test_span_is_the_makespan_of_the_largest_path_first() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        instance = draw(rng, clients=int(rng.integers(1, 8)), helpers=1)
        times = [getattr(instance, name)[0] for name in TIMES]
        count = len(instance.clients)
        plan = largest_path_first(instance, np.zeros(count, dtype=np.int64))
        assert span(np.arange(count), count, *times) == plan.makespan
        assert not [fault for fault in violations(plan) if not fault.startswith("(5)")]


@pytest.mark.parametrize("paths", split_groups(every=10))
def test_plans_of_instance_files_pass_the_checker(paths: list[Path]) -> None:
    for path in paths:
        instance = read(path)
        assignment = np.argmin(instance.path, axis=0)
        faults = violations(largest_path_first(instance, assignment))
        assert all(fault.startswith("(5)") for fault in faults)


def test_the_checker_sees_each_constraint_broken() -> None:
    instance = Instance(
        release=np.array([[1, 2]]),
        forward=np.array([[2, 2]]),
        gap=np.array([[3, 3]]),
        backward=np.array([[2, 2]]),
        tail=np.array([[1, 1]]),
        demand=np.array([1, 1]),
        capacity=np.array([2]),
        switch=np.array([0]),
        helpers=("h",),
        clients=("a", "b"),
        slot_ms=1,
    )
    plan = largest_path_first(instance, np.zeros(2, dtype=np.int64))
    assert violations(plan) == []
    assert plan.forward == (((1, 3),), ((3, 5),))
    assert plan.backward == (((6, 8),), ((8, 10),))
    assert plan.completion.tolist() == [9, 11]

    def faults(**changed: Any) -> str:
        return " ".join(violations(replace(plan, **changed)))

    assert "(1) client a" in faults(forward=(((0, 2),), ((3, 5),)))
    assert "(2) client a" in faults(backward=(((5, 7),), ((8, 10),)))
    assert "(3) helper h" in faults(backward=(((6, 8),), ((7, 8), (9, 10))))
    assert "(6) client b" in faults(forward=(((1, 3),), ((3, 4),)))
    assert "(7) client b" in faults(backward=(((6, 8),), ((8, 11),)))
    assert "touch" in faults(forward=(((1, 2), (2, 3)), ((3, 5),)))


def test_switching_costs_count_each_start_and_stop() -> None:
    rng = np.random.default_rng(6)
    for _ in range(100):
        free = draw(rng, clients=4, helpers=2)
        costly = replace(free, switch=np.array([1, 2]))
        assignment = rng.integers(0, 2, 4)
        plan = largest_path_first(costly.uninterrupted(), assignment)
        assert plan.makespan >= largest_path_first(free, assignment).makespan
        own = replace(plan, instance=costly)
        once = all(len(row) <= 1 for row in (*plan.forward, *plan.backward))
        if once:
            assert not [fault for fault in violations(own) if not fault.startswith("(5)")]
            assert own.completion.tolist() == plan.completion.tolist()


@pytest.mark.parametrize("paths", split_groups(every=30))
def test_documents_come_back_as_they_were(paths: list[Path]) -> None:
    for path in paths:
        instance = read(path)
        again = read_split_learning(instance_document(instance))
        assert instance_document(again) == instance_document(instance)
        assert all((getattr(again, one) == getattr(instance, one)).all() for one in (*TIMES, "demand", "capacity"))


GOOD = """{"slot_ms": 10, "helpers": [{"memory_gb": 1.5, "name": "vm"}], "clients": [{"demand_gb": 1, "name": "pi"}],
"release": [[1]], "forward": [[1]], "gap": [[1]], "backward": [[1]], "tail": [[1]]}"""


@pytest.mark.parametrize(
    ("old", "new", "field", "words"),
    [
        ('"memory_gb": 1.5', '"memory_gb": 0.5', "clients[0].demand_gb", "got 1 GB (client pi)"),
        ('"memory_gb": 1.5', '"memory_gb": -1', "helpers[0].memory_gb", "expected 0 to 100,000,000, got -1 (vm)"),
        ('"memory_gb": 1.5', '"memory_gb": 1e9', "helpers[0].memory_gb", "expected 0 to 100,000,000, got"),
        ('"memory_gb": 1.5', '"memory_gb": "\u0661"', "helpers[0].memory_gb", "expected a finite number"),
        ('"demand_gb": 1', '"demand_gb": "1_0"', "clients[0].demand_gb", "(pi)"),
        ('"name": "vm"', '"name": "vm", "switch": -1', "helpers[0].switch", "got -1 (vm)"),
        ('"name": "vm"', '"name": "vm", "switch": 500000000', "helpers[0].switch", "at most 499999999"),
        ('"helpers": [{"memory_gb": 1.5, "name": "vm"}]', '"helpers": []', "helpers", "expected 1 to"),
        ('"clients": [{"demand_gb": 1, "name": "pi"}]', '"clients": []', "clients", "expected 1 to"),
        ('"release": [[1]]', '"release": [[-1]]', "release[0][0]", "helper vm, client pi"),
        ('"tail": [[1]]', '"tail": [[10000000000]]', "tail[0][0]", "helper vm, client pi"),
        ('"tail": [[1]]', '"tail": [[1.5]]', "tail[0][0]", "whole slots"),
        ('"tail": [[1]]', '"tail": [[true]]', "tail[0][0]", "whole slots"),
        ('"tail": [[1]]', '"tail": [[1, 2]]', "tail[0]", "expected 1 entries"),
        ('"gap": [[1]], ', "", "gap", "missing"),
        ('"gap": [[1]]', '"tail_forward": [[1]]', "head_backward", "missing"),
        ('"gap": [[1]]', '"gap": [[1]], "tail_forward": [[1]], "head_backward": [[1]]', "gap[0][0]", "= 2"),
        ('"slot_ms": 10', '"slot_ms": 0', "slot_ms", "1 to"),
    ],
)
def test_bad_instances_are_refused_by_name(old: str, new: str, field: str, words: str) -> None:
    assert old in GOOD
    read_split_learning(parse_document(GOOD))
    with pytest.raises(InvalidField) as caught:
        read_split_learning(parse_document(GOOD.replace(old, new)))
    assert caught.value.field == field
    assert words in caught.value.problem


def test_one_error_names_every_wrong_cell_switch_and_memory() -> None:
    document = instance_document(draw(np.random.default_rng(1), clients=3, helpers=2))
    document["release"][0][2] = document["release"][1][0] = -1
    document["tail_forward"] = [[1, 1, 1], [1, 1]]
    document["head_backward"] = [["a", 1, 1], [1, 1, 1]]
    document["helpers"][0]["switch"] = document["helpers"][1]["switch"] = "b"
    document["clients"][0]["demand_gb"] = document["clients"][2]["demand_gb"] = -1
    with pytest.raises(InvalidField) as caught:
        read_split_learning(document)
    assert {wrong.field for wrong in caught.value.all_wrong} == {
        *("release[0][2]", "release[1][0]", "tail_forward[1]", "head_backward[0][0]"),
        *("helpers[0].switch", "helpers[1].switch", "clients[0].demand_gb", "clients[2].demand_gb"),
    }


def test_of_a_large_table_fifty_wrong_cells_are_named() -> None:
    document = instance_document(draw(np.random.default_rng(1), clients=40, helpers=2))
    document["gap"] = [["a"] * 40, ["b"] * 40]
    with pytest.raises(InvalidField) as caught:
        read_split_learning(document)
    cells = [(0, j) for j in range(40)] + [(1, j) for j in range(10)]
    assert [wrong.field for wrong in caught.value.all_wrong] == [f"gap[{i}][{j}]" for i, j in cells]


def test_each_gap_that_is_not_the_sum_of_its_parts_is_named() -> None:
    document = instance_document(draw(np.random.default_rng(1), clients=2, helpers=1))
    document |= {"gap": [[3, 4]], "tail_forward": [[1, 1]], "head_backward": [[1, 1]]}
    with pytest.raises(InvalidField) as caught:
        read_split_learning(document)
    assert [wrong.field for wrong in caught.value.all_wrong] == ["gap[0][0]", "gap[0][1]"]


def test_memory_that_is_too_little_for_all_names_who_has_most() -> None:
    instance = draw(np.random.default_rng(1), clients=5, helpers=2)
    with pytest.raises(InvalidField, match=r"at most 1\.1 GB of all clients together") as caught:
        replace(instance, demand=10**8 * np.array([3, 1, 4, 1, 3]), capacity=10**8 * np.array([4, 7]))
    assert caught.value.field == "clients"
    helpers, clients = "(helper-1 0.7, helper-0 0.4)", "(client-2 0.4, client-0 0.3, client-4 0.3 and 2 more)"
    assert caught.value.problem.endswith(f"{helpers}, got 1.2 GB {clients}")
