"""The preview of a policy change."""

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions.counterfactual.comparison import compare
from auctions.counterfactual.preview import Preview, preview
from auctions.counterfactual.record import Record
from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.engine.submission import submit_bid
from auctions.models import Market, PolicyVersion
from cluster.models import Demand, MachineType, Resource
from scheduling.registry import make_policy
from tests.auctions.worlds import PRICED, make_cluster, make_market, make_operator, make_user, submit

FIFO = make_policy("fifo", {})


@pytest.fixture
def busy(market: Market, alice: User) -> Market:
    """Five bids that were rejected for their value."""
    for _ in range(5):
        submit(market, alice, 0.0001)
    decision_queue.process_pending(market.pk)
    return market


def test_it_says_how_many_of_the_last_decisions_would_have_been_others(busy: Market) -> None:
    assert preview(busy, FIFO).words == "This would have changed 5 of the last 5 decisions."
    assert preview(busy, FIFO, decisions=2).words == "This would have changed 2 of the last 2 decisions."
    assert preview(busy, make_policy("dps", dict(PRICED))).words == "This would have changed 0 of the last 5 decisions."


def test_the_last_decisions_are_on_bids_with_smaller_numbers_if_another_owner_had_a_turn_between(
    market: Market, alice: User
) -> None:
    for who in [alice] * 5 + [make_user("bob")]:
        submit(market, who, 0.0001)
    decision_queue.process_pending(market.pk)
    found = preview(market, FIFO, decisions=3).comparison
    assert found is not None
    assert [row.sequence for row in found.rows] == [3, 4, 5]
    assert (found.decided, found.changed, found.since) == (3, 3, 3)


def test_it_says_so_when_there_is_no_time(busy: Market) -> None:
    assert preview(busy, FIFO, seconds=-1.0).words == "The comparison was not computed within -1 s."
    found = compare(Record.of(busy), FIFO, since=1)
    assert Preview(200, replace(found, whole=False)).words == (
        "This would have changed 5 of 5 decisions, the earliest of the last 200: time was up before the others were"
        " made again."
    )


def test_it_says_so_when_the_policy_could_not_have_been_chosen(busy: Market) -> None:
    seen = preview(busy, make_policy("oasis", {}))
    assert seen.comparison is None
    assert "could not have decided its last bids by oasis: " in seen.words


def test_it_names_all_that_does_not_suit_the_policy(alice: User) -> None:
    cluster = make_cluster()
    shared = Resource.objects.get(cluster=cluster, name="gpu")  # with the workers, beside their servers
    Demand.objects.create(machine_type=MachineType.objects.get(role="ps"), resource=shared, amount=1)
    market = make_market(cluster)
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    seen = preview(market, make_policy("oasis", {}))
    assert "with their own resources" in seen.words
    assert "on their own servers" in seen.words


def test_it_says_so_when_nothing_was_decided(market: Market) -> None:
    assert preview(market, FIFO).words == "Nothing was decided yet."


def test_it_starts_from_plans_that_were_no_promises(alice: User) -> None:
    market = open_market(make_cluster(servers=1), policy="fifo")
    for _ in range(4):
        submit_bid(cluster=market.cluster, owner=alice, body={"model": "ResNet-50", "epochs": 4, "weight": 1})
        decision_queue.process_pending(market.pk)
    assert preview(market, FIFO, decisions=3).words == "This would have changed 0 of the last 3 decisions."


def test_an_operator_sees_it_before_the_change_is_saved(client: Client, busy: Market) -> None:
    client.force_login(make_operator())
    address = f"/admin/auctions/market/{busy.pk}/policy/?policy=fifo"
    form = client.get(address).context["form"]
    sent = {field.html_name: form.fields[field.html_name].prepare_value(field.value()) for field in form}
    assert "Use this policy from now on" not in client.get(address).content.decode()
    page = client.post(address, {**sent, "preview": "1"}).content.decode()
    assert "This would have changed 5 of the last 5 decisions." in page
    assert "Use this policy from now on" in page
    assert PolicyVersion.objects.filter(market=busy).count() == 1
    assert client.post(address, sent).status_code == 302
    assert PolicyVersion.objects.filter(market=busy).count() == 2
