"""Programs that users bring: who may bring, see, name and close them, by REST, on pages, and when they run."""

import base64
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError, transaction
from django.test import Client
from rest_framework.test import APIClient

from auctions.engine.submission import submit_bid
from auctions.models import Bid
from execution import archives, programs
from execution.models import Execution, Program, Training
from execution.places import archive_file, unpacked
from scheduling.model.errors import InvalidField
from tests.auctions.worlds import SLOT_S, body, make_operator, make_user
from tests.execution.packing import tar_of, zip_of
from tests.execution.worlds import World, make_world
from tests.rest import client_of, nobody_asked_before

__all__ = ["client_of", "nobody_asked_before"]
PROGRAMS = "/api/v1/clusters/lab/programs"
PAGE = "/markets/lab/programs/"


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    world = make_world(monkeypatch, settings, tmp_path)
    Execution.objects.update(own_programs=True, users_trust_each_other=True)
    return world


@pytest.fixture
def people(world: World, client_of: Callable[[User], APIClient]) -> dict[str, APIClient]:
    """Alice owns a program, Bob and Charlie bid too, Olga operates."""
    users = (world.owner, make_user("bob"), make_user("charlie"), make_operator())
    return {user.get_username(): client_of(user) for user in users}


def sent(name: str = "mine", data: bytes = zip_of(), **changes: Any) -> dict[str, Any]:
    archive = base64.b64encode(data).decode()
    return {"name": name, "arguments": ["python3", "job.py"], "archive": archive, **changes}


def bring(client: APIClient, name: str = "mine", **changes: Any) -> dict[str, Any]:
    answer = client.post(PROGRAMS, sent(name, **changes), format="json")
    assert answer.status_code == 201, answer.content
    read: dict[str, Any] = answer.json()
    assert client.get(answer["Location"]).json() == read
    return read


def wrong(answer: Any) -> dict[str, str]:
    return {one["field"]: one["message"] for one in answer.json()["errors"]}


def bid(world: World, owner: User, name: str) -> Bid:
    return submit_bid(cluster=world.market.cluster, owner=owner, body=body(program={"name": name})).bid


def test_a_program_is_stored_with_its_hash_and_runs_for_its_owner(world: World, people: dict[str, APIClient]) -> None:
    data = tar_of()
    made = bring(people["alice"], data=data, environment={"OMP_NUM_THREADS": "1"})
    sha256 = archives.sha256_of(data)
    assert (made["owner"], made["archive_sha256"], made["archive_bytes"]) == ("alice", sha256, len(data))
    assert (made["working_directory"], made["is_open"], made["environment"]) == (None, True, {"OMP_NUM_THREADS": "1"})
    assert archive_file("lab", sha256).read_bytes() == data
    bid(world, world.owner, "mine")
    world.go(1.2 * SLOT_S)
    starts = [one.start for one in world.engine.processes.values()]
    assert {one.working_directory for one in starts} == {unpacked("lab", sha256, None)}
    assert {one.arguments for one in starts} == {("python3", "job.py")}
    assert Training.objects.get().program_id == made["id"]


def test_a_full_disk_is_no_wrong_field(people: dict[str, APIClient], monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(archives, "_check_entries", fill)
    answer = people["alice"].post(PROGRAMS, sent(), format="json")
    assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    assert answer.json()["detail"] == "The disk of the service has no room for the archive; try again later."
    assert not Program.objects.filter(name="mine").exists()


def test_others_neither_see_nor_name_nor_close_it(world: World, people: dict[str, APIClient]) -> None:
    made = bring(people["alice"], environment={"KEY": "secret"})
    one = f"{PROGRAMS}/{made['id']}"
    for name in ("bob", "charlie"):
        client = people[name]
        assert [row["name"] for row in client.get(PROGRAMS).json()["results"]] == ["train"]
        assert client.get(one).status_code == client.post(f"{one}/close").status_code == 404
        with pytest.raises(InvalidField, match=r"program.name: expected one of train, got 'mine'"):
            bid(world, User.objects.get(username=name), "mine")
    assert Program.objects.get(pk=made["id"]).is_open
    seen = people["olga"].get(PROGRAMS).json()["results"]
    assert seen == [
        {
            key: value
            for key, value in people["olga"].get(f"{PROGRAMS}/{row['id']}").json().items()
            if key != "environment"
        }
        for row in seen
    ]
    assert [(row["name"], row["owner"]) for row in seen] == [("mine", "alice"), ("train", None)]
    assert people["olga"].get(one).json()["environment"] == {"KEY": "secret"}
    with pytest.raises(InvalidField, match=r"program.name"):  # an operator is no owner either
        bid(world, User.objects.get(username="olga"), "mine")


def test_two_users_have_programs_of_the_same_name(world: World, people: dict[str, APIClient]) -> None:
    hers, his = bring(people["alice"]), bring(people["bob"], data=tar_of())
    bob = User.objects.get(username="bob")
    assert programs.named(world.market.cluster, world.owner, "mine") == Program.objects.get(pk=hers["id"])
    assert programs.named(world.market.cluster, bob, "mine") == Program.objects.get(pk=his["id"])


def test_a_name_means_one_program_for_each_bidder(people: dict[str, APIClient]) -> None:
    bring(people["alice"])
    for name, taken in (("alice", "mine"), ("alice", "train"), ("olga", "mine"), ("olga", "train")):
        assert list(wrong(people[name].post(PROGRAMS, sent(taken), format="json"))) == ["name"]
    assert Program.objects.count() == 2


def test_a_program_for_all_is_registered_by_an_operator_and_closed_by_no_bidder(
    world: World, people: dict[str, APIClient]
) -> None:
    answer = people["olga"].post(
        PROGRAMS,
        {"name": "fit", "arguments": ["x"], "working_directory": "/srv", "environment": {"KEY": "secret"}},
        format="json",
    )
    made = answer.json()
    assert (answer.status_code, made["owner"], made["working_directory"]) == (201, None, "/srv")
    one = f"{PROGRAMS}/{made['id']}"
    assert people["bob"].get(one).json()["environment"] is None
    assert people["bob"].post(f"{one}/close").status_code == 403
    bid(world, world.owner, "fit")
    assert people["olga"].post(f"{one}/close").json()["is_open"] is False


def test_a_closed_program_takes_no_new_bids_and_still_runs(world: World, people: dict[str, APIClient]) -> None:
    made = bring(people["alice"])
    bid(world, world.owner, "mine")
    assert people["alice"].post(f"{PROGRAMS}/{made['id']}/close").json()["is_open"] is False
    with pytest.raises(InvalidField, match="expected one of train"):
        bid(world, world.owner, "mine")
    world.go(1.2 * SLOT_S)
    assert Training.objects.get().program_id == made["id"]


def test_where_the_operator_does_not_allow_it_no_user_brings_or_names_one(
    world: World, people: dict[str, APIClient]
) -> None:
    bring(people["alice"])
    Execution.objects.update(own_programs=False)
    answer = people["alice"].post(PROGRAMS, sent("other"), format="json")
    assert answer.status_code == 409
    assert "first_uid" in answer.json()["detail"]
    assert "trust each other" in answer.json()["detail"]
    with pytest.raises(InvalidField, match="expected one of train"):
        bid(world, world.owner, "mine")
    bring(people["olga"], "other")
    Execution.objects.all().delete()
    assert people["alice"].get(PROGRAMS).status_code == people["alice"].post(PROGRAMS, {}).status_code == 404


def test_the_database_refuses_programs_of_users_who_are_neither_apart_nor_trusted(world: World) -> None:
    Execution.objects.update(first_uid=20_000, users_trust_each_other=False)
    with pytest.raises(IntegrityError), transaction.atomic():
        Execution.objects.update(first_uid=None)


def test_all_wrong_fields_of_a_program_are_named_at_once(people: dict[str, APIClient]) -> None:
    found = wrong(people["alice"].post(PROGRAMS, {"arguments": "x", "archive": "ä", "more": 1}, format="json"))
    assert set(found) == {"name", "arguments", "archive", "more"}
    refused = {"name": "two words", "arguments": [""], "environment": {"A=B": "1"}, "working_directory": "/srv"}
    found = wrong(people["alice"].post(PROGRAMS, {**sent(data=b"x"), **refused}, format="json"))
    assert set(found) == {"name", "arguments", "environment", "archive", "working_directory"}
    assert found["name"] == (
        "expected letters, digits, dots, dashes and underscores, first a letter or a digit, got 'two words'"
    )
    assert found["archive"] == "expected a tar.gz or zip archive, got other bytes"
    mixed = {"name": "two words", "arguments": 7, "environment": {"A": 1, "B": "1"}, "working_directory": "/srv"}
    found = wrong(people["alice"].post(PROGRAMS, {**sent(data=b"x"), **mixed}, format="json"))
    assert set(found) == {"name", "arguments", "environment.A", "archive", "working_directory"}
    assert found["archive"] == "expected a tar.gz or zip archive, got other bytes"
    assert wrong(people["alice"].post(PROGRAMS, sent(archive="ä"), format="json")) == {
        "archive": "expected base64, got other characters"
    }
    assert (
        "got neither"
        in wrong(people["olga"].post(PROGRAMS, {"name": "a", "arguments": ["x"]}, format="json"))["archive"]
    )
    found = wrong(people["olga"].post(PROGRAMS, {"name": "train", "working_directory": 7}, format="json"))
    assert set(found) == {"name", "arguments", "working_directory"}, "whether it needs an archive is not known"
    assert Program.objects.count() == 1


def test_one_user_has_a_limited_number_of_programs(
    people: dict[str, APIClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "MOST_OPEN", 1)
    monkeypatch.setattr(programs, "MOST_A_DAY", 2)
    for name in ("one", "two"):
        made = bring(people["alice"], name)
        answer = people["alice"].post(PROGRAMS, sent("more"), format="json")
        assert (answer.status_code, answer["Retry-After"]) == (429, "60")
        people["alice"].post(f"{PROGRAMS}/{made['id']}/close")
    assert "within a day" in people["alice"].post(PROGRAMS, sent("more"), format="json").json()["detail"]
    bring(people["bob"], "more")


def test_the_page_brings_lists_and_closes_programs(world: World, people: dict[str, APIClient], client: Client) -> None:
    client.force_login(world.owner)
    fields = {"name": "mine", "arguments": "python3 'my job.py'", "environment": '{"A": "1"}'}
    answer = client.post(PAGE, {**fields, "archive": SimpleUploadedFile("job.zip", b"x")})
    assert answer.status_code == 422
    assert "expected a tar.gz or zip archive" in answer.content.decode()
    nested = {"environment": '{"A": ' * 20_000, "archive": SimpleUploadedFile("job.zip", zip_of())}
    assert "environment" in client.post(PAGE, {**fields, **nested}).context["form"].errors
    for text in ('{"A": "\\ud800"}', '{"\\ud800": "1"}'):
        unstorable = {"environment": text, "archive": SimpleUploadedFile("job.zip", zip_of())}
        assert "environment" in client.post(PAGE, {**fields, **unstorable}).context["form"].errors
    assert client.post(PAGE, {**fields, "archive": SimpleUploadedFile("job.zip", zip_of())}).status_code == 302
    made = Program.objects.get(owner=world.owner)
    assert (made.arguments, made.environment) == (["python3", "my job.py"], {"A": "1"})
    assert made.archive_sha256 in client.get(PAGE).content.decode()
    assert 'value="mine"' in client.get("/markets/lab/submit/").content.decode()
    close = f"{PAGE}{made.pk}/close/"
    for name, status in (("bob", 404), ("olga", 302)):
        client.force_login(User.objects.get(username=name))
        assert ("mine" in client.get(PAGE).content.decode()) is (name == "olga")
        assert 'value="mine"' not in client.get("/markets/lab/submit/").content.decode()
        assert client.post(close).status_code == status
    made.refresh_from_db()
    assert not made.is_open
    client.force_login(world.owner)
    train = Program.objects.get(owner=None)
    assert client.post(f"{PAGE}{train.pk}/close/").status_code == 403
    Execution.objects.update(own_programs=False)
    assert "Users may not bring programs" in client.get(PAGE).content.decode()


def test_bodies_with_an_archive_may_be_large() -> None:
    large, small = (
        (PROGRAMS, PAGE, "/admin/execution/program/add/"),
        ("/api/v1/clusters/lab/bids", "/markets/lab/submit/"),
    )
    assert all(project.LARGE_PATHS.match(path) for path in large)
    assert not any(project.LARGE_PATHS.match(path) for path in small)
