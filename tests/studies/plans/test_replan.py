"""Plans made again: assignments are kept, changes are reported, wrong ones are named."""

from copy import deepcopy
from threading import Event
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from scheduling.model.errors import InvalidField
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.instance import MOST_CLIENTS, TIMES, Instance
from studies.background import states
from studies.job_tables import PLANS
from studies.models import ComparisonKind, Plan
from studies.split_learning.api.examples import TINY
from studies.split_learning.changes import changed
from studies.split_learning.plans.child import answer
from studies.split_learning.plans.computing import order_of
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import compare_methods, submit_extra_helper, submit_replan
from studies.split_learning.schemas.changes import ChangesIn
from tests.studies.plans.conftest import URL, submitted
from tests.studies.plans.here import compute_here

INSTANCE = read_split_learning(TINY)
MINE = {"release": 1, "forward": 2, "gap": 3, "backward": 4, "tail": 5}


def changed_by(instance: Instance, document: object) -> Instance:
    """The instance after the changes of a document."""
    return changed(instance, ChangesIn.read(document))


def made(api: APIClient, plan: Plan, changes: Any) -> Any:
    """The answer once the plan is there."""
    answer = api.post(f"{URL}/{plan.pk}/replan", {"changes": changes}, format="json")
    assert answer.status_code == 202, answer.content
    assert compute_here()
    return api.get(answer["Location"]).json()


def test_the_first_that_is_reported_says_what_changes(api: APIClient, done: Plan) -> None:
    body = {"changes": {"drop": ["phone"], "slower_helpers": {"vm": 5}}}
    assert api.post(f"{URL}/{done.pk}/replan", body, format="json").status_code == 202
    attempt = states.claim_next(PLANS)
    answered: list[Any] = []
    assert attempt is not None
    answer(order_of(attempt), Event(), answered.append)
    first = next(row["best"] for row in answered if "best" in row)
    assert [row["what"] for row in first["changes"] if row["client"] == "phone"] == ["dropped"]
    assert first["summary"] == answered[-1]["plan"]["summary"]


def test_kept_clients_stay_and_changes_are_reported(api: APIClient, done: Plan) -> None:
    changes = {"drop": ["phone"], "slower": {"camera": 2}, "join": [{"name": "drone", "like": "tablet"}]}
    answered = made(api, done, changes)
    assert (answered["state"], answered["of"], answered["comparison"], answered["method"]) == (
        "completed",
        done.pk,
        "replan",
        "replan",
    )
    rows = {row["client"]: row for row in answered["result"]["changes"]}
    assert {name: row["what"] for name, row in rows.items()} == {
        "phone": "dropped",
        "camera": "kept",
        "tablet": "kept",
        "drone": "joined",
    }
    before = {row["client"]: row for row in api.get(f"{URL}/{done.pk}").json()["result"]["clients"]}
    now = {row["client"]: row for row in answered["result"]["clients"]}
    for name in ("camera", "tablet"):
        assert now[name]["helper"] == before[name]["helper"]
        assert rows[name]["completion_before"] == before[name]["completion"]
        assert rows[name]["completion"] == now[name]["completion"]
    assert rows["phone"]["helper"] is rows["phone"]["completion"] is None
    assert answered["lower_bound"] <= answered["result"]["from_scratch"] <= answered["makespan"]
    assert answered["steps"][0]["note"] == "2 kept, 1 joined, 1 dropped"


def test_who_had_a_helper_that_is_gone_moves(api: APIClient, done: Plan) -> None:
    assert done.result is not None
    stay = {"vm": 0, "laptop": 1}
    answered = made(api, done, {"gone": ["laptop"]})
    for row, helper in zip(answered["result"]["changes"], done.result["assignment"], strict=True):
        assert row["what"] == ("kept" if helper == stay["vm"] else "moved")
        assert row["helper"] == "vm"


def test_without_changes_of_times_the_plan_is_as_good_as_before(alice: User, done: Plan) -> None:
    same = submit_replan(alice, done, PlanRequest.to_replan(done, {"instance": TINY}))
    assert compute_here()
    same.refresh_from_db()
    assert same.makespan == done.makespan
    assert same.result is not None
    assert same.result["assignment"] == (done.result or {})["assignment"]


def test_a_whole_instance_that_leaves_no_room_fails_in_words(alice: User, done: Plan) -> None:
    full = deepcopy(TINY)
    for row in full["helpers"]:
        row["memory_gb"] = 3
    full["clients"] = full["clients"][:2]
    for name in TIMES:
        full[name] = [row[:2] for row in full[name]]
    again = submit_replan(alice, done, PlanRequest.to_replan(done, {"instance": full}))
    assert compute_here()
    again.refresh_from_db()
    both = (done.result or {})["assignment"][0] == (done.result or {})["assignment"][1]
    assert again.state == ("failed" if both else "completed")
    assert not both or "helper" in again.error


def test_a_plan_made_again_is_planned_further(alice: User, done: Plan) -> None:
    again = submit_replan(alice, done, PlanRequest.to_replan(done, {"changes": {"slower": {"phone": 3}}}))
    others = compare_methods(alice, again)
    assert {other.method for other in others} >= {"exact", "balanced-greedy"}
    assert submit_extra_helper(alice, again).method == "exact"
    while compute_here():
        pass
    again.refresh_from_db()
    assert (again.comparison, again.makespan is None) == (ComparisonKind.REPLAN, False)


def test_a_plan_that_is_not_there_is_not_made_again(api: APIClient, alice: User) -> None:
    waiting = submitted(alice)
    answer = api.post(f"{URL}/{waiting.pk}/replan", {"changes": {"drop": ["phone"]}}, format="json")
    assert answer.status_code == 409
    assert "queued" in answer.json()["detail"]


def test_factors_are_of_own_times_and_rounded_up() -> None:
    slow = changed_by(INSTANCE, {"slower": {"tablet": 1.5}, "slower_helpers": {"vm": "1.1"}})
    assert slow.release[:, 2].tolist() == [5, 5]
    assert slow.gap[:, 2].tolist() == [3, 3]
    assert slow.tail[:, 2].tolist() == [5, 5]
    assert slow.release[:, :2].tolist() == INSTANCE.release[:, :2].tolist()
    assert slow.forward.tolist() == [[4, 4, 5], [6, 6, 8]]
    assert slow.backward.tolist() == [[6, 6, 7], [9, 9, 12]]


@pytest.mark.parametrize("factor", [1.1, "1.1"])
def test_factors_count_as_they_are_written(factor: float | str) -> None:
    ten = changed_by(INSTANCE, {"times": [{"client": "camera", "release": 10, "gap": 10, "tail": 10}]})
    slow = changed_by(ten, {"slower": {"camera": factor}})
    assert [getattr(slow, name)[:, 1].tolist() for name in ("release", "gap", "tail")] == [[11, 11]] * 3


def test_times_are_set_and_clients_join_with_their_own() -> None:
    there = {"client": "phone", "helper": "vm", "tail": 9}
    everywhere = {"client": "camera", "gap": 7}
    join = {"name": "drone", "demand_gb": "1.5", "times": {"vm": MINE, "laptop": {**MINE, "tail": 6}}}
    new = changed_by(INSTANCE, {"times": [there, everywhere], "join": [join], "drop": ["tablet"]})
    assert new.clients == ("phone", "camera", "drone")
    assert new.tail.tolist() == [[9, 8, 5], [5, 6, 6]]
    assert new.gap[:, 1].tolist() == [7, 7]
    assert new.demand.tolist() == [2 * 10**9, 2 * 10**9, 1_500_000_000]


def test_of_two_rows_for_the_same_time_the_later_one_counts() -> None:
    rows = [{"client": "phone", "tail": 9}, {"client": "phone", "helper": "vm", "tail": 7}]
    assert changed_by(INSTANCE, {"times": rows}).tail[:, 0].tolist() == [7, 9]
    assert changed_by(INSTANCE, {"times": rows[::-1]}).tail[:, 0].tolist() == [9, 9]


def test_a_client_that_joins_needs_no_times_with_a_helper_that_is_gone() -> None:
    join = {"name": "drone", "demand_gb": 1, "times": {"vm": MINE}}
    new = changed_by(INSTANCE, {"gone": ["laptop"], "drop": ["camera"], "join": [join]})
    assert (new.helpers, new.clients) == (("vm",), ("phone", "tablet", "drone"))
    assert new.tail[0, 2] == MINE["tail"]
    # A copy has the times of its original.
    like = {"name": "drone", "like": "phone"}
    assert changed_by(INSTANCE, {"gone": ["laptop"], "drop": ["camera"], "join": [like]}).tail.tolist() == [
        [*INSTANCE.tail[0, [0, 2]].tolist(), INSTANCE.tail[0, 0]]
    ]


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({}, "changes", "at least one"),
        ({"drop": []}, "changes", "at least one"),
        ({"drop": ["fridge"]}, "changes.drop[0]", "expected a client (phone"),
        ({"drop": "phone"}, "changes.drop", "list"),
        ({"drop": ["phone", "camera", "tablet"]}, "changes.drop", "expected at least one client to be left, got none"),
        ({"gone": ["vm", "laptop"]}, "changes.gone", "expected at least one helper to be left, got none"),
        ({"gone": ["phone"]}, "changes.gone[0]", "expected a helper (vm"),
        ({"gone": ["vm"], "drop": ["camera"]}, "changes", "GB of all clients together"),
        ({"slower": {"fridge": 2}}, "changes.slower.fridge", "expected a client ("),
        ({"slower": {"phone": -1}}, "changes.slower.phone", "0 to 1,000"),
        ({"slower": ["phone"]}, "changes.slower", "an object"),
        ({"slower": {"phone": 1000}, "times": [{"client": "phone", "gap": 10**10}]}, "changes.times[0].gap", "0 to"),
        ({"times": [{"helper": "vm"}]}, "changes.times[0].client", "missing"),
        ({"times": [{"client": "phone", "helper": "vm"}]}, "changes.times[0]", "at least one of release, forward, gap"),
        ({"join": [{"name": "phone", "like": "camera"}]}, "changes.join[0].name", "expected a name that no client has"),
        ({"join": [{"name": "", "like": "camera"}]}, "changes.join[0].name", "characters"),
        ({"join": [{"name": "a\nb", "like": "camera"}]}, "changes.join[0].name", "without control characters"),
        ({"join": [{"name": "x"}]}, "changes.join[0]", "either like"),
        ({"join": [{"name": "x", "like": "phone", "demand_gb": 1}]}, "changes.join[0]", "either like"),
        (
            {"join": [{"name": "x", "demand_gb": 1, "times": {"vm": MINE}}]},
            "changes.join[0].times.laptop",
            "missing",
        ),
        ({"join": [{"name": "x", "demand_gb": 99, "times": {"vm": MINE, "laptop": MINE}}]}, "changes", "client x"),
        ({"surprise": 1}, "changes.surprise", "unknown"),
    ],
)
def test_a_change_that_is_wrong_is_named(api: APIClient, done: Plan, changes: Any, field: str, words: str) -> None:
    answer = api.post(f"{URL}/{done.pk}/replan", {"changes": changes}, format="json")
    assert answer.status_code == 400, answer.content
    (row,) = answer.json()["errors"]
    assert (row["field"], words in row["message"]) == (field, True), row
    assert Plan.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"drop": ["fridge", "phone", "kettle"]}, ["drop[0]", "drop[2]"]),
        ({"slower": {"fridge": 2, "phone": 2, "kettle": 3}}, ["slower.fridge", "slower.kettle"]),
        (
            {"join": [{"name": "x", "demand_gb": 1, "times": {"hut": MINE}}]},
            ["join[0].times.vm", "join[0].times.laptop"],
        ),
        (
            {"join": [{"name": "x", "demand_gb": 1, "times": dict.fromkeys(("vm", "laptop", "hut", "den"), MINE)}]},
            ["join[0].times.hut", "join[0].times.den"],
        ),
    ],
)
def test_all_unknown_names_of_a_change_are_named(api: APIClient, done: Plan, changes: Any, fields: list[str]) -> None:
    answer = api.post(f"{URL}/{done.pk}/replan", {"changes": changes}, format="json")
    assert answer.status_code == 400, answer.content
    assert [row["field"] for row in answer.json()["errors"]] == [f"changes.{field}" for field in fields]


def test_thousands_may_join_and_a_flood_is_refused_before_it_is_read() -> None:
    joining = [{"name": f"drone-{n}", "like": "tablet" if not n else f"drone-{n - 1}"} for n in range(MOST_CLIENTS)]
    much = {"helpers": [{"name": "vm", "memory_gb": 10**6}], "clients": [{"name": "tablet", "demand_gb": 1}]}
    instance = read_split_learning(much | {name: [[7]] for name in TIMES})
    after = changed_by(instance, {"join": joining[:-1]})
    assert after.clients[-1] == f"drone-{MOST_CLIENTS - 2}"
    for name in TIMES:
        assert (getattr(after, name) == 7).all()
    with pytest.raises(InvalidField, match=f"^join: expected at most {MOST_CLIENTS}"):
        changed_by(instance, {"join": [None] * 1_000_000})


def test_changes_or_an_instance_are_needed_and_not_both(api: APIClient, done: Plan) -> None:
    for body in ({}, {"changes": {"drop": ["phone"]}, "instance": TINY}):
        answer = api.post(f"{URL}/{done.pk}/replan", body, format="json")
        assert [row["field"] for row in answer.json()["errors"]] == ["changes"]
