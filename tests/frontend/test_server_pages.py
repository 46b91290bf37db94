"""Pages of servers: who holds what, and taking a server out of service, for operators alone."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from auctions.engine import decision_queue
from auctions.models import Bid, BidState, Commitment, Market, Outage
from tests.auctions.worlds import add_server, make_operator, set_time, submit


@pytest.fixture
def operator(client: Client, market: Market) -> Client:
    """Signed in."""
    client.force_login(make_operator("olga"))
    return client


@pytest.fixture
def busy(market: Market, alice: User) -> str:
    """The server that one job of Alice runs on."""
    submit(market, alice, label="mine", epochs=5)
    decision_queue.process_pending(market.pk)
    row = Commitment.objects.select_related("server").first()
    assert row is not None
    return row.server.name


def test_who_holds_a_server_until_when_is_shown(operator: Client, busy: str) -> None:
    listed = operator.get(reverse("servers", args=["lab"])).content.decode()
    assert "In service" in listed
    assert busy in listed
    page = operator.get(reverse("server", args=["lab", busy])).content.decode()
    assert "1: mine" in page
    assert f"(slot\u00a0{Bid.objects.get().completion_slot})" in page
    rows = operator.get(reverse("server_csv", args=["lab", busy])).content.decode().splitlines()
    assert rows[0].startswith("bid,owner,label,state,machine_type,role,count,queued,start_slot")
    assert rows[1].startswith("1,alice,mine,")


def test_a_server_is_drained_lost_and_returned_from_its_page(operator: Client, busy: str) -> None:
    page = reverse("server", args=["lab", busy])
    answer = operator.post(f"{page}drain/", {"from_slot": "", "deadline_slot": "", "reason": "a loud fan"}, follow=True)
    assert "Takes no new work" in answer.content.decode()
    assert "a loud fan" in answer.content.decode()
    answer = operator.post(f"{page}lost/", {"reason": "it burns"}, follow=True)
    assert "Nobody holds it." in answer.content.decode()
    assert Outage.objects.get(ended_version=None).reason == "it burns"
    chart = operator.get(reverse("chart", args=["lab", "prices"])).content.decode()
    assert f"{busy} (out of service)" in chart
    operator.post(f"{page}restore/", {"reason": ""})
    assert not Outage.objects.filter(ended_version=None).exists()


def _listed(operator: Client, query: str) -> list[str]:
    """The names of the servers that the list shows at this query."""
    page = operator.get(f"{reverse('servers', args=['lab'])}?{query}").text
    return re.findall(r'<th scope="row"><a href="[^"]+">([^<]+)</a>', page)


def test_many_servers_are_listed_in_pages_that_keep_the_filters(operator: Client, market: Market) -> None:
    rack = [f"Rack-{i:02}" for i in range(60)]
    for name in rack:
        add_server(market.cluster, name, units=1)
    assert _listed(operator, "") == ["edge-0", "edge-1", "cloud", *rack[:22]]
    assert _listed(operator, "page=3") == rack[47:]
    assert _listed(operator, "name=rack&page=3") == rack[50:]
    page = operator.get(f"{reverse('servers', args=['lab'])}?state=in_service&name=rack&page=2").text
    assert "Page 2 of 3 · 60 servers" in page
    assert '<a rel="next" href="?state=in_service&amp;name=rack&amp;page=3">Next</a>' in page


def test_servers_are_listed_by_state(operator: Client, market: Market) -> None:
    operator.post(reverse("server_drain", args=["lab", "edge-1"]), {"from_slot": "5"})
    operator.post(reverse("server_lost", args=["lab", "cloud"]))
    assert _listed(operator, "state=in_service") == ["edge-0"]
    assert _listed(operator, "state=draining&name=EDGE") == ["edge-1"]
    assert _listed(operator, "state=lost") == ["cloud"]
    assert _listed(operator, "state=none") == ["edge-0", "edge-1", "cloud"]
    empty = operator.get(f"{reverse('servers', args=['lab'])}?state=lost&name=edge").text
    assert "No server matches these filters." in empty
    assert "<table" not in empty


@pytest.mark.parametrize(
    ("sent", "wrong"),
    [
        ({"from_slot": "2", "deadline_slot": "1"}, ["deadline_slot"]),
        ({"from_slot": "-2", "deadline_slot": "9999"}, ["from_slot", "deadline_slot"]),
        ({"from_slot": "soon", "deadline_slot": ""}, ["from_slot"]),
    ],
)
def test_a_refused_drain_keeps_what_was_typed_with_each_error_at_its_field(
    operator: Client, busy: str, sent: dict[str, str], wrong: list[str]
) -> None:
    answer = operator.post(reverse("server_drain", args=["lab", busy]), {**sent, "reason": "a loud fan"})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert all(f'value="{text}"' in page for text in [*filter(None, sent.values()), "a loud fan"])
    assert sorted(re.findall('id="error-([a-z_]+)" role="alert">', page)) == sorted(wrong)
    assert not Outage.objects.exists()


def test_a_job_is_failed_from_its_page_with_a_reason(operator: Client, market: Market, busy: str) -> None:
    set_time(market, 150)
    page = operator.get(reverse("bid", args=["lab", 1])).content.decode()
    assert "Fail the job" in page
    address = reverse("fail", args=["lab", 1])
    answer = operator.post(address, {"reason": "x" * 201, "refund": "all"}, follow=True).content.decode()
    assert "Reason: Ensure this value has at most 200 characters" in answer
    assert "Refund: Select a valid choice." in answer
    assert "Reason: This field is required." in operator.post(address, follow=True).content.decode()
    answer = operator.post(address, {"reason": "its data was damaged", "refund": "full"}, follow=True).content.decode()
    assert "its data was damaged" in answer
    assert "Paid back" in answer
    assert Bid.objects.get().state == BidState.FAILED


@pytest.mark.parametrize("name", ["servers", "server", "server_csv"])
def test_servers_are_not_there_for_bidders(client: Client, alice: User, busy: str, name: str) -> None:
    client.force_login(alice)
    args = ["lab"] if name == "servers" else ["lab", busy]
    assert client.get(reverse(name, args=args)).status_code == 404
    page = client.get(reverse("bid", args=["lab", 1])).content.decode()
    assert "Fail the job" not in page
    for deed in ("server_lost", "server_drain", "server_restore"):
        assert client.post(reverse(deed, args=["lab", busy])).status_code == 404
    assert client.post(reverse("fail", args=["lab", 1]), {"reason": "x", "refund": "full"}).status_code == 404
    assert not Outage.objects.exists()
    assert Bid.objects.get().state in (BidState.PLANNED, BidState.RUNNING)
