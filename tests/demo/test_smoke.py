"""The smoke test: a bid of a market of its own, and an error if it is not decided."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from auctions.engine import decision_queue
from auctions.models import Bid, Market
from demo import client


@pytest.fixture
def server(db: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Requests go to a client of tests; the addresses that were asked."""
    asked: list[str] = []

    def post(url: str, body: Any, headers: dict[str, str]) -> Any:
        asked.append(url)
        path = url.removeprefix("http://server")
        headers = {name: value for name, value in headers.items() if name != "Prefer"}
        answer = Client(headers=headers).post(path, body, content_type="application/json")
        if answer.status_code >= 400:
            raise client.Refused(f"{answer.status_code} {answer.content.decode()}")
        if not path.endswith("/bids"):
            return answer.json()
        decision_queue.process_pending(Market.objects.get().pk)
        bid = Bid.objects.latest("sequence")
        return {"sequence": bid.sequence, "state": bid.state}

    monkeypatch.setattr(client, "post", post)
    return asked


def test_each_run_submits_a_bid_that_is_decided(server: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        call_command("smoke", url="http://server/")
        assert capsys.readouterr().out.startswith(f"Bid {number} was decided: ")
    assert server[:2] == ["http://server/api/v1/token", "http://server/api/v1/clusters/smoke/bids"]
    assert Market.objects.count() == 1


def test_its_user_cannot_sign_in_afterwards(server: list[str]) -> None:
    call_command("smoke", url="http://server", verbosity=0)
    user = User.objects.get(username="smoke")
    assert not user.is_active
    assert not user.has_usable_password()


def test_a_bid_that_is_not_decided_is_an_error(server: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_queue, "process_pending", lambda market: 0)
    with pytest.raises(CommandError, match="Bid 1 was stored and not decided within 30 seconds"):
        call_command("smoke", url="http://server")


def test_a_server_that_does_not_answer_is_an_error(db: None) -> None:
    with pytest.raises(CommandError, match=r"http://127\.0\.0\.1:1: "):
        call_command("smoke", url="http://127.0.0.1:1")
    assert not User.objects.get(username="smoke").is_active


@pytest.mark.parametrize("url", ["server", "ftp://server", "http://", "http://[server", "http://server:x"])
def test_an_address_that_is_none_is_refused_before_anything_is_made(db: None, url: str) -> None:
    with pytest.raises(CommandError, match="--url: expected an address such as http"):
        call_command("smoke", f"--url={url}")
    assert not Market.objects.exists()
