"""Pages and REST of credits: statements for members, budgets and grants for operators, nothing for others."""

import csv
import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from accounts import teams
from accounts.models import Role, Team
from auctions.domain.credits import MILLION, in_words, millionths
from auctions.engine import budgets, decision_queue
from auctions.engine.jobs import cancel_job
from auctions.models import Bid, Budget, BudgetKind, BudgetPeriod, Market
from tests.auctions.worlds import make_market, make_operator, make_user, submit
from tests.rest import client_of

__all__ = ["client_of"]
PAGE = "/teams/vision/credits/"
REST = "/api/v1/teams/vision/budget"


@pytest.fixture
def market(db: None) -> Market:
    return make_market()


@pytest.fixture
def team(db: None) -> Team:
    return teams.create_team("vision", "Vision")


@pytest.fixture
def bella(team: Team) -> User:
    user = make_user("bella")
    teams.add_member(team, user, Role.VIEWER)
    return User.objects.get(pk=user.pk)


@pytest.fixture
def olga(db: None) -> User:
    return make_operator()


@pytest.fixture
def spent(market: Market, team: Team, bella: User, olga: User) -> Bid:
    """A bid of the team, which holds a little of its credits."""
    teams.change_role(team, team.memberships.get(), Role.BIDDER)
    budgets.set_budget(team, period=BudgetKind.MONTH, amount=1000 * MILLION)
    budgets.grant(team, 5 * MILLION, by=olga, note="a deadline")
    bid = submit(market, User.objects.get(pk=bella.pk), label="=danger")
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    assert bid.payment
    return bid


def page_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_a_member_reads_the_statement_and_its_filters_are_in_the_address(spent: Bid, bella: User) -> None:
    client = page_of(bella)
    text = client.get(PAGE).text
    assert all(word in text for word in ("1,005", "a deadline", "olga", "1 in Lab", "Held"))
    assert "Set a budget" not in text
    assert "Grant credits" not in text
    assert "a deadline" not in client.get(f"{PAGE}?kind=held").text
    assert "1 in Lab" in client.get(f"{PAGE}?kind=held&cluster=lab&since=2000-01-01&until=2100-01-01").text
    for query in ("kind=held&cluster=hall", "until=2000-01-01", "since=tomorrow", "kind=stolen"):
        assert "No transaction matches these filters." in client.get(f"{PAGE}?{query}").text
    rows = client.get("/teams/vision/credits.csv?kind=held").text.splitlines()
    assert rows[0] == "time,kind,cluster,bid,label,credits,by,note,period"
    assert rows[1].split(",")[1:5] == ["held", "lab", "1", "'=danger"]
    assert len(rows) == 2


def test_the_budgets_of_all_teams_are_a_csv_file(spent: Bid, bella: User, olga: User) -> None:
    teams.create_team("speech", "=Speech")
    assert 'href="/budgets.csv"' in page_of(olga).get("/budgets/").text
    header, speech, vision = csv.reader(page_of(olga).get("/budgets.csv").text.splitlines())
    assert speech == ["speech", "'=Speech", *[""] * 9]
    found = dict(zip(header, vision, strict=True))
    assert (found["team"], found["period"], found["credits_a_period"], found["granted"]) == (
        "vision",
        "month",
        "1000",
        "1005",
    )
    held = Decimal(found["held"])
    assert held > 0
    assert Decimal(found["left"]) == 1005 - held
    assert (found["charged"], found["refunded"]) == ("0", "0")
    first, last = date.fromisoformat(found["first_day"]), date.fromisoformat(found["last_day"])
    assert (first.day, (last + timedelta(days=1)).day, first.month) == (1, 1, last.month)


def test_credits_that_were_taken_back_are_a_number_in_the_csv_file(
    spent: Bid, team: Team, bella: User, olga: User, client_of: Callable[[User], APIClient]
) -> None:
    budgets.grant(team, -2_500_000, by=olga, note="-unused")
    for client, path in ((page_of(bella), "/teams/vision/credits.csv"), (client_of(bella), f"{REST}/transactions.csv")):
        newest = next(csv.DictReader(client.get(path).text.splitlines()))
        assert (newest["kind"], newest["credits"], newest["note"]) == ("granted", "-2.5", "'-unused")


def test_the_csv_file_has_the_same_bytes_on_the_page_and_by_rest(
    spent: Bid, bella: User, client_of: Callable[[User], APIClient]
) -> None:
    page = page_of(bella).get("/teams/vision/credits.csv").content
    assert page == client_of(bella).get(f"{REST}/transactions.csv").content
    assert page.count(b"\n") > 1


def test_a_transaction_states_its_period_whenever_it_was_made(
    spent: Bid, team: Team, bella: User, client_of: Callable[[User], APIClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = BudgetPeriod.objects.get().starts_on
    later = timezone.now() + timedelta(days=62)
    monkeypatch.setattr(timezone, "now", lambda: later)
    cancel_job(spent)
    (charged,) = csv.DictReader(page_of(bella).get("/teams/vision/credits.csv?kind=charged").text.splitlines())
    assert charged["period"] == first.isoformat()
    assert date.fromisoformat(charged["time"][:10]) == later.date()
    rows = client_of(bella).get(f"{REST}/transactions").json()["results"]
    assert {row["period_starts_on"] for row in rows} == {first.isoformat()}


def test_the_sums_of_other_periods_are_shown_newest_first(
    spent: Bid, team: Team, bella: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Other periods" not in page_of(bella).get(PAGE).text
    first, paid = BudgetPeriod.objects.get(), in_words(millionths(spent.payment or 0))
    left = in_words(1005 * MILLION - millionths(spent.payment or 0))
    earlier = BudgetPeriod.objects.create(
        team=team, starts_on=date(2020, 2, 1), ends_on=date(2020, 3, 1), granted=2_500_000
    )
    other = teams.create_team("speech", "Speech")
    BudgetPeriod.objects.create(team=other, starts_on=date(2020, 5, 1), ends_on=date(2020, 6, 1), granted=1)
    later = timezone.now() + timedelta(days=62)
    monkeypatch.setattr(timezone, "now", lambda: later)

    def shown() -> list[list[str]]:
        (table,) = re.findall(r"<caption[^>]*>Other periods.*?</table>", page_of(bella).get(PAGE).text, re.S)
        rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", table, re.S)
        return [re.sub(r"<[^>]+>", " ", row).replace(" to ", " ").split() for row in rows]

    days = [str(first.starts_on), str(first.ends_on - timedelta(days=1))]
    before = [str(earlier.starts_on), "2020-02-29", "2.5", "0", "0", "0", "2.5"]
    assert shown() == [[*days, "1,005", paid, "0", "0", left], before]
    cancel_job(spent)
    assert shown() == [[*days, "1,005", "0", paid, "0", left], before]
    budgets.remove_budget(team)
    assert len(shown()) == 2, "a budget that is removed leaves the statement as it is"
    monkeypatch.setattr("auctions.readings.statements.MOST_PERIODS", 1)
    assert [row[:2] for row in shown()] == [days]


def test_a_period_whose_budget_was_changed_or_removed_shows_its_sums(spent: Bid, team: Team, bella: User) -> None:
    month = BudgetPeriod.objects.get()
    heading = f'<th scope="row">{month.starts_on} to {month.ends_on - timedelta(days=1)}</th>'

    def has() -> bool:
        return heading in page_of(bella).get(PAGE).text

    assert not has(), "it is under way"
    budgets.set_budget(team, period=BudgetKind.YEAR, amount=MILLION)
    assert has()
    budgets.set_budget(team, period=BudgetKind.MONTH, amount=MILLION)
    assert not has()
    budgets.remove_budget(team)
    assert has()


def test_a_team_without_a_budget_has_an_empty_statement(bella: User, olga: User) -> None:
    text = page_of(bella).get(PAGE).text
    assert "has no budget: its bids have no limit" in text
    assert "No credits were granted or spent yet." in text
    assert "no limit" in page_of(olga).get("/budgets/").text


def test_a_new_budget_says_when_its_credits_are_booked(team: Team, bella: User) -> None:
    budgets.set_budget(team, period=BudgetKind.MONTH, amount=MILLION)
    text = page_of(bella).get(PAGE).text
    assert "No transaction yet: the credits of this period are booked with the first decision." in text
    assert "No credits were granted or spent yet." not in text


def test_no_two_parts_of_the_forms_of_a_budget_have_the_same_id(bella: User, olga: User) -> None:
    page = page_of(olga).post(f"{PAGE}budget/", {"budget-period": "month", "budget-credits": "5"}, follow=True).text
    ids = re.findall(r' id="([^"]+)"', page)
    assert "error-grant-__all__" in ids
    assert len(ids) == len(set(ids))


def test_an_operator_sets_a_budget_grants_and_removes_it_and_each_is_on_record(bella: User, olga: User) -> None:
    client = page_of(olga)
    sent: list[tuple[str, dict[str, Any], int]] = [
        ("budget/", {"budget-period": "month", "budget-credits": "12.5"}, 302),
        ("budget/", {"budget-period": "decade", "budget-credits": "-1"}, 422),
        ("budget/", {"budget-period": "month", "budget-credits": "0.0000001"}, 422),
        ("grant/", {"grant-credits": "2", "grant-note": "a deadline"}, 302),
        ("grant/", {"grant-credits": "-0.000001"}, 302),
        ("grant/", {"grant-credits": "0.000001"}, 302),
        ("grant/", {"grant-credits": "-200"}, 422),
        ("grant/", {"grant-credits": "0"}, 422),
    ]
    for address, form, code in sent:
        assert client.post(f"{PAGE}{address}", form).status_code == code, form
    assert "14.5" in client.get(PAGE).text
    assert "14.5" in client.get("/budgets/").text
    assert client.post(f"{PAGE}remove/").status_code == 302
    assert not Budget.objects.exists()
    late = client.post(f"{PAGE}grant/", {"grant-credits": "2"})
    assert late.status_code == 422
    assert re.search(r'role="alert">[^<]*no budget', late.text), "the page has no form for it any more, but says why"
    entries = LogEntry.objects.filter(actor=olga).order_by("pk")
    done = ["budget set", "credits granted", "credits taken back", "credits granted", "budget removed"]
    assert [one.additional_data["what"] for one in entries] == done
    assert entries[1].changes["credits left"] == ["12.5", "14.5"]
    assert page_of(bella).post(f"{PAGE}remove/").status_code == 403


def test_the_price_of_a_credit_is_shown_beside_the_credits(spent: Bid, bella: User, settings: Any) -> None:
    assert "EUR" not in page_of(bella).get(PAGE).text
    settings.CREDIT_PRICE = Decimal("0.25"), "EUR"
    assert "251.25 EUR" in page_of(bella).get(PAGE).text


def test_rest_answers_the_same(spent: Bid, bella: User, client_of: Callable[[User], APIClient], settings: Any) -> None:
    api = client_of(bella)
    found = api.get(REST).json()
    assert (found["granted"], found["held"], found["charged"], found["refunded"]) == (
        1005.0,
        pytest.approx(spent.payment, abs=1e-6),
        0.0,
        0.0,
    )
    assert found["left"] == pytest.approx(1005.0 - (spent.payment or 0), abs=1e-6)
    assert api.get("/api/v1/budgets").json()["results"] == [found]
    rows = api.get(f"{REST}/transactions").json()["results"]
    assert [(row["kind"], row["bid"], row["by"]) for row in rows] == [
        ("held", 1, None),
        ("granted", None, "olga"),
        ("granted", None, None),
    ]
    assert len(api.get(f"{REST}/transactions?kind=granted&since=2000-01-01").json()["results"]) == 2
    for query in ("kind=stolen", "since=2026-02-30", "until=today", "cluster=", "what=held"):
        assert api.get(f"{REST}/transactions?{query}").status_code == 400, query
    assert len(api.get(f"{REST}/transactions.csv").text.splitlines()) == 4


def test_wrong_bodies_name_the_field_and_change_nothing(
    team: Team, olga: User, client_of: Callable[[User], APIClient]
) -> None:
    api = client_of(olga)
    assert api.post(f"{REST}/grants", {"credits": 1}, format="json").status_code == 404
    for body, fields in (
        ({"period": "day", "credits": -1}, ["period", "credits"]),
        ({"period": "week"}, ["credits"]),
        ({"period": "week", "credits": 1e10}, ["credits"]),
        ({"period": "decade", "credits": 1e-7}, ["period", "credits"]),
    ):
        answer = api.put(REST, body, format="json")
        assert (answer.status_code, [row["field"] for row in answer.json()["errors"]]) == (400, fields)
    assert not Budget.objects.exists()
    assert api.put(REST, {"period": "week", "credits": 3}, format="json").json()["left"] == 3.0
    wrong = api.post(f"{REST}/grants", {"credits": 1e-9, "note": "x" * 201}, format="json")
    assert (wrong.status_code, {row["field"] for row in wrong.json()["errors"]}) == (400, {"credits", "note"})
    assert api.post(f"{REST}/grants", {"credits": -4}, format="json").status_code == 409
    assert api.post(f"{REST}/grants", {"credits": 1e9}, format="json").status_code == 409
    assert api.delete(REST).status_code == 204
    assert api.delete(REST).status_code == api.get(REST).status_code == 404


def test_periods_of_another_length_begin_at_once_and_other_credits_with_the_next_one(
    spent: Bid, olga: User, client_of: Callable[[User], APIClient]
) -> None:
    api = client_of(olga)
    left = api.get(REST).json()["left"]
    assert api.put(REST, {"period": "month", "credits": 7}, format="json").json()["left"] == left < 1005
    assert api.put(REST, {"period": "year", "credits": 7}, format="json").json()["left"] == 7.0
    assert api.put(REST, {"period": "month", "credits": 7}, format="json").json()["left"] == left


def test_others_learn_nothing_of_a_team(spent: Bid, db: None, client_of: Callable[[User], APIClient]) -> None:
    stranger = make_user("charlie")
    teams.add_member(teams.create_team("speech", "Speech"), stranger, Role.ADMINISTRATOR)
    client, api = page_of(stranger), client_of(User.objects.get(pk=stranger.pk))
    assert {client.get(path).status_code for path in (PAGE, "/teams/vision/credits.csv", "/budgets/")} == {404}
    for path in (REST, f"{REST}/transactions", f"{REST}/transactions.csv"):
        assert api.get(path).status_code == 404
    assert api.get("/api/v1/budgets").json() == {"results": []}
