"""Traces and experiments through REST: upload, create, follow, rerun, read as JSON and CSV."""

import csv
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from studies.background.models import JobState
from studies.experiments.metrics import METRICS
from studies.experiments.requests import rerun
from studies.models import Run
from tests.auctions.worlds import make_operator
from tests.studies.experiments.conftest import PHILLY_HEAD, matrix, submitted, uploaded
from tests.studies.experiments.here import compute_here
from tests.traces import Traces

TRACES, EXPERIMENTS = "/api/v1/traces", "/api/v1/experiments"


def refused(answer: Any) -> dict[str, str]:
    """Fields that were wrong, and how."""
    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"].startswith("application/problem+json")
    return {row["field"]: row["message"] for row in answer.json()["errors"]}


def rows_of(answer: Any) -> list[dict[str, str]]:
    """A table."""
    assert answer.status_code == 200, answer.content
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(StringIO(answer.content.decode())))


def test_a_trace_is_uploaded_as_json_and_as_it_is_and_kept_once(api: APIClient) -> None:
    first = api.post(TRACES, {"label": "a day", "text": f"{PHILLY_HEAD}oops\n"}, format="json")
    again = api.post(f"{TRACES}?label=other", f"{PHILLY_HEAD}oops\n", content_type="text/csv")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == api.get(first["Location"]).json()
    assert (first.json()["records"], first.json()["malformed"][0]["line"]) == (40, 42)
    assert [row["label"] for row in api.get(TRACES).json()["results"]] == ["a day"]
    assert api.delete(first["Location"]).status_code == 204
    assert api.get(first["Location"]).status_code == 404


def test_bytes_that_are_no_text_are_refused_by_their_line(api: APIClient) -> None:
    answer = api.post(TRACES, PHILLY_HEAD.encode() + b"caf\xe9\n", content_type="text/csv")
    assert refused(answer) == {"body": "expected UTF-8, got other bytes in line 42"}
    answer = api.post(TRACES, f"{PHILLY_HEAD}\0\n", content_type="text/csv")
    assert refused(answer)["body"] == r"expected characters that can be stored, got '\x00' in line 42"
    answer = api.post(TRACES, f"{PHILLY_HEAD}{'a' * 90}b\0c\nd", content_type="text/csv")
    near = "a" * 39 + r"b\x00c"
    assert refused(answer)["body"] == f"expected characters that can be stored, got '{near}' in line 42"


def test_throughputs_come_with_a_trace_and_make_it_another(api: APIClient) -> None:
    body = {"text": PHILLY_HEAD, "throughputs": '{"k80": {"(\'M\', 1)": {"null": 2.5}}}'}
    plain = api.post(TRACES, {"text": PHILLY_HEAD}, format="json")
    first, again = (api.post(TRACES, body, format="json") for _ in range(2))
    assert (plain.status_code, first.status_code, again.status_code) == (201, 201, 200)
    assert (plain.json()["gpu_types"], first.json()["gpu_types"]) == ([], ["k80"])
    assert plain.json()["id"] != first.json()["id"] == again.json()["id"]


def test_machines_and_throughputs_are_uploaded_by_themselves_and_named(api: APIClient, traces: Traces) -> None:
    def sent(text: str) -> Any:
        answer = api.post(TRACES, text, content_type="text/csv")
        assert answer.status_code == 201, answer.content
        return answer.json()

    jobs = sent(traces.gavel_few.read_text())
    table, machines = sent(traces.throughputs.read_text()), sent("m1,V100,96,512,8\nm2,P100,64,512,2\n")
    assert [(row["kind"], row["format"]) for row in (jobs, table, machines)] == [
        ("jobs", "gavel"), ("throughputs", "gavel_throughputs"), ("machines", "pai")
    ]  # fmt: skip
    assert (jobs["records"], machines["records"]) == (15, 2)
    workload = {"trace": jobs["id"], "machines": machines["id"]}
    body = matrix(workloads=[workload], policies=[{"name": "fifo"}], seeds=[1], bound=False)
    wrong = refused(api.post(EXPERIMENTS, body, format="json"))
    assert "expected step_times with Gavel's throughputs" in wrong["workloads[0].trace"]
    workload["step_times"] = table["id"]
    answer = api.post(EXPERIMENTS, body, format="json")
    assert answer.status_code == 202, answer.content
    assert compute_here() == 1
    run = api.get(f"{answer['Location']}/runs/1").json()
    assert set(run["outcome"]["outcome"]["utilisation"]) == {"gpu-V100", "gpu-P100", "vcpu", "memory_gb"}
    assert run["outcome"]["outcome"]["jobs"]["completed"] == 15


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "text"),
        ({"text": 3}, "text"),
        ({"text": "no format"}, "text"),
        ({"text": PHILLY_HEAD, "label": "x" * 121}, "label"),
        ({"text": PHILLY_HEAD, "source": "x" * 201}, "source"),
        ({"text": PHILLY_HEAD, "throughputs": {"k80": {}}}, "throughputs"),
        ({"text": PHILLY_HEAD, "throughputs": '{"k80": 1}'}, "throughputs.k80"),
        ({"text": "m1,V100,96,512,8\n", "throughputs": '{"k80": {}}'}, "throughputs"),
        ({"text": '{"k80": 1}'}, "text"),
        ({"text": PHILLY_HEAD, "surprise": 1}, "surprise"),
    ],
)
def test_an_upload_that_is_wrong_is_refused_by_its_field(api: APIClient, body: Any, field: str) -> None:
    assert list(refused(api.post(TRACES, body, format="json"))) == [field]


def test_an_experiment_is_asked_for_followed_and_read(api: APIClient, alice: User) -> None:
    trace = uploaded(alice)
    workload = {"trace": trace.pk, "gpus": 8, "slot_s": 3600, "horizon": 2}
    body = matrix(workloads=[workload], policies=[{"name": "fifo"}, {"name": "srtf"}], label="mine")
    answer = api.post(EXPERIMENTS, body, format="json")
    assert answer.status_code == 202, answer.content
    where = answer["Location"]
    assert (answer.json()["state"], answer.json()["progress"]["queued"]) == ("queued", 6)
    assert api.get(f"{where}/results").json()["rows"][0]["runs"] == 0
    assert compute_here() == 6
    known = api.get(where).json()
    assert (known["state"], known["progress"]["completed"], known["progress"]["share"]) == ("completed", 6, 1.0)
    _reads_what_came_of_it(api, where)
    assert api.post(f"{where}/cancel").status_code == 409
    assert api.delete(f"{TRACES}/{trace.pk}").status_code == 409
    again = api.post(f"{where}/rerun")
    assert again.status_code == 202
    assert again.json()["comparison"] == {"same": 0, "differ": [], "open": 6, "same_sources": True}
    assert api.post(f"{again['Location']}/cancel").json()["state"] == "cancelled"
    assert api.delete(where).status_code == 204
    assert api.get(where).status_code == 404


def _reads_what_came_of_it(api: APIClient, where: str) -> None:
    results = api.get(f"{where}/results").json()
    assert {metric["name"] for metric in results["metrics"]} == set(METRICS)
    assert [(row["policy"], row["runs"]) for row in results["rows"]] == [("fifo", 2), ("srtf", 2)]
    welfare = results["rows"][0]["values"]["welfare"]
    assert welfare["low"] < welfare["mean"] < welfare["high"] < results["bounds"][0]["welfare"]["high"]
    assert "synthetic" in results["notes"][0]
    assert "Plans reach 2 slots of 3,600 s ahead (2.0 h)" in results["warnings"][0]
    table = rows_of(api.get(f"{where}/results.csv", headers={"Accept": "text/csv"}))
    (found,) = (row for row in table if (row["policy"], row["metric"]) == ("fifo", "welfare"))
    assert (float(found["mean"]), found["n"], found["synthetic"]) == (welfare["mean"], "2", "yes")
    runs = api.get(f"{where}/runs").json()["runs"]
    listed = rows_of(api.get(f"{where}/runs.csv", headers={"Accept": "text/csv"}))
    assert [row["outcome_sha256"] for row in listed] == [row["outcome_sha256"] for row in runs]
    assert [row["policy"] for row in listed[:3]] == ["bound", "fifo", "srtf"]
    assert {row["note"] for row in listed[:3]} == {"values synthetic, arrivals/sizes real (seed 1)"}
    one = api.get(f"{where}/runs/2").json()
    assert one["outcome"]["outcome"]["jobs"]["submitted"] == 40
    assert one["identity"] == runs[1]["identity"] != ""
    assert api.get(f"{where}/runs/7").status_code == 404


def test_the_same_key_and_body_are_one_experiment(api: APIClient) -> None:
    first, again = (api.post(EXPERIMENTS, matrix(), format="json", headers={"Idempotency-Key": "a"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first["Location"] == again["Location"]
    assert again["Idempotency-Replayed"] == "true"
    other = api.post(EXPERIMENTS, matrix(seeds=[3]), format="json", headers={"Idempotency-Key": "a"})
    assert other.status_code == 409
    api.post(f"{first['Location']}/cancel")
    assert api.post(EXPERIMENTS, matrix(), format="json", headers={"Idempotency-Key": "a"}).status_code == 200
    assert Run.objects.count() == 6


def test_what_is_wrong_with_an_experiment_is_refused_by_its_field(api: APIClient) -> None:
    assert list(refused(api.post(EXPERIMENTS, {}, format="json"))) == ["workloads", "policies"]
    assert list(refused(api.post(EXPERIMENTS, matrix(seeds=["1"]), format="json"))) == ["seeds[0]"]
    assert list(refused(api.get(f"{EXPERIMENTS}?state=completed"))) == ["state"]
    assert not Run.objects.exists()


def test_all_entries_that_do_not_fit_the_others_are_named_at_once(api: APIClient) -> None:
    dps = [{"name": "dps", "parameters": {"refit_every": n}} for n in range(1, 6)]
    policies = [{"name": "fifo"}, {"name": "oasis"}, {"name": "fifo"}, *dps]
    answer = api.post(EXPERIMENTS, matrix(policies=policies, seeds=[*range(49), 0]), format="json")
    assert set(refused(answer)) == {"policies", "policies[1]", "policies[2]", "seeds[49]"}
    assert not Run.objects.exists()


def test_a_list_leaves_what_was_asked_for_in_the_database(api: APIClient, alice: User) -> None:
    again = rerun(alice, submitted(alice))
    with CaptureQueriesContext(connection) as said:
        rows = api.get(EXPERIMENTS).json()["results"]
    assert [(row["id"], row["rerun_of"]) for row in rows] == [(again.pk, again.rerun_of_id), (again.rerun_of_id, None)]
    assert said.captured_queries
    assert not any("matrix" in query["sql"] for query in said.captured_queries)


def test_an_operator_sees_all_and_a_stranger_nothing(
    api: APIClient, charlie: APIClient, client_of: Callable[[User], APIClient], alice: User
) -> None:
    experiment = submitted(alice)
    olga = client_of(make_operator())
    assert [len(who.get(EXPERIMENTS).json()["results"]) for who in (api, olga, charlie)] == [1, 1, 0]
    where = f"{EXPERIMENTS}/{experiment.pk}"
    assert [who.post(f"{where}/cancel").status_code for who in (charlie, olga)] == [404, 200]
    assert set(experiment.runs.values_list("state", flat=True)) == {JobState.CANCELLED}
