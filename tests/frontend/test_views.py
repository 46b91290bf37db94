"""Visibility of data on pages, and their answers."""

import json
import re
from html import unescape
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client
from django.test.utils import CaptureQueriesContext

from auctions.domain.errors import NotReady
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.policies import change_policy
from auctions.engine.submission import submit_bid
from auctions.kernels import warming
from auctions.models import Bid, BidState, Market
from auctions.readings import visibility
from auctions.readings.publications import sees_all
from frontend.views import charts
from tests.auctions.worlds import make_cluster, make_market, make_operator, make_user, set_time, submit

HOME = "/markets/lab/"
PAGES = ["/", HOME, f"{HOME}bids/", f"{HOME}submit/", f"{HOME}bids/1/", f"{HOME}tiles.json", f"{HOME}version"]
CHARTS = ["prices", "schedule", "welfare"]
FORM = {"model": "ResNet-50", "epochs": "1", "value": "100", "form": "constant", "label": "mine"}


@pytest.fixture(scope="module")
def alice(kept_rows: None) -> User:
    return make_user("alice")


@pytest.fixture(scope="module")
def opened(kept_rows: None) -> Market:
    return make_market()


@pytest.fixture
def market(opened: Market, db: None) -> Market:
    """The market of the cluster lab, in each test as it was opened."""
    return Market.objects.get(pk=opened.pk)


def decided(market: Market, owner: User, value: float = 100.0, **changes: Any) -> Bid:
    bid = submit(market, owner, value, **changes)
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    return bid


@pytest.mark.parametrize("path", PAGES)
def test_a_stranger_is_sent_to_the_login_page(market: Market, client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/login/")


@pytest.mark.parametrize("deed", ["withdraw", "retry", "cancel"])
def test_bids_are_changed_by_posts_of_people_who_are_logged_in(
    deed: str, market: Market, alice: User, as_alice: Client, as_operator: Client
) -> None:
    submit(market, alice)
    path = f"{HOME}bids/1/{deed}/"
    answer = Client().post(path)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/login/?unsent=&next=/")
    assert [person.get(path).status_code for person in (as_alice, as_operator)] == [405, 405]
    assert Bid.objects.get().state == BidState.SUBMITTED


def test_bids_of_another_market_are_in_no_list_of_this_one(market: Market, alice: User) -> None:
    here = submit(market, alice)
    bob, elsewhere = make_user("bob"), make_market(make_cluster("elsewhere"))
    submit(elsewhere, bob)
    olga = make_operator()
    assert list(visibility.bids(market, olga)) == list(visibility.bids(market, alice)) == [here]
    for viewer in (olga, alice):
        assert visibility.bid(market, viewer, here.sequence) == here
    assert visibility.bid(market, bob, here.sequence) is None
    assert sees_all(market, alice), "nobody else bids here"
    assert not sees_all(elsewhere, alice)
    submit(market, bob)
    assert not sees_all(market, alice)


@pytest.mark.thorough
@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_served_under_a_strict_policy(market: Market, alice: User, as_alice: Client, path: str) -> None:
    decided(market, alice)
    answer = as_alice.get(path)
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "default-src 'none'" in policy
    assert "<script>" not in answer.text
    assert " onclick=" not in answer.text


def test_another_bidders_bid_is_404_and_in_no_list(
    market: Market, alice: User, as_bob: Client, as_operator: Client
) -> None:
    decided(market, alice, label="secret plan")
    for part in ("", "receipt", "schedule.json", "schedule.csv"):
        assert as_bob.get(f"{HOME}bids/1/{part}").status_code == 404
    assert as_bob.post(f"{HOME}bids/1/cancel/").status_code == 404
    assert as_bob.post(f"{HOME}bids/1/withdraw/").status_code == 404
    assert "secret plan" not in as_bob.get(f"{HOME}bids/").text
    assert "secret plan" not in as_bob.get(f"{HOME}submit/?from=1").text
    assert "secret plan" in as_operator.get(f"{HOME}bids/").text
    assert as_operator.get(f"{HOME}bids/1/").status_code == 200


def test_a_bid_shows_its_request_as_it_can_be_sent_again(market: Market, alice: User, as_alice: Client) -> None:
    bid = decided(market, alice, label="déjà vu")
    shown = re.search(r"Request as sent</summary><pre[^>]*>(.*?)</pre>", as_alice.get(f"{HOME}bids/1/").text, re.S)
    assert shown is not None
    assert json.loads(unescape(shown[1])) == bid.body


def test_a_chart_of_published_sums_promises_no_bound(
    market: Market, alice: User, as_bob: Client, as_operator: Client
) -> None:
    decided(market, alice)
    assert "Welfare and its upper bound" in as_operator.get(HOME).text
    page = as_bob.get(HOME).text
    assert "Welfare and revenue</h2>" in page
    assert "Welfare and its upper bound" not in page
    assert "certified upper bound" not in page


def test_other_peoples_work_is_only_grey_in_the_schedule(market: Market, alice: User, as_bob: Client) -> None:
    decided(market, alice, label="secret plan")
    for kind in ("json", "csv"):
        text = as_bob.get(f"{HOME}figures/schedule.{kind}").text
        assert "secret plan" not in text
        assert "bid 1" not in text
        assert "planned" not in text
        assert "others' work" in text


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_fetched_again_only_when_the_market_moved(
    market: Market, alice: User, as_alice: Client, name: str
) -> None:
    decided(market, alice)
    path = f"{HOME}figures/{name}.json"
    first = as_alice.get(path)
    assert json.loads(first.text)["data"]
    known = {"If-None-Match": first.headers["ETag"]}
    assert as_alice.get(path, headers=known).status_code == 304
    decided(market, alice)
    assert as_alice.get(path, headers=known).status_code == 200
    table = as_alice.get(f"{HOME}figures/{name}.csv")
    assert table.headers["Content-Type"].startswith("text/csv")
    assert len(table.text.splitlines()) > 1


@pytest.mark.parametrize(
    ("path", "status", "most"),
    [(f"{HOME}version", 304, 11), ("/api/v1/clusters/lab/summary", 304, 12), ("/api/v1/clusters/lab/bids/1", 200, 11)],
)
def test_what_is_known_already_takes_few_queries(
    market: Market,
    alice: User,
    as_alice: Client,
    path: str,
    status: int,
    most: int,
    django_assert_max_num_queries: Any,
) -> None:
    """The session, the user, the market and whether the user operates are read once; four begin and end reading."""
    decided(market, alice)
    known = {"If-None-Match": as_alice.get(path).headers.get("ETag", "")}
    with django_assert_max_num_queries(most):
        answer = as_alice.get(path, headers=known)
    assert answer.status_code == status


@pytest.mark.parametrize("path", [f"{HOME}bids/1/", f"{HOME}bids/1/receipt", "/api/v1/clusters/lab/bids/1"])
def test_a_bid_is_read_once(market: Market, alice: User, as_alice: Client, path: str) -> None:
    decided(market, alice)
    with CaptureQueriesContext(connection) as asked:
        assert as_alice.get(path).status_code == 200
    read = [query["sql"] for query in asked if 'FROM "auctions_bid"' in query["sql"]]
    assert sum('"resolved_request"' in sql for sql in read) == 1


@pytest.mark.parametrize("query", ["both", "server", "type", "server:edge-0"])
def test_the_heat_map_follows_the_choice_in_the_address(market: Market, as_alice: Client, query: str) -> None:
    rows = as_alice.get(f"{HOME}figures/prices.json", {"prices": query}).json()["data"][0]["y"]
    expected = {"both": 6, "server": 3, "type": 2, "server:edge-0": 2}[query]
    assert len(rows) == expected


def test_only_charts_of_the_policy_are_there_and_open_pages_hear_of_another_policy(as_alice: Client) -> None:
    """A heat map of prices would be sent under a header of delayed jobs."""
    market, home = make_market(make_cluster("moving")), "/markets/moving/"
    known: dict[tuple[str, str], str] = {}
    for policy, there in [
        ("dps", ["prices", "schedule", "welfare"]),
        ("competition", ["schedule", "welfare"]),
        ("weighted_completion", ["schedule", "flow", "prices"]),
        ("preemptive", ["schedule", "congestion", "flow", "competitive_ratio"]),
        ("dps", ["prices", "schedule", "welfare"]),
    ]:
        number = change_policy(market, name=policy, parameters={}, by=None).number
        for chart, kind in product(charts.CHARTS, ("json", "csv")):
            tag = known.get((chart, kind), "")
            answer = as_alice.get(f"{home}figures/{chart}.{kind}", headers={"If-None-Match": tag})
            assert answer.status_code == (200 if chart in there else 404), (policy, chart, kind)
            known[chart, kind] = answer.headers.get("ETag", tag)
        assert f'data-policy="{number}"' in as_alice.get(home).text
        assert as_alice.get(f"{home}tiles.json").json()["policy"] == number


def test_unknown_names_are_404(market: Market, as_alice: Client) -> None:
    for path in (
        "/markets/none/",
        f"{HOME}bids/7/",
        f"{HOME}figures/none.json",
        f"{HOME}figures/none.csv",
        f"{HOME}figures/prices.json?prices=server:none",
        f"{HOME}figures/schedule.json?schedule=server:none",
    ):
        assert as_alice.get(path).status_code == 404


def test_a_page_says_what_is_missing_without_scripts(market: Market, as_alice: Client) -> None:
    assert '<noscript><p class="note">Charts, quotes' in as_alice.get(HOME).text
    assert "<noscript>" not in Client().get("/login/").text


def test_a_page_does_not_say_that_it_connects_unless_its_script_does(market: Market, as_alice: Client) -> None:
    assert '<span id="live" role="status"></span>' in as_alice.get(HOME).text


def test_a_form_sent_without_a_session_is_shown_again_after_the_login(market: Market, client: Client) -> None:
    answer = client.post(f"{HOME}submit/", FORM)
    assert answer.headers["Location"] == f"/login/?next={HOME}submit/%3Ftyped"
    assert not Bid.objects.exists()
    client.force_login(make_user("carol"))
    assert "Nothing was submitted" in client.get(f"{HOME}submit/?typed").text
    assert "Nothing was submitted" not in client.get(f"{HOME}submit/").text
    assert "Nothing was submitted" not in client.post(f"{HOME}submit/?typed", {**FORM, "epochs": "0"}).text


@pytest.mark.parametrize(
    ("sent_from", "back"),
    [
        (f"http://testserver{HOME}bids/?state=planned", f"{HOME}bids/%3Fstate%3Dplanned"),
        ("http://elsewhere.example/plans/", "/"),
        ("//elsewhere.example/plans/", "/"),
        ("http://testserver/account/tokens/1/rotate/", "/"),
        ("http://testserver/account/webhooks/1/rotate/", "/"),
        ("http://testserver/no-such-page", "/"),
        ("", "/"),
    ],
)
def test_a_button_pressed_without_a_session_leads_back_to_its_page_after_the_login(
    market: Market, alice: User, client: Client, sent_from: str, back: str
) -> None:
    submit(market, alice)
    answer = client.post(f"{HOME}bids/1/withdraw/", headers={"referer": sent_from})
    assert answer.headers["Location"] == f"/login/?unsent=&next={back}"
    assert "Nothing was changed" in client.get(answer.headers["Location"]).text
    client.force_login(alice)
    assert client.get(back.replace("%3F", "?").replace("%3D", "=")).status_code == 200
    assert Bid.objects.get().state == BidState.SUBMITTED


def test_the_login_page_alone_speaks_of_nothing_unsent(db: None, client: Client) -> None:
    assert "Nothing was changed" not in client.get("/login/?next=/plans/").text


def test_a_form_becomes_a_bid_and_the_same_form_sent_twice_is_one(market: Market, as_alice: Client) -> None:
    for _ in range(2):
        answer = as_alice.post(f"{HOME}submit/", {**FORM, "key": "k"})
        assert answer.headers["Location"] == f"{HOME}bids/1/"
    bid = Bid.objects.get()
    utility = {"form": "constant", "value": 100.0}
    assert bid.body == {"label": "mine", "model": "ResNet-50", "epochs": 1, "utility": utility}


@pytest.mark.parametrize(
    ("form", "typed", "sent"),
    [
        ("step", {"deadline_h": "2"}, {"deadline_s": 7200}),
        ("linear", {"zero_at_h": "1.5"}, {"zero_at_s": 5400}),
        ("sigmoid", {"midpoint_h": "1", "steepness_per_h": "3.6"}, {"midpoint_s": 3600, "steepness_per_s": 0.001}),
        ("piecewise_linear", {"points": "0 1\n2, 0.5"}, {"points": [[0, 1], [7200, 0.5]]}),
    ],
)
def test_hours_become_seconds_and_come_back(
    market: Market, as_alice: Client, form: str, typed: dict[str, str], sent: dict[str, Any]
) -> None:
    as_alice.post(f"{HOME}submit/", {**FORM, "form": form, **typed})
    utility = Bid.objects.get().body["utility"]
    assert utility == {"form": form, "value": 100.0, **sent}
    again = as_alice.get(f"{HOME}submit/", {"from": "1", "value": "7.25"}).context["form"]
    assert again["value"].value() == 7.25
    assert again["form"].value() == form
    shown = {"points": "0 1\n2 0.5"} if "points" in typed else {name: float(text) for name, text in typed.items()}
    assert {name: again[name].value() for name in typed} == shown


@pytest.mark.parametrize(
    ("utility", "more"),
    [
        ({"form": "step", "deadline_s": 100200.0}, {"start_after_s": 57.0}),
        ({"form": "linear", "zero_at_s": 30.0}, {"start_after_s": 100000.0}),
        ({"form": "sigmoid", "midpoint_s": 123456789.0, "steepness_per_s": 0.0123}, {}),
        ({"form": "piecewise_linear", "points": [[0.0, 1.0], [10000000.0, 0.123456789], [10000003.0, 1e-9]]}, {}),
    ],
)
def test_a_bid_that_fills_in_the_form_is_stated_by_it_again_with_the_same_numbers(
    market: Market, alice: User, as_alice: Client, utility: dict[str, Any], more: dict[str, float]
) -> None:
    body = {"model": "ResNet-50", "epochs": 1, "utility": {"value": 100.0, **utility}, **more}
    submit_bid(cluster=market.cluster, owner=alice, body=body)
    form = as_alice.get(f"{HOME}submit/?from=1").context["form"]
    shown = {field.name: field.value() for field in form if field.value() not in (None, False)}
    as_alice.post(f"{HOME}submit/", shown)
    assert Bid.objects.get(sequence=2).body == body


@pytest.mark.parametrize(
    ("typed", "field", "words"),
    [
        ({"form": "step", "deadline_h": "1e11"}, "deadline_h", "Expected at most 277,777 hours."),
        ({"form": "linear", "zero_at_h": "0"}, "zero_at_h", "Expected at least 2.78e-07 hours."),
        ({"form": "sigmoid", "midpoint_h": "1", "steepness_per_h": "1e20"}, "steepness_per_h", "per hour."),
        ({"form": "piecewise_linear", "points": "0 1\n1e9 0"}, "points", "Point 2: Expected at most 277,777 hours."),
        ({"start_after_h": "1e11"}, "start_after_h", "Expected at most 277,777 hours."),
        ({"value": "1e308"}, "value", "expected 1e-06 to 1,000,000,000,000, got 1e+308"),
    ],
)
def test_limits_are_given_in_the_unit_that_was_typed(
    market: Market, as_alice: Client, typed: dict[str, str], field: str, words: str
) -> None:
    errors = as_alice.post(f"{HOME}quote/", {**FORM, **typed}).json()["errors"]
    assert set(errors) == {field}
    assert words in errors[field]
    assert "00000000000.0" not in errors[field]


def test_a_utility_too_steep_for_its_slots_is_refused_without_a_number_that_nobody_typed(
    market: Market, as_alice: Client
) -> None:
    data = {**FORM, "form": "linear", "value": "1e12", "zero_at_h": "0.000001"}
    errors = as_alice.post(f"{HOME}quote/", data).json()["errors"]
    assert errors == {"zero_at_h": "expected a value that fits the other fields and slots of 100 s, got another one"}


def test_without_a_model_every_missing_field_is_named(market: Market, as_alice: Client) -> None:
    errors = as_alice.post(f"{HOME}quote/", {**FORM, "model": ""}).json()["errors"]
    assert set(errors) == {"chunks", "minibatches", "gradient_mb", "more"}
    assert "worker_step_s" in errors["more"]
    assert "ps_step_s" in errors["more"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"epochs": "0"}, "epochs"),
        ({"epochs": "2000000"}, "epochs"),
        ({"value": "nan"}, "value"),
        ({"model": "none"}, "model"),
        ({"form": "linear", "zero_at_h": "0"}, "zero_at_h"),
        ({"form": "step"}, "deadline_h"),
        ({"form": "piecewise_linear", "points": "0 0.5\n1 1"}, "points"),
        ({"form": "piecewise_linear", "points": "x"}, "points"),
        ({"more": "{"}, "more"),
        ({"more": '{"a": ' * 20_000}, "more"),
        ({"more": '{"epochs": 3}'}, "more"),
        ({"more": '{"upload_delay_s": {"nowhere": 3}}'}, "more"),
        ({"more": '{"color": 3}'}, "__all__"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(
    market: Market, as_alice: Client, changes: dict[str, str], field: str
) -> None:
    data = {**FORM, **changes}
    assert list(as_alice.post(f"{HOME}quote/", data).json()["errors"]) == [field]
    answer = as_alice.post(f"{HOME}submit/", data)
    assert answer.status_code == 422
    assert not Bid.objects.exists()


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [({"more": '{"color": 3}'}, True), ({"chunks": "0"}, True), ({"start_after_h": "1"}, True), ({}, False)],
)
def test_more_is_open_if_it_has_an_error_or_is_filled_in(
    market: Market, as_alice: Client, changes: dict[str, str], is_open: bool
) -> None:
    Market.objects.update(is_open=False)
    answer = as_alice.post(f"{HOME}submit/", {**FORM, **changes})
    assert answer.status_code == 422
    assert ("<details open><summary>More" in answer.text) is is_open


def test_all_that_is_wrong_is_said_at_once(market: Market, as_alice: Client) -> None:
    data = {**FORM, "epochs": "2000000", "form": "linear", "zero_at_h": "0"}
    assert set(as_alice.post(f"{HOME}quote/", data).json()["errors"]) == {"epochs", "zero_at_h"}


def test_a_quote_explains_itself_and_changes_nothing(market: Market, as_alice: Client) -> None:
    answer = as_alice.post(f"{HOME}quote/", FORM).json()
    assert answer["errors"] == {}
    assert "Would be admitted" in answer["html"]
    assert len(answer["figure"]["data"]) == 3
    assert not Bid.objects.exists()


def test_a_rejection_offers_the_value_that_would_have_been_admitted(
    market: Market, alice: User, as_alice: Client
) -> None:
    bid = decided(market, alice, 0.001)
    page = as_alice.get(f"{HOME}bids/{bid.sequence}/")
    assert page.context["decision"].counter is not None
    asked = page.context["again"]
    assert asked in page.text.replace("&amp;", "&")
    value = as_alice.get(asked).context["form"]["value"].value()
    assert "Would be admitted" in as_alice.post(f"{HOME}quote/", {**FORM, "value": value}).json()["html"]


def test_a_waiting_bid_promises_no_decision_soon(market: Market, alice: User, as_alice: Client) -> None:
    """No worker may be there to decide it."""
    bid = submit(market, alice)
    said = " ".join(as_alice.get(f"/markets/{market.cluster.name}/bids/{bid.sequence}/").text.split())
    assert "Waiting</span> It is in the decision queue.</p>" in said


def test_a_waiting_bid_is_withdrawn_and_a_job_cancelled(
    market: Market, alice: User, as_alice: Client, django_capture_on_commit_callbacks: Any
) -> None:
    waiting = submit(market, alice)
    with django_capture_on_commit_callbacks(execute=True):
        as_alice.post(f"{HOME}bids/{waiting.sequence}/withdraw/")
    job = decided(market, alice)
    with django_capture_on_commit_callbacks(execute=True):
        as_alice.post(f"{HOME}bids/{job.sequence}/cancel/")
    assert [bid.state for bid in Bid.objects.order_by("sequence")] == ["withdrawn", "cancelled"]
    late = as_alice.post(f"{HOME}bids/{job.sequence}/cancel/", follow=True)
    assert "message error" in late.text


def test_every_state_has_a_page(market: Market, alice: User, as_alice: Client) -> None:
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    cancel_job(Bid.objects.get())
    decided(market, alice)
    decided(market, alice, 0.001)
    submit(market, alice)
    set_time(market, 150)
    for number in range(1, 5):
        assert as_alice.get(f"{HOME}bids/{number}/").status_code == 200


def test_filters_and_pages_are_in_the_address(market: Market, alice: User, as_alice: Client) -> None:
    for i in range(30):
        submit(market, alice, label=f"night {i}" if i % 2 else "day")
    assert "Page 1 of 2" in as_alice.get(f"{HOME}bids/").text
    found = as_alice.get(f"{HOME}bids/", {"label": "night", "state": "submitted"})
    assert found.context["page"].paginator.count == 15
    assert "No bid matches" in as_alice.get(f"{HOME}bids/", {"state": "failed"}).text


def test_the_pages_of_an_operators_list_need_no_count_of_all_bids(
    market: Market, alice: User, as_operator: Client
) -> None:
    for _ in range(30):
        submit(market, alice)
    with CaptureQueriesContext(connection) as queries:
        page = as_operator.get(f"{HOME}bids/", {"page": "2"}).context["page"]
    assert (page.paginator.count, page.paginator.num_pages, len(page)) == (30, 2, 5)
    assert not [query["sql"] for query in queries.captured_queries if "COUNT(" in query["sql"]]
    assert as_operator.get(f"{HOME}bids/", {"mine": "1"}).context["page"].paginator.count == 0


def test_an_operator_may_see_only_its_own_bids(market: Market, alice: User, as_operator: Client) -> None:
    submit(market, alice, label="of alice")
    submit(market, User.objects.get(username="olga"), label="of the operator")
    assert "of alice" in as_operator.get(f"{HOME}bids/").text
    mine = as_operator.get(f"{HOME}bids/", {"mine": "1"})
    assert "of the operator" in mine.text
    assert "of alice" not in mine.text
    assert "mine=1&" in mine.context["query"]


def test_a_rejecting_quote_offers_a_value_that_is_admitted(market: Market, as_alice: Client) -> None:
    answer = as_alice.post(f"{HOME}quote/", {**FORM, "value": "0.001"}).json()
    found = re.search(r'data-adopt="([0-9.]+)"', answer["html"])
    assert found is not None
    assert "Would be admitted" in as_alice.post(f"{HOME}quote/", {**FORM, "value": found[1]}).json()["html"]


def test_slots_in_explanations_have_times(market: Market, alice: User, as_alice: Client) -> None:
    decided(market, alice)
    assert re.search(r"starts in slot \d+ \(\d+ \w+ \d\d:\d\d(:\d\d)?\)", as_alice.get(f"{HOME}bids/1/").text)


def test_the_schedule_does_not_begin_before_the_market_did(market: Market, alice: User, as_alice: Client) -> None:
    decided(market, alice)
    begins = as_alice.get(f"{HOME}figures/schedule.json").json()["layout"]["xaxis"]["range"][0]
    assert begins == f"{market.cluster.epoch:%Y-%m-%d %H:%M:%S}"


@pytest.mark.parametrize("code", [400, 403, 404, 500])
def test_errors_have_pages_in_the_same_dress(code: int) -> None:
    assert "<header" in render_to_string(f"{code}.html")


def test_a_form_without_its_token_gets_instructions(alice: User, db: None) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = client.post("/logout/")
    assert answer.status_code == 403
    assert "load the page again" in answer.text


def test_a_market_without_bids_says_so(market: Market, as_bob: Client) -> None:
    assert "no bids yet" in as_bob.get(f"{HOME}bids/").text


def test_a_note_of_synthetic_values_is_shown_on_the_overview(market: Market, as_alice: Client) -> None:
    market.cluster.note = "Values are synthetic."
    market.cluster.save()
    assert "values synthetic" in as_alice.get(HOME).text


def test_labels_are_text_and_not_markup(market: Market, alice: User, as_alice: Client) -> None:
    decided(market, alice, label="<b>x</b>")
    assert "<b>x</b>" not in as_alice.get(f"{HOME}bids/1/").text


def test_plotly_comes_from_the_python_package() -> None:
    found = finders.find("plotly/plotly.min.js")
    assert found is not None
    assert "site-packages/plotly" in str(found)
    assert not finders.find("plotly/widgetbundle.js")


def still_compiling(market_id: int) -> None:
    raise NotReady("The server is compiling the kernels of DPS; ask again in a few seconds.")


def test_a_quote_that_must_wait_is_no_fault_of_the_form(
    market: Market, as_alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "check_market", still_compiling)
    answer = as_alice.post(f"{HOME}quote/", FORM).json()
    assert answer["errors"] == {}
    assert "few seconds" in answer["wait"]
