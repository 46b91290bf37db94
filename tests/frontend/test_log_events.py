"""The event stream of a log sends each line once, resumes from an offset, and ends with the process."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import Http404
from django.test import AsyncRequestFactory, Client

from accounts.models import Role
from accounts.teams import add_member, create_team, remove_member
from auctions.models import Bid, Market
from execution import logs
from execution.engines.files import Logs
from execution.places import engine_root
from frontend.views import events, log_events
from tests.auctions.worlds import make_operator, make_user, submit
from tests.execution.rows import KEY, make_training

KEYS = ("text", "begin", "end", "first", "size", "unfinished")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a process that runs."""
    monkeypatch.setattr(log_events, "EVERY_S", 0.01)
    made = tmp_path / "live" / KEY
    made.mkdir(parents=True)
    return made


def write(folder: Path, text: str) -> None:
    with open(folder / f"log.{0:020}", "a") as file:
        file.write(text)


def parts(heard: list[str]) -> list[tuple[int, str]]:
    """The id and the text of each event with lines."""
    found = []
    for said in heard:
        if said.startswith("id: "):
            name, data = said.split("\n")[:2]
            document = json.loads(data.removeprefix("data: "))
            assert tuple(document) == KEYS
            found.append((int(name.removeprefix("id: ")), document["text"]))
    return found


def listen(folder: Path, offset: int = 0, *, over: bool = False, more: Any = None) -> list[str]:
    """All that a stream says; `more` is called after each event, and has to let the process end."""

    async def run() -> list[str]:
        heard = []
        async for said in log_events.stream(Logs(folder.parents[1]), KEY, offset, over=over):
            heard.append(said)
            if more is not None:
                more(len(heard))
        return heard

    return asyncio.run(asyncio.wait_for(run(), 20))


def test_lines_are_sent_once_they_are_whole_and_the_last_one_when_the_process_has_ended(folder: Path) -> None:
    write(folder, "one\ntw")

    def more(heard: int) -> None:
        if heard == 2:
            write(folder, "o\n")
        if heard == 3:
            write(folder, "half")
            (folder / "exit.json").write_text("{}")

    heard = listen(folder, more=more)
    assert parts(heard) == [(4, "one\n"), (8, "two\n"), (12, "half")]
    assert heard[-1].startswith("event: over")


def test_a_progress_bar_is_sent_as_it_grows_and_once_more_as_a_line_when_it_ends(folder: Path) -> None:
    write(folder, "begin\n\r 10%")

    def more(heard: int) -> None:
        if heard == 2:
            write(folder, "\r 11% <b>")
        if heard == 3:
            write(folder, "\r100%\n")
            (folder / "exit.json").write_text("{}")

    heard = listen(folder, more=more)
    assert parts(heard) == [(7, "begin\n"), (12, ""), (26, "100%\n")]
    assert [json.loads(said.split("data: ")[1])["unfinished"] for said in heard[1:-1]] == [" 10%", " 11% <b>", ""]


def test_a_bar_that_never_rests_is_read_once_in_a_while(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_events, "EVERY_S", 0.1)
    monkeypatch.setattr(log_events, "LIFE_S", 0.35)
    write(folder, "\r" * 3 * logs.BLOCK)  # what is there is sent at once
    heard = listen(folder, more=lambda heard: write(folder, f"\r{heard}%"))
    assert len(parts(heard)) <= 3 + 4


def test_it_resumes_from_the_offset_that_was_seen_last(folder: Path) -> None:
    write(folder, "one\ntwo\n")
    assert parts(listen(folder, 4, over=True)) == [(8, "two\n")]
    assert parts(listen(folder, 8, over=True)) == []


def test_a_retired_process_has_ended(folder: Path) -> None:
    write(folder, "one\n")
    (folder.parents[1] / "ended").mkdir()
    folder.rename(folder.parents[1] / "ended" / KEY)
    assert parts(listen(folder)) == [(4, "one\n")]


def test_a_quiet_log_says_that_the_stream_lives_and_the_stream_ends_in_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_events, "BEAT_S", 0.0)
    monkeypatch.setattr(log_events, "LIFE_S", 0.1)
    heard = listen(folder)
    assert ": still here\n\n" in heard
    assert not heard[-1].startswith("event: over")


@pytest.fixture
def address(market: Market, alice: User, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> str:
    """A log of Alice's."""
    settings.EXECUTION_DIR = tmp_path
    make_training(submit(market, alice))
    folder = engine_root("lab") / "live" / KEY
    folder.mkdir(parents=True)
    write(folder, "one\ntwo\n")
    return f"/markets/lab/bids/1/training/logs/{KEY}/events"


def opened(monkeypatch: pytest.MonkeyPatch, who: User | AnonymousUser, address: str, **headers: str) -> Any:
    """The response, and the offset from which its stream would begin."""
    begun: list[int] = []

    async def nothing(read: Logs, key: str, offset: int, *, over: bool) -> AsyncIterator[str]:
        begun.append(offset)
        yield f"{key} {over}"

    monkeypatch.setattr(log_events, "stream", nothing)
    request: Any = AsyncRequestFactory().get(address, headers=headers)

    async def auser() -> User | AnonymousUser:
        return who

    request.user, request.auser = who, auser

    async def answer() -> Any:
        response: Any = await log_events.events(request, "lab", 1, KEY)
        said = [part async for part in response.streaming_content] if response.streaming else []
        return response, said, begun

    return asyncio.run(answer())


@pytest.mark.django_db(transaction=True)
def test_it_is_for_the_owner_and_operators(address: str, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    for who in (alice, make_operator()):
        response, said, begun = opened(monkeypatch, who, f"{address}?offset=4")
        assert (response.status_code, response["Content-Type"]) == (200, "text/event-stream")
        assert (said, begun) == ([f"{KEY} False".encode()], [4])
    _, _, begun = opened(monkeypatch, alice, f"{address}?offset=4", **{"Last-Event-ID": "8"})
    assert begun == [8]
    with pytest.raises(Http404):
        opened(monkeypatch, make_user("charlie"), address)
    assert opened(monkeypatch, AnonymousUser(), address)[0].status_code == 204


@pytest.mark.django_db(transaction=True)
def test_who_left_the_team_reads_its_logs_for_a_minute_at_most(
    address: str, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log_events.LIFE_S <= 60.0
    team, bob = create_team("vision", "Vision", administrator=alice), make_user("bob")
    Bid.objects.update(team=team)
    membership = add_member(team, bob, Role.VIEWER)
    assert opened(monkeypatch, bob, address)[0].status_code == 200
    remove_member(team, membership)
    with pytest.raises(Http404):  # when the stream has ended and is opened again
        opened(monkeypatch, User.objects.get(pk=bob.pk), address)


@pytest.mark.django_db(transaction=True)
def test_one_user_has_a_limited_number_of_streams(
    address: str, alice: User, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.STREAMS_OF_ONE_USER = 2
    monkeypatch.setitem(events._open, alice.pk, 2)
    response, _, begun = opened(monkeypatch, alice, address)
    assert (response.status_code, begun) == (429, [])


def test_without_asgi_the_page_asks(address: str, alice: User, client: Client) -> None:
    client.force_login(alice)
    assert client.get(address).status_code == 204
