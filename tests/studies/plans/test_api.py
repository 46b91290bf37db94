"""Plans through REST: create from JSON and CSV, read, list, cancel, delete, and errors."""

from copy import deepcopy
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from cluster.models import Capacity, Resource
from frontend.presenters.plan_charts import noise_rows
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.instance import TIMES
from studies.background.models import JobState
from studies.models import ComparisonKind, Plan, share_above
from studies.split_learning.api.examples import CSV, DESCRIBED, PLANS, TINY
from studies.split_learning.changes import best_helper, one_more_helper
from studies.split_learning.plans.noise import Draws, noise_of
from studies.split_learning.plans.submission import compare_methods, submit_extra_helper
from tests.auctions.worlds import make_cluster
from tests.studies.plans.conftest import URL, submitted, tiny
from tests.studies.plans.here import compute_here


def refused(answer: Any) -> dict[str, str]:
    """Fields that were wrong, and how."""
    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"].startswith("application/problem+json")
    return {row["field"]: row["message"] for row in answer.json()["errors"]}


def test_a_plan_is_asked_for_computed_and_read(api: APIClient) -> None:
    answer = api.post(URL, tiny(label="mine"), format="json")
    assert answer.status_code == 202, answer.content
    where = answer["Location"]
    waiting = api.get(where).json()
    assert (waiting["state"], waiting["result"], waiting["makespan"], waiting["label"]) == (
        "queued",
        None,
        None,
        "mine",
    )
    assert api.get(f"{where}/schedule.csv").status_code == 404
    assert compute_here()
    done = api.get(where).json()
    assert (done["state"], done["gap"], done["optimal"]) == ("completed", 0.0, True)
    assert done["result"]["makespan"] == max(row["completion"] for row in done["result"]["clients"])
    assert {row["client"] for row in done["result"]["clients"]} == {"phone", "camera", "tablet"}
    assert done["steps"][-1]["makespan"] == done["makespan"]
    assert read_split_learning(done["instance"]).helpers == ("vm", "laptop")
    lines = api.get(f"{where}/schedule.csv", headers={"Accept": "text/csv"}).content.decode().splitlines()
    assert lines[0] == "helper,client,pass,start_slot,end_slot,start_s,end_s"
    assert len(lines) >= 1 + 2 * 3
    assert api.delete(where).status_code == 204
    assert api.get(where).status_code == 404


def test_csv_says_the_same_as_json(api: APIClient) -> None:
    path = f"{URL}?method=balanced-greedy&seconds=2.5&seed=4&slot_ms=50&label=from+a+table"
    answer = api.post(path, CSV, content_type="text/csv")
    assert answer.status_code == 202, answer.content
    plan = answer.json()
    assert [plan[name] for name in ("method", "seconds", "seed", "slot_ms")] == ["balanced-greedy", 2.5, 4, 50]
    instance = read_split_learning(plan["instance"])
    assert (instance.helpers, instance.clients) == (("vm", "laptop"), ("phone", "camera"))
    assert instance.capacity.tolist() == [8 * 10**9, 4 * 10**9]
    assert instance.forward.tolist() == [[3, 3], [6, 6]]
    assert instance.tail.tolist() == [[4, 8], [5, 6]]


def test_an_empty_table_is_refused(api: APIClient) -> None:
    assert list(refused(api.post(URL, "", content_type="text/csv"))) == ["line 1"]


@pytest.mark.parametrize(
    ("before", "after", "field", "words"),
    [
        ("helper,client", "helper,customer", "line 1", "columns"),
        ("vm,camera,,2,7,3,3,5,8\n", "", "rows", "helper vm, client camera"),
        ("vm,camera,,2,7", "vm,phone,,2,7", "line 3", "expected each pair once"),
        ("vm,camera,,2,7", "vm,camera,,2,-7", "line 3, release", "whole slots"),
        ("vm,camera,,2,7", "vm,camera,,2,7.5", "line 3, release", "whole slots"),
        ("vm,camera,,2,7", "vm,camera,9,2,7", "line 3, memory_gb", "expected 8 as in earlier rows of helper vm"),
        ("vm,camera,,2,7", "vm,camera,,2", "line 3", "cells"),
        ("vm,camera", ",camera", "line 3, helper", "missing"),
        ("vm,camera", '"vm,camera', "line 5", "expected CSV"),
        ("laptop,phone,4", "laptop,phone,", "instance.helpers[1].memory_gb", "missing"),
        ("vm,camera,,2,7", "vm,camera,,many,7", "instance.clients[1].demand_gb", "camera"),
    ],
)
def test_a_table_that_is_wrong_is_refused_by_its_line(
    api: APIClient, before: str, after: str, field: str, words: str
) -> None:
    assert before in CSV
    found = refused(api.post(URL, CSV.replace(before, after), content_type="text/csv"))
    assert list(found) == [field]
    assert words in found[field]
    assert not Plan.objects.exists()


def test_every_wrong_cell_of_a_table_is_named(api: APIClient) -> None:
    table = CSV.replace("vm,camera,,2,7,3", "vm,camera,9,2,seven,3.5").replace("laptop,phone,4", ",phone,4")
    found = refused(api.post(URL, table + "laptop,tablet\n", content_type="text/csv"))
    assert list(found) == ["line 3, memory_gb", "line 3, release", "line 3, forward", "line 4, helper", "line 6"]


def test_missing_pairs_of_a_table_are_counted(api: APIClient) -> None:
    table = CSV + "laptop,tablet,,2,4,3,2,5,4\nlaptop,watch,,2,4,3,2,5,4\n"
    found = refused(api.post(URL, table, content_type="text/csv"))
    assert found["rows"].endswith("got none for helper vm, client tablet and for 1 more")


WRONG: list[tuple[tuple[Any, ...], Any, str, str]] = [
    (("method",), "magic", "method", "exact"),
    (("method",), 3, "method", "got 3"),
    (("seconds",), 0, "seconds", "0.1"),
    (("seconds",), 601, "seconds", "600"),
    (("seconds",), True, "seconds", "number"),
    (("seed",), -1, "seed", "0 to"),
    (("label",), "x" * 121, "label", "120"),
    (("surprise",), 1, "surprise", "unknown"),
    (("cluster",), "mars", "cluster", "expected a cluster, got 'mars'"),
    (("instance",), [], "instance", "object"),
    (("instance", "helpers"), [], "instance.helpers", "expected 1 to"),
    (("instance", "release", 1, 2), -3, "instance.release[1][2]", "helper laptop, client tablet"),
    (("instance", "tail", 0, 1), 10**12, "instance.tail[0][1]", "helper vm, client camera"),
    (("instance", "helpers", 1, "name"), "lap\ttop", "instance.helpers[1].name", "without control characters"),
    (("instance", "clients", 0, "name"), "pho\u202ene", "instance.clients[0].name", "without control characters"),
    (("instance", "clients", 2, "demand_gb"), 9, "instance.clients[2].demand_gb", "tablet"),
    (("instance", "helpers", 0, "memory_gb"), 1, "instance.clients", "together"),
    (("instance", "helpers", 1, "name"), "vm", "instance.helpers", "more than once"),
    (("instance", "gap"), [[1, 2, 3]], "instance.gap", "2 entries"),
]


@pytest.mark.parametrize(("path", "value", "field", "words"), WRONG)
def test_what_is_wrong_is_named(api: APIClient, path: tuple[Any, ...], value: Any, field: str, words: str) -> None:
    body = tiny()
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    found = refused(api.post(URL, body, format="json"))
    assert list(found) == [field]
    assert words in found[field]
    assert not Plan.objects.exists()


def test_all_names_that_are_no_lines_are_named(api: APIClient) -> None:
    body = tiny()
    body["instance"]["helpers"][0]["name"], body["instance"]["clients"][1]["name"] = "v\nm", "came\x7fra"
    assert list(refused(api.post(URL, body, format="json"))) == ["instance.helpers[0].name", "instance.clients[1].name"]


def test_memory_counts_as_it_is_written(api: APIClient) -> None:
    """The double of 0.1 is a little more than a tenth: three of them would not fit 0.3."""
    body = tiny()
    body["instance"]["helpers"] = [{"memory_gb": 0.3}, {"memory_gb": 0.0}]
    body["instance"]["clients"] = [{"demand_gb": 0.1}] * 3
    answer = api.post(URL, body, format="json")
    assert answer.status_code == 202, answer.json()
    stored = answer.json()["instance"]
    assert [row["memory_gb"] for row in stored["helpers"]] == ["0.3", "0"]
    assert [row["demand_gb"] for row in stored["clients"]] == ["0.1"] * 3


def test_a_batch_of_no_slots_is_no_gap(api: APIClient, alice: User) -> None:
    body = tiny(method="random")
    for name in TIMES:
        body["instance"][name] = [[0] * 3] * 2
    first = api.post(URL, body, format="json").json()["id"]
    compare_methods(alice, Plan.objects.get(pk=first))
    while compute_here():
        pass
    answer = api.get(f"{URL}/{first}").json()
    assert (answer["makespan"], answer["lower_bound"], answer["gap"], answer["optimal"]) == (0, 0, 0, True)
    found = api.get(f"{URL}/{first}/comparisons").json()["methods"]
    assert {row["above_bound"] for row in found} == {0}
    assert [row["saved_slots"] for row in found] == [None, *[0] * (len(found) - 1)]
    assert {row.above for row in noise_rows(noise_of(Plan.objects.get(pk=first), Draws(0.2, 2)))} == {0}


@pytest.mark.parametrize(
    ("makespan", "bound", "share"), [(None, 1, None), (1, None, None), (0, 0, 0.0), (3, 0, None), (3, 2, 0.5)]
)
def test_nothing_is_above_a_bound_of_nothing(makespan: int | None, bound: int | None, share: float | None) -> None:
    assert share_above(makespan, bound) == share


def test_an_instance_or_a_scenario_is_needed_and_not_both(api: APIClient) -> None:
    scenario = PLANS["Measured devices, drawn from a seed"]["scenario"]
    assert set(refused(api.post(URL, {"method": "exact"}, format="json"))) == {"instance"}
    assert set(refused(api.post(URL, tiny(scenario=scenario), format="json"))) == {"instance"}
    for key, value in (("model", "lenet"), ("clients", 0), ("number", 3), ("slot_ms", 0), ("seed", "x")):
        found = refused(api.post(URL, {"scenario": {**scenario, key: value}}, format="json"))
        assert list(found) == [f"scenario.{key}"]


def test_a_profile_becomes_an_instance_and_its_errors_name_whose_they_are(api: APIClient) -> None:
    plan = api.post(URL, {"profile": DESCRIBED}, format="json").json()
    assert read_split_learning(plan["instance"]).clients == ("hall", "roof", "gate", "yard")
    assert (plan["slot_ms"], Plan.objects.get().origin) == (200, {"profile": DESCRIBED})
    wrong = deepcopy(DESCRIBED)
    wrong["clients"][1]["device"] = "abacus"
    found = refused(api.post(URL, {"profile": wrong}, format="json"))
    assert list(found) == ["profile.clients[1].device"]
    assert "roof" in found["profile.clients[1].device"]
    assert set(refused(api.post(URL, {"profile": []}, format="json"))) == {"profile"}
    assert set(refused(api.post(URL, tiny(profile=DESCRIBED), format="json"))) == {"instance"}


def test_a_profile_may_leave_the_memory_to_servers(api: APIClient) -> None:
    cluster = make_cluster("lab")
    memory = Resource.objects.create(cluster=cluster, name="memory", unit="GB", position=9)
    Capacity.objects.create(server=cluster.servers.get(name="edge-0"), resource=memory, amount=7)
    helper = {"name": "edge-0", "device": "vm"}
    profile = {**DESCRIBED, "helpers": [helper], "clients": [{"device": "rpi4"}], "links": []}
    plan = api.post(URL, {"profile": profile, "cluster": "lab"}, format="json").json()
    assert read_split_learning(plan["instance"]).capacity.tolist() == [7 * 10**9]
    assert set(refused(api.post(URL, {"profile": profile}, format="json"))) == {"profile.helpers[0].memory_gb"}


def test_helpers_of_a_cluster_are_its_servers_and_have_their_memory(api: APIClient) -> None:
    cluster = make_cluster("lab")
    memory = Resource.objects.create(cluster=cluster, name="memory", unit="GB", position=9)
    server = cluster.servers.get(name="edge-0")
    Capacity.objects.create(server=server, resource=memory, amount=7)
    body = tiny(cluster="lab")
    assert set(refused(api.post(URL, body, format="json"))) == {"instance.helpers[0].name"}
    body["instance"]["helpers"] = [{"name": "edge-0"}, {"name": "edge-1"}]
    assert set(refused(api.post(URL, body, format="json"))) == {"instance.helpers[1].memory_gb"}
    body["instance"]["helpers"][1]["memory_gb"] = 4
    plan = api.post(URL, body, format="json").json()
    assert read_split_learning(plan["instance"]).capacity.tolist() == [7 * 10**9, 4 * 10**9]
    assert plan["cluster"] == "lab"


def test_a_waiting_plan_is_cancelled_at_once_and_only_once(api: APIClient, alice: User) -> None:
    plan = submitted(alice)
    answer = api.post(f"{URL}/{plan.pk}/cancel")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    again = api.post(f"{URL}/{plan.pk}/cancel")
    assert again.status_code == 409
    assert "cancelled" in again.json()["detail"]
    assert not compute_here()


def test_lists_are_filtered_and_paged(api: APIClient, alice: User) -> None:
    plans = [submitted(alice, tiny(method=name)) for name in ("exact", "random", "random")]
    api.post(f"{URL}/{plans[2].pk}/cancel")
    first = api.get(f"{URL}?page_size=2").json()
    assert [row["id"] for row in first["results"]] == [plans[2].pk, plans[1].pk]
    assert [row["id"] for row in api.get(first["next"]).json()["results"]] == [plans[0].pk]
    assert [row["id"] for row in api.get(f"{URL}?method=random&state=queued").json()["results"]] == [plans[1].pk]
    assert len(api.get(f"{URL}?state=queued&state=cancelled").json()["results"]) == 3
    assert set(refused(api.get(f"{URL}?state=lost"))) == {"state"}
    assert set(refused(api.get(f"{URL}?method=magic"))) == {"method"}
    assert set(refused(api.get(f"{URL}?colour=red"))) == {"colour"}


def test_nobody_has_more_than_so_many_under_way(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.OPEN_WORK, "plans", 1)
    assert api.post(URL, tiny(), format="json").status_code == 202
    refusal = api.post(URL, tiny(), format="json")
    assert (refusal.status_code, refusal["Retry-After"]) == (429, "60")
    assert "1 plans of yours wait" in refusal.json()["detail"]
    assert Plan.objects.count() == 1


def test_a_stranger_sees_nothing(charlie: APIClient, alice: User) -> None:
    plan = submitted(alice, tiny(label="secret"))
    assert charlie.get(URL).json()["results"] == []
    for method, path in (("get", ""), ("delete", ""), ("post", "/cancel"), ("get", "/schedule.csv")):
        assert getattr(charlie, method)(f"{URL}/{plan.pk}{path}").status_code == 404
    plan.refresh_from_db()
    assert plan.state == JobState.QUEUED


@pytest.mark.thorough
def test_large_instances_are_read_and_too_large_ones_refused(api: APIClient) -> None:
    names = ("release", "forward", "gap", "backward", "tail")
    instance = {
        "helpers": [{"memory_gb": 1000}] * 50,
        "clients": [{"demand_gb": 1}] * 1000,
        **{name: [[100] * 1000] * 50 for name in names},
    }
    answer = api.post(URL, {"instance": instance}, format="json")
    assert answer.status_code == 202
    instance["helpers"] = [{"memory_gb": 1}] * 101
    assert set(refused(api.post(URL, {"instance": instance}, format="json"))) == {"instance.clients"}
    huge = "x" * (settings.PLAN_BODY_LIMIT_BYTES + 1)
    assert api.post(URL, huge, content_type="text/csv").status_code == 413


def test_other_methods_are_asked_once_each(alice: User) -> None:
    plan = submitted(alice, tiny(seed=4))
    others = compare_methods(alice, plan)
    assert {other.method for other in others} | {plan.method} >= {"exact", "balanced-greedy", "random"}
    assert all(other.instance == plan.instance and other.seed == 4 for other in others)
    assert all((other.of, other.comparison) == (plan, ComparisonKind.METHOD) for other in others)
    assert compare_methods(alice, plan) == []


def test_another_helper_is_a_copy_of_the_best_one_and_never_makes_it_longer(alice: User) -> None:
    plan = submitted(alice)
    one, two = (submit_extra_helper(alice, plan) for _ in range(2))
    assert (one.helpers, two.helpers) == (3, 4)
    assert [row["name"] for row in two.instance["helpers"]] == ["vm", "laptop", "vm copy 1", "vm copy 2"]
    while compute_here():
        pass
    for row in (plan, one, two):
        row.refresh_from_db()
    assert plan.makespan is not None
    assert one.makespan is not None
    assert two.makespan is not None
    assert plan.makespan >= one.makespan >= two.makespan


def test_the_best_helper_is_the_fastest_then_the_one_with_most_memory() -> None:
    instance = read_split_learning(TINY)
    assert best_helper(instance) == 0
    alike = deepcopy(TINY)
    for name in ("forward", "backward"):
        alike[name][0] = alike[name][1]
    alike["helpers"][1]["memory_gb"] = 9
    assert best_helper(read_split_learning(alike)) == 1
    larger = one_more_helper(instance)
    assert larger.capacity.tolist() == [8 * 10**9, 4 * 10**9, 8 * 10**9]
    assert larger.release.tolist() == [*instance.release.tolist(), instance.release[0].tolist()]
