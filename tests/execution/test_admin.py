"""Execution in the admin: what operators configure, what is refused in words, and what ran."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from execution import archives, overviews
from execution.models import Execution, Generation, GenerationState, Lease, Program
from execution.places import archive_file
from execution.steps import PATIENCE_S
from tests.auctions.worlds import SLOT_S, make_cluster, make_operator
from tests.execution.packing import tar_of, zip_of
from tests.execution.worlds import World, make_world

pytestmark = pytest.mark.thorough

ADMIN = "/admin/execution"
RECORDS = ("training", "generation", "process", "checkpoint", "progress", "lease", "defect")


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


@pytest.fixture
def operator(db: None, client: Client) -> Client:
    client.force_login(make_operator())
    return client


def form(**changes: Any) -> dict[str, Any]:
    sent = {"is_on": "on", "engine": "local", "grace_s": "10", "addresses": "{}", "sbatch_options": "[]"}
    return {
        **sent,
        "memory_mb": "",
        "first_uid": "",
        "allow_root": "on",
        "niceness": "10",
        "keep_days": "30",
        "slurm_configuration": "",
        **changes,
    }


def program_form(**changes: Any) -> dict[str, Any]:
    sent = {"name": "fit", "arguments": '["/usr/bin/python3", "fit.py"]', "working_directory": "/srv"}
    return {**sent, "environment": "{}", "is_open": "on", **changes}


def page(operator: Client, execution: Execution) -> str:
    return f"{ADMIN}/execution/{execution.pk}/change/"


def test_an_operator_lets_a_cluster_execute(operator: Client) -> None:
    cluster = make_cluster()
    answer = operator.post(f"{ADMIN}/execution/add/", form(cluster=cluster.pk, addresses='{"edge-0": "10.0.0.1"}'))
    assert answer.status_code == 302
    made = Execution.objects.get(cluster=cluster)
    assert (made.engine, made.grace_s, made.addresses) == ("local", 10.0, {"edge-0": "10.0.0.1"})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("engine", "ray", "not one of the available choices"),
        ("grace_s", "0", "greater than or equal to 0.1"),
        ("grace_s", "nan", "Enter a number"),
        ("grace_s", "1e9", "less than or equal to"),
        ("memory_mb", "-1", "greater than or equal to 0"),
        ("first_uid", "0", "greater than or equal to 1000"),
        ("own_programs", "on", "could read and change each other's files"),
        ("open_files", "3", "greater than or equal to 16"),
        ("processes", "0", "greater than or equal to 1"),
        ("file_mb", "x", "Enter a whole number"),
        ("service_url", "market.example", "Enter a valid URL"),
        ("niceness", "20", "less than or equal to 19"),
        ("keep_days", "0", "greater than or equal to 1"),
        ("addresses", "[1]", "Expected an object of texts"),
        ("addresses", '{"mars": "10.0.0.1"}', "Expected names of servers of lab, got mars"),
        ("addresses", "{", "Expected JSON, got an invalid document"),
        ("addresses", '{"edge-0": "\\ud800"}', "Expected an object of texts"),
        ("slurm_configuration", "etc/slurm.conf", "which begins with /"),
        ("slurm_configuration", "/etc/slurm.conf", "only the engine Slurm uses it"),
        ("sbatch_options", '["--partition=gpu"]', "only the engine Slurm uses it"),
        ("sbatch_options", '"-p gpu"', "only the engine Slurm uses it"),
    ],
)
def test_a_wrong_field_of_an_execution_is_named(operator: Client, field: str, value: str, words: str) -> None:
    answer = operator.post(f"{ADMIN}/execution/add/", form(cluster=make_cluster().pk, **{field: value}))
    assert answer.status_code == 200
    assert words in " ".join(answer.context["adminform"].form.errors[field])
    assert not Execution.objects.exists()


def test_options_of_slurm_are_a_list_of_texts(operator: Client) -> None:
    sent = form(cluster=make_cluster().pk, engine="slurm", sbatch_options="[1]")
    errors = operator.post(f"{ADMIN}/execution/add/", sent).context["adminform"].form.errors
    assert "Expected a list of texts" in " ".join(errors["sbatch_options"])


def test_all_wrong_fields_are_named_at_once(operator: Client) -> None:
    wrong = {"grace_s": "0", "addresses": '{"mars": "10.0.0.1"}', "sbatch_options": '["-p"]'}
    answer = operator.post(f"{ADMIN}/execution/add/", form(cluster=make_cluster().pk, **wrong))
    assert set(answer.context["adminform"].form.errors) == set(wrong)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "no spaces", "Expected letters"),
        ("name", "train", "that no program of this cluster has, got train"),
        ("arguments", '"python3 fit.py"', "Expected a list of texts"),
        ("arguments", "[]", "This field is required"),
        ("arguments", '[""]', "Expected the program as the first text"),
        ("working_directory", "srv", "which begins with /"),
        ("environment", '{"A=B": "1"}', "Expected names of variables"),
        ("environment", '{"A": 1}', "Expected an object of texts"),
        ("arguments", '["python3", "\\ud800"]', "Expected a list of texts"),
        ("environment", '{"A": "\\udfff"}', "Expected an object of texts"),
        ("environment", '{"\\udfff": "1"}', "Expected names of variables"),
    ],
)
def test_a_wrong_field_of_a_program_is_named(
    world: World, operator: Client, field: str, value: str, words: str
) -> None:
    sent = program_form(cluster=world.market.cluster_id, **{field: value})
    answer = operator.post(f"{ADMIN}/program/add/", sent)
    assert answer.status_code == 200
    errors = answer.context["adminform"].form.errors
    assert words in " ".join(message for messages in errors.values() for message in messages)
    assert Program.objects.count() == 1


@pytest.mark.parametrize("text", ["", "null"])
def test_json_that_is_left_empty_is_the_default(world: World, operator: Client, text: str) -> None:
    sent = program_form(cluster=world.market.cluster_id, environment=text)
    assert operator.post(f"{ADMIN}/program/add/", sent).status_code == 302
    assert Program.objects.get(name="fit").environment == {}
    sent = form(cluster=make_cluster("other").pk, addresses=text, sbatch_options=text)
    assert operator.post(f"{ADMIN}/execution/add/", sent).status_code == 302
    made = Execution.objects.get(cluster__name="other")
    assert (made.addresses, made.sbatch_options) == ({}, [])


def test_a_program_is_registered_and_keeps_its_name(world: World, operator: Client) -> None:
    cluster = world.market.cluster_id
    assert operator.post(f"{ADMIN}/program/add/", program_form(cluster=cluster)).status_code == 302
    made = Program.objects.get(name="fit")
    assert made.arguments == ["/usr/bin/python3", "fit.py"]
    changed = program_form(name="other", working_directory="/opt")
    assert operator.post(f"{ADMIN}/program/{made.pk}/change/", changed).status_code == 302
    made.refresh_from_db()
    assert (made.name, made.working_directory) == ("fit", "/opt")


def test_what_would_lose_processes_is_refused_while_they_run(world: World, operator: Client) -> None:
    world.submit(epochs=8)
    world.go(1.1 * SLOT_S)
    execution = Execution.objects.get()
    sent = form(engine="slurm", first_uid="20000")
    answer = operator.post(page(operator, execution), sent)
    assert set(answer.context["adminform"].form.errors) == {"engine", "first_uid"}
    delete = f"{ADMIN}/execution/{execution.pk}/delete/"
    assert operator.post(delete, {"post": "yes"}).status_code == 403
    switched_off = form()
    del switched_off["is_on"]
    assert operator.post(page(operator, execution), switched_off).status_code == 302
    world.go(30)
    assert world.engine.alive() == []
    assert operator.post(page(operator, execution), form(engine="slurm")).status_code == 302
    assert operator.post(delete, {"post": "yes"}).status_code == 302


def test_an_operator_sees_what_runs_and_whether_an_executor_is_active(world: World, operator: Client) -> None:
    execution = Execution.objects.get()
    assert "none has ever been started" in operator.get(page(operator, execution)).content.decode()
    world.submit(epochs=8)
    world.go(1.1 * SLOT_S)
    shown = operator.get(f"{ADMIN}/execution/").content.decode()
    assert "one is active, with fence 1" in shown
    assert "running: 1" in shown
    assert f"edge-0: {sum(one.start.server == 'edge-0' for one in world.engine.processes.values())}" in shown
    assert "nothing" in shown
    Lease.objects.update(until=world.now - 1)
    assert "none is active, the last was one" in operator.get(page(operator, execution)).content.decode()


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_shown_and_never_changed(world: World, operator: Client, name: str) -> None:
    world.submit(epochs=8)
    world.go(1.1 * SLOT_S)
    assert operator.get(f"{ADMIN}/{name}/").status_code == 200
    assert operator.get(f"{ADMIN}/{name}/?q=edge").status_code == 200
    assert operator.get(f"{ADMIN}/{name}/add/").status_code == 403
    assert operator.post(f"{ADMIN}/{name}/1/delete/", {"post": "yes"}).status_code in (302, 403)


def test_nothing_is_late_while_the_executor_works(world: World) -> None:
    world.submit(epochs=8)
    world.go(0.9 * SLOT_S)
    execution = Execution.objects.get()
    for _ in range(30):
        world.go(SLOT_S / 4)
        assert overviews.late(execution) == []


def test_a_bid_whose_machines_stand_idle_is_late(world: World) -> None:
    bid = world.submit(epochs=8)
    world.wall[0] += 1.2 * SLOT_S
    found = overviews.late(Execution.objects.get())
    assert [(one.bid, one.problem) for one in found] == [(bid.sequence, "it holds machines and nothing was started")]
    assert found[0].since.timestamp() == pytest.approx(world.now - 0.2 * SLOT_S)


def test_processes_that_do_not_start_or_end_are_late(world: World) -> None:
    bid = world.submit(epochs=8)
    world.engine.refuses = {"edge-0", "cloud"}
    world.go(1.2 * SLOT_S)
    execution = Execution.objects.get()
    found = overviews.late(execution)
    assert found
    assert all(one.bid == bid.sequence and "has not started" in one.problem for one in found)
    Generation.objects.update(state=GenerationState.STOPPING, stopped_at=found[0].since)
    ends = [one for one in overviews.late(execution) if "should have ended" in one.problem]
    due = found[0].since.timestamp() + execution.grace_s + PATIENCE_S
    assert [one.since.timestamp() for one in ends] == [pytest.approx(due)]


def test_a_cluster_that_is_switched_off_has_no_late_starts(world: World) -> None:
    world.submit(epochs=8)
    Execution.objects.update(is_on=False)
    world.wall[0] += 1.2 * SLOT_S
    assert overviews.late(Execution.objects.get()) == []


def test_a_bidder_does_not_enter(world: World, client: Client) -> None:
    client.force_login(world.owner)
    assert client.get(f"{ADMIN}/execution/").status_code == 403 or client.get(f"{ADMIN}/").status_code in (302, 403)


def test_a_program_comes_in_an_archive_which_stays_as_it_is(world: World, operator: Client) -> None:
    cluster, data = world.market.cluster_id, tar_of()
    sent = program_form(cluster=cluster, working_directory="", archive=SimpleUploadedFile("job.tar.gz", data))
    assert operator.post(f"{ADMIN}/program/add/", sent).status_code == 302
    made = Program.objects.get(name="fit")
    assert (made.archive_sha256, made.archive_bytes) == (archives.sha256_of(data), len(data))
    assert archive_file("lab", made.archive_sha256).read_bytes() == data
    change = f"{ADMIN}/program/{made.pk}/change/"
    assert made.archive_sha256 in operator.get(change).content.decode()
    other = program_form(working_directory="/srv", archive=SimpleUploadedFile("job.zip", zip_of()), arguments='["x"]')
    assert operator.post(change, other).status_code == 302
    made.refresh_from_db()
    assert (made.arguments, made.working_directory) == (["x"], "")
    assert made.archive_sha256 == archives.sha256_of(data)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"working_directory": ""}, "working_directory", "Expected a directory or an archive, got none."),
        ({"archive": tar_of()}, "working_directory", "Expected a directory or an archive, got both."),
        ({"working_directory": "", "archive": b"x"}, "archive", "expected a tar.gz or zip archive, got other bytes"),
    ],
)
def test_a_program_has_a_directory_or_an_archive(
    world: World, operator: Client, changes: dict[str, Any], field: str, words: str
) -> None:
    if "archive" in changes:
        changes = {**changes, "archive": SimpleUploadedFile("job.tar.gz", changes["archive"])}
    answer = operator.post(f"{ADMIN}/program/add/", program_form(cluster=world.market.cluster_id, **changes))
    assert answer.context["adminform"].form.errors[field] == [words]
    assert Program.objects.count() == 1


def test_a_new_execution_is_offered_system_users_where_it_runs_as_root(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user, offered in ((0, 200_000), (1_000, None)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        form = operator.get(f"{ADMIN}/execution/add/").context["adminform"].form
        assert form["first_uid"].value() == offered


def test_a_program_for_all_does_not_have_the_name_of_a_users_program(world: World, operator: Client) -> None:
    Program.objects.create(
        cluster=world.market.cluster, owner=world.owner, name="fit", arguments=["x"], archive_sha256=64 * "0"
    )
    answer = operator.post(f"{ADMIN}/program/add/", program_form(cluster=world.market.cluster_id))
    assert "that no program of this cluster has" in " ".join(answer.context["adminform"].form.errors["name"])
