"""Valid requests for experiments, and errors that name the wrong field."""

from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.contrib.auth.models import User

from auctions.domain.errors import WrongState
from cluster.documents import import_cluster
from demo.clusters.gpu_servers import gpu_servers_document
from scheduling.model.errors import InvalidField
from studies.background.creating import TooManyOpen
from studies.experiments import requests
from studies.experiments.request import ExperimentRequest
from studies.experiments.traced import FILES
from studies.models import Experiment, Run, Trace
from studies.workloads.generated.generators import GeneratorSource
from studies.workloads.traces import upload
from studies.workloads.traces.source import TraceSource
from studies.workloads.workload import Workload
from tests.auctions.worlds import make_user
from tests.studies.experiments.conftest import PHILLY_HEAD, matrix, submitted, uploaded
from tests.traces import OWN

MANY = [{"name": "dps", "parameters": {"refit_every": n}} for n in range(1, 21)]


def test_a_matrix_becomes_a_run_for_each_cell_all_policies_of_a_seed_first(alice: User) -> None:
    experiment = submitted(alice)
    cells = list(experiment.runs.order_by("number").values_list("number", "workload", "policy", "seed"))
    assert cells == [(1, 0, None, 1), (2, 0, 0, 1), (3, 0, 1, 1), (4, 0, None, 2), (5, 0, 0, 2), (6, 0, 1, 2)]
    assert experiment.matrix["policies"][1]["parameters"]["blocking"] is True, "defaults are written out"


def test_a_trace_deleted_since_the_wish_was_checked_is_named(alice: User) -> None:
    trace = uploaded(alice)
    workload = {"trace": trace.pk, "gpus": 8}
    request = ExperimentRequest.from_json(matrix(workloads=[workload]), Trace.objects.all())
    upload.delete(trace)
    with pytest.raises(InvalidField, match="was deleted"):
        requests.create(alice, request)
    assert not Run.objects.exists()


def test_a_trace_that_another_request_deleted_is_gone_all_the_same(alice: User) -> None:
    trace = uploaded(alice)
    Trace.objects.all().delete()
    upload.delete(trace)


def test_the_jobs_of_a_large_workload_are_left_to_the_runs(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    draw = GeneratorSource.draw

    def counting(source: GeneratorSource, seed: int) -> Workload:
        drawn.append(source.setting.jobs)
        return draw(source, seed)

    monkeypatch.setattr(GeneratorSource, "draw", counting)
    large = {"generator": "dps", "setting": {"jobs": 5000, "servers": 3}}
    experiment = submitted(alice, matrix(workloads=[large]))
    assert experiment.matrix["workloads"][0]["source"]["setting"]["jobs"] == 5000
    assert drawn == [1]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"policies": []}, "policies"),
        ({"policies": [{"name": "fife"}]}, "policies[0].name"),
        ({"policies": [{"name": "fifo", "parameters": {"blocking": 3}}]}, "policies[0].parameters.blocking"),
        ({"policies": [{"name": "fifo", "parameters": None}]}, "policies[0].parameters"),
        ({"policies": [{"name": "fifo"}, {"name": "fifo"}]}, "policies[1]"),
        ({"seeds": [1, 1]}, "seeds[1]"),
        ({"seeds": [-1]}, "seeds[0]"),
        ({"seeds": 3}, "seeds"),
        ({"bound": "yes"}, "bound"),
        ({"label": "x" * 121}, "label"),
        ({"workloads": [{"generator": "dsp"}]}, "workloads[0].generator"),
        ({"workloads": [{"generator": "dps", "setting": {"jobs": 0}}]}, "workloads[0].setting.jobs"),
        ({"workloads": [{"generator": "dps", "setting": {"utility": "no"}}]}, "workloads[0].setting.utility"),
        ({"workloads": [{"generator": "dps", "setting": {"chunks": [5, 2]}}]}, "workloads[0].setting.chunks"),
        ({"workloads": [{"generator": "oasis", "setting": {"jobs": 2001}}]}, "workloads[0].setting.jobs"),
        ({"workloads": [{"generator": "oasis", "setting": {"kinds": [1, 1, 1]}}]}, "workloads[0].setting.kinds"),
        ({"workloads": [{"trace": 7, "gpus": 8}]}, "workloads[0].trace"),
        ({"workloads": [{"gpus": 8}]}, "workloads[0].trace"),
        ({"seeds": list(range(50)), "policies": [*MANY]}, "policies"),
        ({"policies": [{"name": "oasis"}]}, "policies[0]"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(alice: User, wrong: Any, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        submitted(alice, matrix(**wrong))
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({}, "workloads[0].gpus"),
        ({"gpus": 0}, "workloads[0].gpus"),
        ({"gpus": True}, "workloads[0].gpus"),
        ({"gpus": 8, "slot_s": 0}, "workloads[0].slot_s"),
        ({"gpus": 8, "horizon": 10**6}, "workloads[0].horizon"),
        ({"gpus": 8, "ring": 1}, "workloads[0].ring"),
        ({"gpus": 8, "cluster": "nowhere"}, "workloads[0].cluster"),
        ({"gpus": 8, "size": 3}, "workloads[0].size"),
    ],
)
def test_what_is_wrong_with_a_trace_is_named(alice: User, wrong: Any, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        submitted(alice, matrix(workloads=[{"trace": uploaded(alice).pk, **wrong}]))
    assert refused.value.field == field


def test_what_is_wrong_with_step_times_is_named(alice: User) -> None:
    text = OWN.gavel_few.read_text()
    without = {"trace": uploaded(alice, text).pk, "gpus": 8}
    measured, _ = upload.keep(alice, text, label="", source="", throughputs='{"k80": {"(\'M\', 1)": {"null": 2}}}')
    assert measured.pk != without["trace"], "it is another trace"
    for workload, field in (
        (without, "trace"),
        ({**without, "reference": "v100"}, "reference"),
        ({"trace": measured.pk, "gpus": 8}, "reference"),
        ({"trace": measured.pk, "gpus": 8, "reference": 3}, "reference"),
    ):
        with pytest.raises(InvalidField) as refused:
            submitted(alice, matrix(workloads=[workload]))
        assert refused.value.field == f"workloads[0].{field}"
    assert submitted(alice, matrix(workloads=[{"trace": measured.pk, "gpus": 8, "reference": "k80"}])).pk


def test_a_source_names_all_that_is_wrong_with_it() -> None:
    wrong: dict[str, Any] = {"slot_s": 0, "horizon": "x", "ring": 1, "reference": 3}
    with pytest.raises(InvalidField) as refused:
        TraceSource(**wrong)
    assert [one.field for one in refused.value.all_wrong] == ["gpus", *wrong]


def test_choices_that_exclude_one_another_are_all_named(alice: User) -> None:
    import_cluster(gpu_servers_document(np.random.default_rng(1), name="lab"))
    listed = upload.keep(alice, MACHINES, label="", source="")[0].pk
    row = {"trace": uploaded(alice).pk, "machines": listed, "cluster": "lab", "batch": 3, "gpus": 8, "apart": True}
    with pytest.raises(InvalidField) as refused:
        submitted(alice, matrix(workloads=[row]))
    fields = [one.field for one in refused.value.all_wrong]
    assert fields == [f"workloads[0].{name}" for name in ("batch", "machines", "gpus", "apart")]


MACHINES = "m1,V100,96,512,8\nm2,T4,96,512,lots\nm3,CPU,64,512,0\n"
GPU_LESS = "m3,CPU,64,512,0\n"
SIA = "placement,local_bsz,step_time,sync_time\n1,32,0.4,0.1\n4,32,0.5,0.2\n"
QUOTAS = "date,a,b,total\n2020-04-01,8,24,32\n"
THROUGHPUTS = '{"v100": {"(\'M\', 1)": {"null": 2}}}'


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({"machines": MACHINES, "gpus": 8}, "gpus", "either a number of GPUs, or a cluster, or machines"),
        ({"machines": MACHINES, "cluster": "lab"}, "machines", "expected a cluster or machines, got both"),
        ({"machines": MACHINES, "apart": True}, "apart", "expected no value with a cluster"),
        ({"machines": GPU_LESS}, "machines", "at least one machine with GPUs"),
        ({"machines": PHILLY_HEAD}, "machines", "expected a trace with machines, got jobs in trace 1 "),
        ({"machines": "1"}, "machines", "expected a whole number"),
        ({"machines": 999}, "machines", "expected one of your traces, got 999"),
        ({"trace": MACHINES, "gpus": 8}, "trace", "expected a trace with jobs, got machines"),
        ({"step_times": QUOTAS, "gpus": 8}, "step_times", "expected a trace with step_times or throughputs"),
        ({"step_times": THROUGHPUTS, "gpus": 8}, "step_times", "expected step times of a model that the trace names"),
        ({"step_times": THROUGHPUTS, "gpus": 8, "batch": 3}, "batch", "their own batch sizes"),
        ({"step_times": SIA, "gpus": 8, "batch": 0}, "batch", "expected 1 to"),
        (
            {"step_times": SIA, "gpus": 8, "reference": "v100"},
            "reference",
            "expected no reference without throughputs, got one",
        ),
        ({"gpus": 8, "batch": 3}, "batch", "expected no batch without step times, got one"),
        ({"quotas": QUOTAS, "gpus": 8}, "quotas", "expected no quotas with a trace that names tenants"),
    ],
)
def test_what_is_wrong_with_files_beside_a_trace_is_named(alice: User, more: Any, field: str, words: str) -> None:
    import_cluster(gpu_servers_document(np.random.default_rng(1), name="lab"))
    jobs = uploaded(alice)

    def number(name: str, value: Any) -> Any:
        is_file = name in ("trace", *FILES) and isinstance(value, str) and len(value) > 1
        return upload.keep(alice, value, label="", source="")[0].pk if is_file else value

    workload = {"trace": jobs.pk, **{name: number(name, value) for name, value in more.items()}}
    with pytest.raises(InvalidField) as refused:
        submitted(alice, matrix(workloads=[workload]))
    assert refused.value.field == f"workloads[0].{field}"
    assert words.replace("trace 1 ", f"trace {jobs.pk}") in refused.value.problem


def test_the_machines_of_a_trace_are_servers_and_stay_while_they_are_named(alice: User) -> None:
    listed, _ = upload.keep(alice, MACHINES, label="", source="spec.csv")
    assert (listed.kind, listed.records, listed.malformed_lines) == ("machines", 2, 1)
    workload = {"trace": uploaded(alice).pk, "machines": listed.pk}
    (kept,) = submitted(alice, matrix(workloads=[workload])).matrix["workloads"]
    assert kept["machines"] == listed.pk
    assert kept["title"] == "forty jobs on spec.csv (1 line malformed)"
    assert TraceSource.from_json(kept["source"]).servers().servers == ("m1-0", "m3-1")
    with pytest.raises(WrongState):
        upload.delete(listed)


def test_a_policy_that_runs_no_rings_is_refused_for_them(alice: User) -> None:
    body = matrix(workloads=[{"trace": uploaded(alice).pk, "gpus": 8, "ring": True}])
    with pytest.raises(InvalidField, match="expected a policy that runs ring jobs"):
        submitted(alice, body)


def test_the_servers_of_a_cluster_are_kept_as_they_are_now(alice: User) -> None:
    import_cluster(gpu_servers_document(np.random.default_rng(1), name="lab"))
    experiment = submitted(alice, matrix(workloads=[{"trace": uploaded(alice).pk, "cluster": "lab"}],
                                     policies=[{"name": "fifo"}]))  # fmt: skip
    source = TraceSource.from_json(experiment.matrix["workloads"][0]["source"])
    assert source.servers().servers
    assert source.to_json() == experiment.matrix["workloads"][0]["source"]


def test_somebody_elses_trace_is_not_there(alice: User) -> None:
    trace = uploaded(make_user("bob"))
    with pytest.raises(InvalidField, match="expected one of your traces"):
        submitted(alice, matrix(workloads=[{"trace": trace.pk, "gpus": 8}]))


def test_one_that_was_deleted_meanwhile_is_not_asked_for_again(alice: User) -> None:
    seen = submitted(alice)
    requests.delete(Experiment.objects.get(pk=seen.pk))
    requests.delete(seen)
    with pytest.raises(WrongState, match="was deleted"):
        requests.rerun(alice, seen)
    assert not Experiment.objects.exists()


def test_where_the_first_was_deleted_meanwhile_the_second_is_compared_with(alice: User) -> None:
    first = submitted(alice)
    second = requests.rerun(alice, first)
    Experiment.objects.get(pk=first.pk).delete()
    assert requests.rerun(alice, second).rerun_of == second


def test_nobody_has_more_runs_under_way_than_may_be(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.OPEN_WORK, "runs", 11)
    submitted(alice)
    with pytest.raises(TooManyOpen):
        submitted(alice)
    assert Run.objects.count() == 6, "nothing of the second is left"


def test_a_trace_is_kept_once_with_what_is_wrong_in_it_by_line(alice: User) -> None:
    text = PHILLY_HEAD + "no job\n"
    trace, new = upload.keep(alice, text, label="a", source="p.csv")
    again, new_again = upload.keep(alice, text, label="b", source="q.csv")
    assert (new, new_again) == (True, False)
    assert trace == again
    assert (trace.format, trace.records, trace.malformed_lines) == ("philly", 40, 1)
    assert trace.malformed[0]["line"] == 42


def test_a_trace_of_lines_that_are_no_jobs_is_not_read_to_its_end(alice: User) -> None:
    for more, words in (("x,1\n" * 60_000, "more than 50,000 lines are no records; the first is line 42: line"),
                        ("\n" * 600_000, "at most 500,000 lines, got 600,041")):  # fmt: skip
        with pytest.raises(InvalidField, match=words):
            upload.keep(alice, PHILLY_HEAD + more, label="", source="")


@pytest.mark.parametrize("text", ["", "what is this\n", PHILLY_HEAD.splitlines()[0] + "\n"])
def test_what_is_no_trace_is_refused(alice: User, text: str) -> None:
    with pytest.raises(InvalidField) as refused:
        upload.keep(alice, text, label="", source="")
    assert refused.value.field == "text"


def test_a_trace_that_an_experiment_reads_stays(alice: User) -> None:
    trace = uploaded(alice)
    experiment = submitted(alice, matrix(workloads=[{"trace": trace.pk, "gpus": 8}]))
    with pytest.raises(WrongState):
        upload.delete(trace)
    experiment.delete()
    upload.delete(trace)
    assert not Trace.objects.exists()
