"""Pages of counterfactuals, for operators; and the curves on a bid's page, for its owner and operators."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions.engine import decision_queue
from auctions.engine.policies import change_policy
from auctions.engine.submission import submit_bid
from auctions.models import Market
from auctions.policy_form import PolicyForm
from cluster.models import Cluster
from frontend.figures import alternatives
from frontend.figures import counterfactual as sums
from scheduling.policies.dps import Dps
from scheduling.registry import POLICIES, make_policy
from studies.background.models import JobState
from studies.counterfactuals.computing import compute_next
from studies.counterfactuals.requests import CounterfactualRequest, create
from studies.models import Counterfactual
from tests.auctions.worlds import PRICED, make_cluster, make_market, make_operator, make_user, submit

PARTS = ("", "part", "version", "sums.json", "bids.csv", "bids.json")
BASE = "/markets/lab/counterfactuals/"


@pytest.fixture(scope="module")
def alice(kept_rows: None) -> User:
    return make_user("alice")


@pytest.fixture(scope="module")
def market_of_three(alice: User) -> Market:
    market = make_market()
    for i, value in enumerate((0.0001, 900.0, 0.0001)):
        utility = {"form": "step", "value": value, "deadline_s": 900}
        submit(market, alice, label=f"job {i}", utility=utility)
    decision_queue.process_pending(market.pk)
    return market


@pytest.fixture
def decided(market_of_three: Market, db: None) -> Market:
    """Two bids that were rejected for their value, and one that was admitted; in each test as they were made."""
    return Market.objects.get(pk=market_of_three.pk)


@pytest.fixture
def market(db: None) -> Market:
    """Another market, without bids."""
    return make_market(make_cluster("empty"))


@pytest.fixture
def done(decided: Market) -> Counterfactual:
    found = create(make_operator("oscar"), decided, CounterfactualRequest(make_policy("fifo", {})))
    assert compute_next()
    found.refresh_from_db()
    return found


def as_offered(page: Any) -> dict[str, Any]:
    """What a browser sends when nothing was touched."""
    form = page.context["form"]
    values = {f.html_name: form.fields[f.html_name].prepare_value(f.value()) for f in form}
    return {key: value for key, value in values.items() if value is not None and value is not False}


def test_a_form_that_nobody_touched_states_every_digit_of_the_policy_in_force() -> None:
    exact = {"price": "paper", "eta_worker": [1234567.891, 1e11, 2.0], "eta_ps": [1.1, 1 / 3 + 1]}
    policy = PolicyForm(None, policy="dps", initial=make_policy("dps", {}).to_json() | exact)
    sent = {f.name: policy.fields[f.name].prepare_value(f.value()) for f in policy}
    read = PolicyForm({key: value for key, value in sent.items() if value is not False}, policy="dps")
    read.is_valid()
    assert {key: read.cleaned_data.get(key) for key in exact} == exact


def test_all_wrong_numbers_of_a_policy_are_named(as_operator: Client, decided: Market) -> None:
    address = f"{BASE}new/?policy=dps"
    wrong = {**as_offered(as_operator.get(address)), "eta_worker": "0.5", "eta_ps": "0.125"}
    answer = as_operator.post(address, wrong)
    assert answer.context["form"].errors == {
        "eta_worker": ["eta_worker[0]: expected 1 to 1,000,000,000,000, got 0.5"],
        "eta_ps": ["eta_ps[0]: expected 1 to 1,000,000,000,000, got 0.125"],
    }
    assert not Counterfactual.objects.exists()


def test_a_form_leads_to_a_counterfactual_and_its_page(as_operator: Client, decided: Market) -> None:
    assert "There are no counterfactuals yet" in as_operator.get(BASE).text
    form = as_operator.get(f"{BASE}new/?policy=fifo&since=1")
    answer = as_operator.post(f"{BASE}new/?policy=fifo", as_offered(form))
    found = Counterfactual.objects.get()
    assert answer.headers["Location"] == f"{BASE}{found.pk}/"
    assert "Cancel</button>" in as_operator.get(f"{BASE}{found.pk}/").text
    assert compute_next()
    Cluster.objects.update(note="Values synthetic: drawn from a seed.")
    text = as_operator.get(f"{BASE}{found.pk}/").text
    assert as_operator.get(f"{BASE}{found.pk}/bids.json").json()["note"] == "Values synthetic: drawn from a seed."
    for words in (
        "values synthetic",
        "would have changed",
        "of 3 decisions",
        "2 admitted that were rejected",
        "In total",
        "Bid by bid",
        "job 0",
        "Cancelled or failed",
    ):
        assert words in text
    assert "Cancel</button>" not in text
    assert "fifo" in as_operator.get(f"{BASE}?state=completed&policy=fifo").text
    assert "No counterfactual matches these filters" in as_operator.get(f"{BASE}?state=failed").text


@pytest.mark.thorough
@pytest.mark.parametrize("name", POLICIES)
def test_the_form_offers_every_policy_with_its_parameters(as_operator: Client, decided: Market, name: str) -> None:
    page = as_operator.get(f"{BASE}new/?policy={name}")
    for parameter in POLICIES[name]().to_json():
        assert f'name="{parameter}"' in page.text
    answer = as_operator.post(f"{BASE}new/?policy={name}", as_offered(page))
    if name == "oasis":  # it wants parameter servers apart, which this market has not
        assert answer.status_code == 422
        assert "policy: expected a policy that can run on this market&#x27;s servers, got oasis" in answer.text
        assert not Counterfactual.objects.exists()
        return
    assert answer.status_code == 302
    found = Counterfactual.objects.get()
    own = PRICED if name == "dps" else {}  # the form offers the market's policy with the market's parameters
    assert (found.policy, found.parameters) == (name, POLICIES[name](**own).to_json())


def test_what_is_wrong_stands_beside_its_field(as_operator: Client, decided: Market) -> None:
    sent = {name: str(value) for name, value in Dps().to_json().items()} | {"eta_worker": "", "eta_ps": ""}
    answer = as_operator.post(f"{BASE}new/?policy=dps", {**sent, "since": "0", "price": "free"})
    assert answer.status_code == 422
    assert "greater than or equal to 1" in answer.text
    assert "free is not one of the available choices" in answer.text
    assert not Counterfactual.objects.exists()


@pytest.mark.thorough
@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_for_operators_alone(
    done: Counterfactual, as_alice: Client, as_bob: Client, as_operator: Client, part: str
) -> None:
    path = f"{BASE}{done.pk}/{part}"
    assert as_bob.get(path).status_code == 404
    answer = as_operator.get(path)
    assert answer.status_code == 200
    if part in ("part", "version", "sums.json"):
        assert as_operator.get(path, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_nobody_else_sees_the_list_or_asks(decided: Market, as_alice: Client) -> None:
    assert "Counterfactual" not in as_alice.get("/markets/lab/").text
    for path in (BASE, f"{BASE}new/"):
        assert as_alice.get(path).status_code == 404
        assert Client().get(path).status_code == 302
    assert as_alice.post(f"{BASE}new/?policy=fifo", {"since": "1"}).status_code == 404


def test_rows_are_filtered_in_the_address_and_downloads_follow(done: Counterfactual, as_operator: Client) -> None:
    path = f"{BASE}{done.pk}/"
    changed = as_operator.get(path).context["page"].paginator.count
    assert as_operator.get(f"{path}?all=1").context["page"].paginator.count == 3
    assert done.changed == changed
    assert len(as_operator.get(f"{path}bids.csv").text.splitlines()) == 1 + 3
    assert len(as_operator.get(f"{path}bids.csv?changed=1").text.splitlines()) == 1 + changed
    document = json.loads(as_operator.get(f"{path}bids.json").content)
    assert (document["policy"], document["changed"], len(document["rows"])) == ("fifo", changed, 3)


def test_one_that_waits_is_cancelled_and_deleted(decided: Market, as_operator: Client) -> None:
    found = create(make_operator("oscar"), decided, CounterfactualRequest(make_policy("fifo", {})))
    path = f"{BASE}{found.pk}/"
    assert as_operator.get(f"{path}bids.csv").status_code == 404
    assert as_operator.post(f"{path}cancel/").status_code == 302
    found.refresh_from_db()
    assert found.state == JobState.CANCELLED
    assert "nothing is left to be cancelled" in as_operator.post(f"{path}cancel/", follow=True).text
    assert as_operator.post(f"{path}delete/").headers["Location"] == BASE
    assert not Counterfactual.objects.exists()


def test_a_counterfactual_is_found_under_its_own_market_alone(decided: Market, as_operator: Client) -> None:
    make_market(make_cluster("other"))
    found = create(make_operator("oscar"), decided, CounterfactualRequest(make_policy("fifo", {})))
    for market, status in (("lab", 200), ("other", 404)):
        assert as_operator.get(f"/markets/{market}/counterfactuals/{found.pk}/").status_code == status
        assert as_operator.get(f"/api/v1/clusters/{market}/counterfactuals/{found.pk}").status_code == status


def test_the_curves_of_a_bid_are_its_owners_and_operators(
    decided: Market, as_alice: Client, as_bob: Client, as_operator: Client
) -> None:
    for kind, lines in (("value", 3), ("time", 3)):
        path = f"/markets/lab/bids/2/stating/{kind}.json"
        assert as_bob.get(path).status_code == 404
        answer = as_alice.get(path)
        drawing = answer.json()
        assert len(drawing["data"]) == lines
        assert "diamond" in {trace["marker"].get("symbol") for trace in drawing["data"]}
        assert [len(drawing["data"][0]["x"])] == [31 if kind == "value" else 30]
        again = as_alice.get(path, headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304, "what cannot change is not computed again"
        assert as_operator.get(path).json() == drawing
    rows = as_alice.get("/markets/lab/bids/2/alternatives.csv").text.splitlines()
    assert rows[0].startswith("statement,factor,stated,admitted")
    assert len(rows) == 1 + 31 + 30
    assert "Had it stated another time" in as_alice.get("/markets/lab/bids/2/").text
    assert as_alice.get("/markets/lab/bids/2/stating/colour.json").status_code == 404


def test_a_bid_that_waits_has_no_curve_yet(market: Market, alice: User, as_alice: Client) -> None:
    submit(market, alice)
    assert as_alice.get("/markets/empty/bids/1/stating/value.json").json()["data"] == []
    assert as_alice.get("/markets/empty/bids/1/alternatives.csv").status_code == 404


def test_where_nobody_pays_the_curve_is_of_time_against_weight(market: Market, alice: User, as_alice: Client) -> None:
    change_policy(market, name="weighted_completion", parameters={}, by=None)
    submit_bid(cluster=market.cluster, owner=alice, body={"model": "ResNet-50", "epochs": 2, "weight": 3})
    decision_queue.process_pending(market.pk)
    drawing = as_alice.get("/markets/empty/bids/1/stating/value.json").json()
    assert drawing["layout"]["xaxis"]["title"]["text"] == "stated weight"
    assert "Jobs do not pay here" in drawing["note"]
    page = as_alice.get("/markets/empty/bids/1/").text
    assert "Had it stated another weight" in page
    assert "Had it stated another time" not in page


def test_the_admins_preview_leads_to_the_form_filled_in(decided: Market, client: Client) -> None:
    client.force_login(make_operator("root"))
    address = f"/admin/auctions/market/{decided.pk}/policy/?policy=fifo"
    page = client.post(address, {**as_offered(client.get(address)), "preview": "1"})
    more = page.context["more"]
    assert more.startswith(f"{BASE}new/?policy=fifo&since=1")
    assert client.get(more).status_code == 200


def test_an_empty_drawing_says_why() -> None:
    assert sums.figure([], other="fifo").note == "Nothing was replayed yet."
    nothing = alternatives.Statements([], arrival=0, pays=True, unit="hours")
    assert alternatives.by_time(nothing).note == "The value of this bid does not depend on time."
