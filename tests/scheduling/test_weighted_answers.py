"""`decide` on instances of the weighted-completion scheduler: costs alone, sequences, and the form of results."""

from pathlib import Path
from typing import Any

import pytest

from scheduling.instances.answer_weighted import JobResult, answer, to_document
from scheduling.instances.families import Options
from scheduling.instances.fields import parse_document
from scheduling.instances.weighted_completion import read_weighted
from scheduling.model.errors import InvalidField
from scheduling.model.schedule import Placement, Role, Schedule
from tests.data.make.weighted import random_busy
from tests.draws import fresh_seed
from tests.scheduling.cases import is_sequence, load, weighted_cases
from tests.scheduling.test_weighted_instance import PS
from tests.scheduling.twins.documents.numbers import exact
from tests.scheduling.twins.documents.weighted import Cluster, in_use

DRAWN = 20
SEQUENCES = weighted_cases(keep=is_sequence)


def decide(path: Path, **options: str) -> dict[str, Any]:
    return answer(parse_document(path.read_text()), Options(**options))


@pytest.mark.parametrize("path", weighted_cases())
def test_every_job_alone_costs_the_proven_minimum_and_ties_are_broken_as_the_format_says(path: Path) -> None:
    document, expected = load(path), load(path)["expected"]["mincost"]
    idle = [[[0] * document["tau"] for _ in row] for row in document["servers"]]
    document["beta"] = document["beta"] or idle
    for row in answer(document, Options())["jobs"]:
        want = expected[str(row["id"])]["optimal"]
        assert row["schedule"] == want["schedule"]
        assert (row["cost"] is None) == (want["cost"] is None)
        assert (row["cost"] or 0.0) == pytest.approx(want["cost"] or 0.0, rel=1e-6, abs=1e-9)


def test_every_job_of_a_fresh_instance_alone_costs_what_trying_everything_finds() -> None:
    first = fresh_seed()
    for seed in range(first, first + DRAWN):
        document = random_busy(seed)
        cluster = Cluster(document)
        for row in answer(document, Options())["jobs"]:
            found = cluster.all_best(
                row["id"], in_use(document), first=1, last=document["tau"], base=exact(document["lambda"])
            )
            where = f"seed {seed}, job {row['id']}"
            assert (row["cost"] is None) == (not found), where
            if found:
                assert row["cost"] == pytest.approx(float(found[0].cost), rel=1e-6, abs=1e-9), where
                # Prices are rounded, so one of several ways that cost the same may come out a little cheaper.
                allowed = found if found[0].cost else found[:1]
                assert row["schedule"] in [one.way.document(one.start) for one in allowed], where


def test_a_job_that_has_no_room_by_tau_has_no_schedule() -> None:
    (row,) = answer(PS | {"tau": 2, "beta": [[[1], [0]], [[0], [5]]]}, Options())["jobs"]
    assert row == {"id": "a", "completion": None, "cost": None, "schedule": None}


@pytest.mark.parametrize("path", SEQUENCES)
@pytest.mark.parametrize(("mode", "key"), [("rolling", "rolling_density"), ("interval", "online_commit_alpha4")])
def test_every_sequence_has_the_expected_total(path: Path, mode: str, key: str) -> None:
    result, want = decide(path, mode=mode), load(path)["expected"][key]
    assert {str(row["id"]): row["completion"] for row in result["jobs"]} == want["completion"]
    assert result["weighted_completion"] == want["twct"]
    waited = {job["id"]: job["w"] * job["a"] for job in load(path)["jobs"]}
    assert result["weighted_flow"] == want["twct"] - sum(waited.values())


def test_results_are_written_as_the_format_says() -> None:
    instance = read_weighted(PS)
    placements = (Placement(3, 5, Role.WORKER, 0, 0, 2), Placement(3, 5, Role.PS, 1, 0, 1))
    document = to_document(instance, [JobResult(5, 1.5, Schedule(3, 5, placements))])
    schedule = {"t": 3, "L": 2, "m": 0, "p": 0, "q": 0, "y": {"0": 2}, "s": {"1": 1}}
    assert document["jobs"] == [{"id": "a", "completion": 5, "cost": 1.5, "schedule": schedule}]
    assert document["weighted_completion"] == 50
    assert document["weighted_flow"] == 20


@pytest.mark.parametrize(
    ("field", "options"),
    [("--price", {"price": "paper"}), ("--mode", {"policy": "dps", "mode": "rolling"}), ("mode", {"mode": "x"})],
)
def test_an_option_that_does_not_fit_is_named(field: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidField) as error:
        answer(PS | {"beta": None}, Options(**options))
    assert error.value.field == field


def test_a_policy_for_parameter_servers_refuses_rings() -> None:
    ring = PS | {"arch": "ring", "pss": [], "jobs": [PS["jobs"][0] | {"U": 0}], "beta": None}
    with pytest.raises(InvalidField, match="--policy"):
        answer(ring, Options(policy="dps"))


@pytest.mark.parametrize("policy", ["dps", "completions", "competition"])
def test_a_policy_with_prices_is_refused(policy: str) -> None:
    with pytest.raises(InvalidField, match=f"^--policy: expected a policy without prices, .*, got {policy}$"):
        answer(PS | {"beta": None}, Options(policy=policy))


def test_a_policy_that_cannot_use_the_machines_is_refused_by_its_name() -> None:
    shared = PS | {"beta": None, "bw": 0, "workers": [[1]], "pss": [[1]], "servers": [[2]]}
    with pytest.raises(InvalidField, match=r"^--policy: expected a policy for the file's machines, got preemptive: "):
        answer(shared | {"jobs": []}, Options(policy="preemptive"))


@pytest.mark.parametrize(("field", "options"), [("--policy", {"policy": "fifo"}), ("--mode", {"mode": "interval"})])
def test_jobs_that_are_each_placed_alone_have_no_policy(field: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidField) as error:
        answer(PS, Options(**options))
    assert error.value.field == field
