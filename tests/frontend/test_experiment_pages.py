"""Pages of traces and experiments: upload, create by a form, follow, compare, rerun; only the owner sees them."""

import csv
import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from auctions.models import Market
from frontend.figures import experiments as figures
from frontend.figures.experiments import Bar, Line, View
from frontend.forms.experiment import READY_MADE
from scheduling.registry import POLICIES
from studies.background.models import JobState
from studies.experiments.metrics import METRICS
from studies.experiments.requests import cancel, rerun
from studies.models import Experiment, Trace
from studies.workloads.generated.generators import GENERATORS
from tests.studies.experiments.conftest import PHILLY_HEAD, matrix, submitted, uploaded
from tests.studies.experiments.here import compute_here
from tests.traces import Traces


def ticked(name: str) -> dict[str, str]:
    """A policy with its defaults, as a browser sends it."""
    values = {f"{name}-{key}": value for key, value in POLICIES[name]().to_json().items() if value is not False}
    return {f"use-{name}": "on"} | {key: "on" if value is True else str(value) for key, value in values.items()}


FORM = {
    "label": "mine",
    "workload": "dps",
    "setting": '{"jobs": 5, "servers": 2, "slots": 30}',
    "seeds": "1-2",
    **ticked("fifo"),
    "more": "fifo blocking=false",
}
PARTS = ("", "part", "version", "chart.json", "chart.csv", "results.csv", "runs.csv")


def page(experiment: Experiment, part: str = "") -> str:
    return f"/experiments/{experiment.pk}/{part}"


def sent(client: Client, **changes: Any) -> Any:
    return client.post("/experiments/new/", {**FORM, **changes})


@pytest.mark.thorough
def test_a_form_leads_to_an_experiment_that_is_followed_compared_and_repeated(as_alice: Client) -> None:
    assert "no experiments yet" in as_alice.get("/experiments/").text
    answer = sent(as_alice, bound="on")
    experiment = Experiment.objects.get()
    assert answer.headers["Location"] == page(experiment)
    assert [row["parameters"]["blocking"] for row in experiment.matrix["policies"]] == [True, False]
    waiting = as_alice.get(page(experiment)).text
    for words in ("0 of 6 runs have ended", "Cancel</button>", "Queued"):
        assert words in waiting
    assert "<dd>are not tried again</dd>" in waiting, "the box was not ticked"
    assert compute_here() == 6
    done = as_alice.get(page(experiment)).text
    for words in ("fifo (blocking=false)", "Acceptance", "2 of 2", "±", "synthetic", "No policy's welfare can exceed"):
        assert words in done
    assert "Cancel</button>" not in done
    assert "note warning" not in done
    _has_a_chart_of_every_metric(as_alice, experiment)
    _is_repeated(as_alice, experiment)
    _warns_once_of_a_horizon_that_is_too_short(as_alice, experiment)


def _warns_once_of_a_horizon_that_is_too_short(client: Client, experiment: Experiment) -> None:
    for run in experiment.runs.all():
        document = json.loads(run.outcome)
        document["workload"]["reach"] = {"beyond": run.seed, "warning": f"{run.seed} of 5 jobs take longer"}
        run.outcome = json.dumps(document)
        run.save()
    warned = client.get(page(experiment)).text
    assert warned.count("note warning") == 1
    assert "2 of 5 jobs take longer" in warned, "of the seed where it is worst"


@pytest.mark.parametrize("name", ["results", "runs"])
def test_the_csv_files_have_the_same_bytes_on_the_page_and_by_rest(as_alice: Client, alice: User, name: str) -> None:
    experiment = submitted(alice)
    assert compute_here() == 6
    file = as_alice.get(page(experiment, f"{name}.csv")).content
    assert file == as_alice.get(f"/api/v1/experiments/{experiment.pk}/{name}.csv").content
    assert file.count(b"\n") > 1


def _has_a_chart_of_every_metric(client: Client, experiment: Experiment) -> None:
    for name in METRICS:
        drawn = json.loads(client.get(page(experiment, f"chart.json?metric={name}")).content)
        listed = list(csv.DictReader(StringIO(client.get(page(experiment, f"chart.csv?metric={name}")).text)))
        assert len(drawn["data"][0]["x"]) == 2 if drawn["data"] else not listed, name
        assert {row["synthetic"] for row in listed} <= {"yes" if METRICS[name].synthetic else "no"}, name
    welfare = json.loads(client.get(page(experiment, "chart.json?metric=welfare")).content)
    assert welfare["layout"]["shapes"]
    assert "no policy can exceed" in welfare["note"]
    assert client.get(page(experiment, "?metric=nothing")).status_code == 404
    assert client.get(page(experiment, "?workload=1")).status_code == 404
    assert 'value="mean_jct" selected' in client.get(page(experiment, "?metric=mean_jct")).text


def _is_repeated(client: Client, experiment: Experiment) -> None:
    answer = client.post(page(experiment, "rerun/"))
    again = Experiment.objects.get(rerun_of=experiment)
    assert answer.headers["Location"] == page(again)
    assert compute_here() == 6
    assert "6 gave the same bytes" in client.get(page(again)).text.replace("\n", " ")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": "3-1"}, "Expected at most"),
        ({"seeds": "one"}, "such as 1-3, 7"),
        ({"seeds": "1 1"}, "the same as seeds[0]"),
        ({"setting": "{"}, "Expected JSON, got"),
        ({"setting": "[]"}, "Expected an object"),
        ({"setting": '{"jobs": 0}'}, "workloads[0].setting.jobs: expected 1 to"),
        ({"setting": '{"jobs": 1, "jobs": 2}'}, "twice"),
        ({"more": "fifo blocking"}, "fifo: expected NAME=VALUE, got"),
        ({"more": "dps price=paper price=fluid"}, "dps: expected each name once, got price twice"),
        ({"more": "fife"}, "expected dps, oasis, "),
        ({"more": "fifo blocking=maybe"}, "expected true or false"),
        ({"use-dps": "on", "dps-price": "free"}, "dps: a parameter is wrong"),
        ({"workload": "trace-1"}, "Select a valid choice"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(as_alice: Client, changes: Any, words: str) -> None:
    answer = sent(as_alice, **changes)
    assert answer.status_code == 422
    assert words in answer.text.replace("&#x27;", "'")
    assert not Experiment.objects.exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"label": "a\x07b", "setting": '{"jobs": 0}'}, ("expected one line", "setting.jobs: expected 1 to")),
        ({"more": "fife\nfifo blocking=maybe\ndps"}, ("expected dps, oasis, ", "blocking: expected true or false")),
        ({"seeds": "one, 3-1, 5 1-99"}, ("got &#x27;one&#x27;", "got &#x27;3-1&#x27;", "got &#x27;1-99&#x27;")),
        ({"more": "dps price price=1 price=2 x"}, ("got &#x27;price&#x27;", "got price twice", "got &#x27;x&#x27;")),
        (
            {"label": "a\x07b", "seeds": "one", "setting": '{"jobs": 0}', "more": "fife"},
            ("expected one line", "such as 1-3, 7", "setting.jobs: expected 1 to", "expected dps, oasis, "),
        ),
        (
            {
                "use-dps": "on",
                **ticked("dps"),
                "dps-price": "free",
                "setting": '{"jobs": 0}',
                "more": "fifo blocking=1",
            },
            ("dps: a parameter is wrong", "setting.jobs: expected 1 to", "blocking: expected true or false"),
        ),
        (
            {
                "workload": "weighted_completion",
                "setting": '{"jobs": 0}',
                "seeds": "one",
                "use-fifo": "",
                "more": "x y",
            },
            ("such as 1-3, 7", "setting.jobs: expected 1 to", "expected NAME=VALUE"),
        ),
    ],
)
def test_everything_that_is_wrong_is_said_at_once(as_alice: Client, changes: Any, words: tuple[str, ...]) -> None:
    text = sent(as_alice, **changes).text
    assert [one for one in words if one not in text] == []
    assert not Experiment.objects.exists()


def test_a_field_of_the_other_kind_of_workload_is_refused_and_not_left_out(
    market: Market, as_alice: Client, alice: User
) -> None:
    drawn = sent(as_alice, gpus="8", jobs="20", ring="on").context["form"].errors
    assert {name: str(rows[0]) for name, rows in drawn.items()} == {
        "gpus": "Expected none, as the jobs are drawn, got 8.",
        "jobs": "Expected none, as the jobs are drawn, got 20.",
        "ring": "Expected none, as the jobs are drawn, got true.",
    }
    trace = uploaded(alice)
    of_trace = sent(as_alice, workload=f"trace-{trace.pk}", gpus="8").context["form"].errors
    assert list(of_trace) == ["setting"]
    both = sent(as_alice, workload=f"trace-{trace.pk}", gpus="8", cluster="lab", setting="")
    assert "expected either a number of GPUs, or a cluster" in both.text
    assert not Experiment.objects.exists()
    assert sent(as_alice, gpus="160").status_code == 302, "the page fills it in to begin with"


def test_no_policy_is_no_experiment(as_alice: Client) -> None:
    answer = as_alice.post("/experiments/new/", {"workload": "dps", "seeds": "1"})
    assert "Choose at least one policy" in answer.text


def test_the_form_begins_with_defaults_that_are_taken(as_alice: Client, alice: User) -> None:
    trace = uploaded(alice)
    text = as_alice.get(f"/experiments/new/?workload=trace-{trace.pk}").text
    assert f'value="trace-{trace.pk}" selected' in text
    for name in GENERATORS:
        assert f'value="{name}"' in text
    answer = sent(as_alice, workload=f"trace-{trace.pk}", gpus="8", jobs="20", elastic="on", setting="")
    assert answer.status_code == 302, answer.text
    (workload,) = Experiment.objects.get().matrix["workloads"]
    assert (workload["trace"], workload["source"]["gpus"], workload["source"]["elastic"]) == (trace.pk, 8, True)


def test_the_ready_made_experiment_is_one(as_alice: Client) -> None:
    as_alice.post("/experiments/ready-made/")
    experiment = Experiment.objects.get()
    assert experiment.label == READY_MADE["label"]
    assert experiment.runs.count() == 15


def test_an_experiment_is_cancelled_and_deleted(as_alice: Client, alice: User) -> None:
    experiment = submitted(alice)
    assert "6 runs cancelled" in as_alice.post(page(experiment, "cancel/"), follow=True).text
    assert set(experiment.runs.values_list("state", flat=True)) == {JobState.CANCELLED}
    assert "nothing is left" in as_alice.post(page(experiment, "cancel/"), follow=True).text
    assert "No experiment is of this state" in as_alice.get("/experiments/?state=open").text
    assert page(experiment) in as_alice.get("/experiments/?state=ended").text
    as_alice.post(page(experiment, "delete/"))
    assert not Experiment.objects.exists()


def test_runs_without_an_outcome_in_both_are_not_said_to_be_compared_later(as_alice: Client, alice: User) -> None:
    experiment = submitted(alice)
    cancel(experiment)
    again = rerun(alice, experiment)
    assert compute_here() == 6
    assert "6 runs are not completed in both experiments." in as_alice.get(page(again)).text


def test_what_did_not_change_is_not_sent_again(as_alice: Client, alice: User) -> None:
    experiment = submitted(alice, matrix(bound=False))
    tag = as_alice.get(page(experiment, "version")).headers["ETag"]
    assert as_alice.get(page(experiment, "version"), headers={"If-None-Match": tag}).status_code == 304
    experiment.runs.filter(number=1).update(decided=3)
    assert as_alice.get(page(experiment, "version"), headers={"If-None-Match": tag}).status_code == 200


def test_nobody_else_sees_it(as_bob: Client, alice: User, client: Client) -> None:
    experiment, trace = submitted(alice, matrix(label="secret")), uploaded(alice)
    for part in PARTS:
        assert as_bob.get(page(experiment, part)).status_code == 404, part
        assert client.get(page(experiment, part)).status_code == 302, part
    assert "secret" not in as_bob.get("/experiments/").text
    assert as_bob.get(f"/traces/{trace.pk}/").status_code == 404
    assert as_bob.post(f"/traces/{trace.pk}/delete/").status_code == 404
    assert "forty jobs" not in as_bob.get("/traces/").text
    assert Trace.objects.exists()


def test_a_trace_is_uploaded_looked_at_and_deleted(as_alice: Client) -> None:
    file = SimpleUploadedFile("day.csv", f"{PHILLY_HEAD}oops\n".encode())
    answer = as_alice.post("/traces/", {"label": "a day", "file": file}, follow=True)
    for words in ("a day", "day.csv", "philly", "Malformed lines", "42"):
        assert words in answer.text
    trace = Trace.objects.get()
    experiment = submitted(trace.owner, matrix(workloads=[{"trace": trace.pk, "gpus": 8}]))
    assert f"Experiment {experiment.pk} reads" in as_alice.post(f"/traces/{trace.pk}/delete/", follow=True).text
    experiment.delete()
    assert "is deleted" in as_alice.post(f"/traces/{trace.pk}/delete/", follow=True).text


def test_gavels_throughputs_are_uploaded_with_its_trace(as_alice: Client, traces: Traces) -> None:
    def files(table: bytes) -> dict[str, SimpleUploadedFile]:
        lines = traces.gavel_few.read_bytes()
        return {"file": SimpleUploadedFile("few.trace", lines), "throughputs": SimpleUploadedFile("t.json", table)}

    wrong = as_alice.post("/traces/", files(b"[]"))
    refused = (422, {"throughputs": ["throughputs: expected an object, got []"]})
    assert (wrong.status_code, wrong.context["form"].errors) == refused
    assert as_alice.post("/traces/", files(b"\xff")).context["form"].errors == {
        "throughputs": ["expected UTF-8, got other bytes in line 1"]
    }
    assert "k80, p100, v100" in as_alice.post("/traces/", files(traces.throughputs.read_bytes()), follow=True).text
    workload, trace = {"jobs": "3", "gpus": "8", "setting": ""}, Trace.objects.get()
    refused = sent(as_alice, workload=f"trace-{trace.pk}", reference="a100", **workload)
    assert "expected one of k80, k80_unconsolidated" in refused.text
    assert sent(as_alice, workload=f"trace-{trace.pk}", reference="k80", **workload).status_code == 302


def test_machines_are_uploaded_and_chosen_as_servers(as_alice: Client, alice: User) -> None:
    file = SimpleUploadedFile("spec.csv", b"m1,V100,96,512,8\nm2,CPU,64,512,0\n")
    shown = as_alice.post("/traces/", {"file": file}, follow=True).text
    listed, jobs = Trace.objects.get(), uploaded(alice)
    assert "<dt>Contents</dt><dd>machines</dd>" in shown
    assert f"/experiments/new/?machines={listed.pk}" in shown
    form = as_alice.get(f"/experiments/new/?machines={listed.pk}").text
    assert f'value="{listed.pk}" selected>Trace {listed.pk}: spec.csv, machines' in form
    assert f'value="trace-{listed.pk}"' not in form, "it holds no jobs"
    chosen = {"workload": f"trace-{jobs.pk}", "gpus": "160", "machines": str(listed.pk), "setting": ""}
    refused = sent(as_alice, **chosen, batch="3").context["form"].errors
    assert refused == {"batch": ["workloads[0].batch: expected no batch without step times, got one"]}
    assert sent(as_alice, **chosen).status_code == 302
    (workload,) = Experiment.objects.get().matrix["workloads"]
    assert (workload["machines"], workload["source"]["gpus"]) == (listed.pk, None)
    assert "forty jobs on spec.csv" in as_alice.get(page(Experiment.objects.get())).text


def test_all_that_is_wrong_with_two_files_is_said_at_once(as_alice: Client) -> None:
    table = b'{"k80": 1, "v100": {"x": {"null": 1}, "(\'M\', 1)": {"null": -1}}}'
    files = {"file": SimpleUploadedFile("x", b"what is this\n"), "throughputs": SimpleUploadedFile("t.json", table)}
    errors = as_alice.post("/traces/", files).context["form"].errors
    assert "known format" in str(errors["file"])
    assert errors["throughputs"] == [
        "throughputs.k80: expected an object, got 1",
        "throughputs.v100.x: expected ('model', number of GPUs), got 'x'",
        "throughputs.v100.('M', 1).null: expected 0 to 1,000,000,000, got -1",
    ]
    alone = as_alice.post("/traces/", {"file": SimpleUploadedFile("t.json", table)}).context["form"].errors
    assert len(alone["file"]) == 3
    assert not Trace.objects.exists()


@pytest.mark.parametrize(
    ("content", "words"), [(b"what is this\n", "known format"), (b"\xff\xfe", "UTF-8"), (b"a\0b", "text without NUL")]
)
def test_a_file_that_is_no_trace_is_refused(as_alice: Client, content: bytes, words: str) -> None:
    answer = as_alice.post("/traces/", {"file": SimpleUploadedFile("x", content)})
    assert answer.status_code == 422
    assert words in answer.text
    assert not Trace.objects.exists()


def test_a_figure_has_a_bar_with_its_interval_for_each_policy_and_the_bound_above() -> None:
    view = View("Welfare", "money", "w", [Bar("a", 3, 5.0, 1.0), Bar("b", 1, 7.0, None)], Line("none", 9.0), "")
    drawn = figures.figure(view, key="k")
    assert drawn.data[0]["y"] == [5.0, 7.0]
    assert drawn.data[0]["error_y"]["array"] == [1.0, "none"]
    assert drawn.data[0]["customdata"] == [" ± 1<br>3 seeds", "<br>1 seed"]
    assert "error_y" not in drawn.data[0]["hovertemplate"]
    assert drawn.layout["yaxis"]["range"][1] > 9.0
    table = figures.table(view)
    assert [row[5:] for row in table.rows] == [(5.0, 4.0, 6.0, False), (7.0, "", "", False), (9.0, "", "", False)]
    assert {len(row) for row in table.rows} == {len(table.header)}
    assert figures.figure(View("W", "", "w", [], None, ""), key="k").data == []
