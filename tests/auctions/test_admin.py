"""The market in the admin."""

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.engine.submission import submit_bid
from auctions.models import Bid, BidState, Event, EventKind, Market, PolicyVersion
from cluster.documents import import_cluster
from demo.clusters import two_pools_document
from scheduling.model.errors import InvalidField
from scheduling.policies.dps import Dps
from scheduling.registry import POLICIES
from tests.auctions.worlds import body, make_cluster, make_operator, submit


@pytest.fixture
def operator(client: Client, db: None) -> Client:
    """A superuser, logged in."""
    client.force_login(make_operator())
    return client


def parameters(**changes: str) -> dict[str, str]:
    """What the form sends when nothing was touched, and then some."""
    sent = {name: str(value) for name, value in Dps().to_json().items()}
    return sent | {"eta_worker": "", "eta_ps": ""} | changes


def test_a_market_is_opened_with_the_default_policy(operator: Client) -> None:
    cluster = make_cluster()
    answer = operator.post("/admin/auctions/market/add/", {"cluster": cluster.pk})
    assert answer.status_code == 302
    market = Market.objects.get(cluster=cluster)
    assert list(market.events.values_list("kind", flat=True)) == [EventKind.OPENED, EventKind.POLICY]


@pytest.mark.parametrize("parts", ["servers", "machine_types"])
def test_no_market_is_opened_where_no_job_could_run(operator: Client, parts: str) -> None:
    cluster = make_cluster()
    getattr(cluster, parts).all().delete()
    answer = operator.post("/admin/auctions/market/add/", {"cluster": cluster.pk})
    assert answer.status_code == 200
    assert "expected at least one before a market is opened, got none" in answer.content.decode()
    with pytest.raises(InvalidField, match="expected at least one"):
        open_market(cluster)
    assert not Market.objects.exists()


def test_all_that_a_cluster_lacks_is_named(operator: Client) -> None:
    cluster = make_cluster()
    cluster.servers.all().delete()
    cluster.machine_types.all().delete()
    page = operator.post("/admin/auctions/market/add/", {"cluster": cluster.pk}).content.decode()
    for what in ("worker types", "servers"):
        assert f"{what}: expected at least one before a market is opened, got none" in page


def test_the_form_asks_for_every_parameter_with_its_help(operator: Client, market: Market) -> None:
    page = operator.get(f"/admin/auctions/market/{market.pk}/policy/").content.decode()
    for name in Dps().to_json():
        assert f'name="{name}"' in page
    assert "a reserve price from quantiles of past bids" in page


@pytest.mark.thorough
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_can_be_saved_as_it_is_offered(operator: Client, name: str) -> None:
    # Two pools suit all that book slots; who queues needs a resource for each type.
    pools = not POLICIES[name].queues
    market = open_market(import_cluster(two_pools_document(np.random.default_rng(1))) if pools else make_cluster())
    page = operator.get(f"/admin/auctions/market/{market.pk}/policy/?policy={name}")
    form = page.context["form"]
    sent = {field.html_name: field.value() for field in form}
    sent = {key: form.fields[key].prepare_value(value) for key, value in sent.items()}
    answer = operator.post(f"/admin/auctions/market/{market.pk}/policy/?policy={name}", sent)
    assert answer.status_code == 302
    assert PolicyVersion.objects.filter(market=market).latest("number").parameters == POLICIES[name]().to_json()


def test_a_change_is_a_new_version_and_an_event(operator: Client, market: Market) -> None:
    answer = operator.post(f"/admin/auctions/market/{market.pk}/policy/", parameters(price="paper"))
    assert answer.status_code == 302
    chosen = PolicyVersion.objects.filter(market=market).latest("number")
    assert (chosen.number, chosen.parameters["price"], str(chosen.created_by)) == (2, "paper", "olga")
    assert Event.objects.filter(market=market).latest("version").payload["number"] == 2


def test_a_form_that_changes_nothing_stores_nothing(operator: Client, market: Market) -> None:
    stored = Event.objects.count(), PolicyVersion.objects.count()
    page = operator.get(f"/admin/auctions/market/{market.pk}/policy/")
    form = page.context["form"]
    sent = {field.html_name: form.fields[field.html_name].prepare_value(field.value()) for field in form}
    answer = operator.post(f"/admin/auctions/market/{market.pk}/policy/", sent, follow=True)
    assert "Nothing has changed: Market of Lab decides by dps (version 1)." in answer.text
    assert (Event.objects.count(), PolicyVersion.objects.count()) == stored


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("reserve_quantile", "2", "less than or equal to 1"),
        ("reserve_quantile", "nan", "number"),
        ("refit_every", "0", "greater than or equal to 1"),
        ("price", "free", "not one of the available choices"),
        ("eta_worker", "two", "numbers separated by commas"),
        ("initial_high", "0.00000001", "expected at least initial_low"),
    ],
)
def test_a_bad_parameter_is_refused_in_words(
    operator: Client, market: Market, field: str, value: str, words: str
) -> None:
    answer = operator.post(f"/admin/auctions/market/{market.pk}/policy/", parameters(**{field: value}))
    assert answer.status_code == 200
    assert words in str(answer.context["form"].errors[field]).lower()
    assert PolicyVersion.objects.count() == 1


def test_an_unknown_policy_is_refused_in_words(operator: Client, market: Market) -> None:
    answer = operator.get(f"/admin/auctions/market/{market.pk}/policy/?policy=magic", follow=True)
    assert "nknown policy &#x27;magic&#x27;; known: antman, batch_sche, " in answer.content.decode()


def test_a_market_is_closed_and_opened(operator: Client, market: Market) -> None:
    for action, is_open in (("close_for_bids", False), ("open_for_bids", True)):
        operator.post("/admin/auctions/market/", {"action": action, "_selected_action": [market.pk]})
        market.refresh_from_db()
        assert market.is_open is is_open


def test_history_is_shown_and_cannot_be_changed(operator: Client, market: Market, alice: User) -> None:
    bid = submit(market, alice)
    decision_queue.process_pending(market.pk)
    names = ["bid", "decisionrecord", "event", "commitment", "payment", "policyversion", "slotprice", "certificate"]
    for name in names:
        assert operator.get(f"/admin/auctions/{name}/").status_code == 200
        assert operator.get(f"/admin/auctions/{name}/add/").status_code == 403
    assert operator.get(f"/admin/auctions/bid/{bid.pk}/change/").status_code == 200
    assert operator.post(f"/admin/auctions/bid/{bid.pk}/change/", {"state": "rejected"}).status_code == 403
    assert operator.post(f"/admin/auctions/bid/{bid.pk}/delete/", {"post": "yes"}).status_code == 403
    assert operator.get(f"/admin/auctions/market/{market.pk}/change/").status_code == 200


def test_a_bidder_is_kept_out(client: Client, market: Market, alice: User) -> None:
    client.force_login(alice)
    assert client.get(f"/admin/auctions/market/{market.pk}/policy/").status_code == 302


def test_a_policy_that_cannot_run_here_is_refused_in_words(operator: Client, market: Market) -> None:
    address = f"/admin/auctions/market/{market.pk}/policy/?policy=oasis"
    page = operator.get(address)
    assert POLICIES["oasis"].title in page.content.decode()
    form = page.context["form"]
    sent = {name: field.prepare_value(form.get_initial_for_field(field, name)) for name, field in form.fields.items()}
    answer = operator.post(address, sent)
    assert answer.status_code == 200
    assert "expected workers and PSs apart" in answer.content.decode()
    assert PolicyVersion.objects.filter(market=market).latest("number").name == "dps"


def test_a_policy_that_plans_nothing_is_refused_while_jobs_wait_in_line(operator: Client, alice: User) -> None:
    market = open_market(make_cluster("line", horizon=4), policy="weighted_completion")
    weighted = {key: value for key, value in body(epochs=3).items() if key != "utility"} | {"weight": 1}
    for _ in range(12):
        submit_bid(cluster=market.cluster, owner=alice, body=weighted)
    decision_queue.process_pending(market.pk)
    assert Bid.objects.filter(state=BidState.PLANNED, start_slot=None).exists()
    answer = operator.post(f"/admin/auctions/market/{market.pk}/policy/?policy=dps", parameters())
    assert "wait in line for a plan" in answer.content.decode()
    assert PolicyVersion.objects.get(market=market).name == "weighted_completion"


def test_a_cluster_with_too_many_workers_for_queues_is_named_above_the_form(operator: Client) -> None:
    market = open_market(make_cluster(servers=3, units=400_000))
    sent = {"cloud": "marginal", "ageing": "0", "storage": "ignored"}
    page = operator.post(f"/admin/auctions/market/{market.pk}/policy/?policy=preemptive", sent)
    problem = "capacity: expected at most 1,000,000 workers on all servers of the edge, got 1,200,000 gpu"
    assert page.context["form"].non_field_errors() == [problem]
    assert PolicyVersion.in_force(market.pk).name != "preemptive"
