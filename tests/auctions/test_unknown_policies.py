"""A market whose policy this version does not have, since it was removed from the registry."""

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from auctions import tasks
from auctions.engine.markets import open_market
from auctions.management.commands.serve import Command
from auctions.models import Bid, BidState, Market, PolicyVersion
from auctions.runtime import supervisor
from scheduling.registry import POLICIES
from tests.auctions.faulty import FaultyDps, register
from tests.auctions.worlds import body, make_cluster, make_operator, submit


@pytest.fixture
def removed(db: None, monkeypatch: pytest.MonkeyPatch) -> Market:
    register(monkeypatch)
    market = open_market(make_cluster(), policy=FaultyDps.name)
    monkeypatch.delitem(POLICIES, FaultyDps.name)
    return market


def test_the_server_does_not_start_and_names_the_market(removed: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "run", lambda *_: None)
    monkeypatch.setattr(Command, "_serve", lambda *_: None)
    with pytest.raises(CommandError, match=f"^markets: expected .*, got '{FaultyDps.name}' in {removed.cluster.name}$"):
        call_command("serve")


def test_a_replay_names_the_policy(removed: Market) -> None:
    with pytest.raises(CommandError, match=f"^the record names an unknown policy '{FaultyDps.name}'; known: antman"):
        call_command("replay_market", removed.cluster.name)


@pytest.fixture(params=["name", "parameters"])
def outdated(request: pytest.FixtureRequest, market: Market, alice: User) -> Market:
    """A market with a bid, whose policy has a name or a parameter that this version does not know."""
    submit(market, alice)
    changed = {"name": "no-such"} if request.param == "name" else {"parameters": {"speed": 1.0}}
    PolicyVersion.objects.filter(market=market).update(**changed)
    return market


def test_it_is_logged_once_without_a_traceback_and_once_when_the_policy_is_there_again(
    outdated: Market, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    known = POLICIES["dps"]().to_json()
    for _ in range(3):
        tasks.sweep()
        tasks.certify()
        tasks.measure()
        assert tasks.decide_market(outdated.pk) == 0
    [record] = caplog.records
    assert record.exc_info is None
    assert record.getMessage().startswith(f"sweep of market {outdated.pk} waits: the market lab decides no bids: ")
    assert record.getMessage().endswith("; an operator has to run the version that has it")
    PolicyVersion.objects.filter(market=outdated).update(name="dps", parameters=known)
    tasks.sweep()
    assert [one.getMessage() for one in caplog.records[1:]] == [f"sweep of market {outdated.pk} goes on"]
    assert not Bid.objects.filter(market=outdated, state=BidState.SUBMITTED).exists()


def test_pages_and_the_interface_say_so_and_other_markets_go_on(outdated: Market, alice: User) -> None:
    other = open_market(make_cluster("other"), policy="dps")
    submit(other, alice)
    tasks.sweep()
    assert not Bid.objects.filter(market=other, state=BidState.SUBMITTED).exists()
    client = Client(raise_request_exception=False)
    client.force_login(alice)
    words = "his version does not have "
    for address in ("/markets/lab/", "/markets/lab/bids/", "/api/v1/clusters/lab", "/api/v1/clusters/lab/bids"):
        answer = client.get(address)  # some of them need no policy
        assert answer.status_code == 200 or words in answer.content.decode(), address
    for answer in (
        client.get("/markets/lab/submit/"),
        client.post("/api/v1/clusters/lab/quotes", body(), content_type="application/json"),
    ):
        assert answer.status_code == 503
        assert words in answer.content.decode()
    page = client.get("/").content.decode()
    assert words in page
    assert 'href="/markets/other/"' in page
    client.force_login(make_operator())
    assert client.get(f"/admin/auctions/market/{outdated.pk}/policy/").status_code == 503
    for address in ("/", "/markets/other/", "/api/v1/clusters/other", "/api/v1/clusters", "/admin/auctions/bid/"):
        assert client.get(address).status_code == 200, address
