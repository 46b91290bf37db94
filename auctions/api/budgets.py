"""Operations on budgets of teams: limits, grants, and statements."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from django.conf import settings
from django.http import Http404, HttpResponse
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import teams
from accounts.api.teams import team_named
from accounts.models import Scope, Team
from accounts.rights import rights_of
from auctions.api.fields import number, string, wall_time
from auctions.domain.credits import MILLION, MOST_CREDITS, stated_millionths
from auctions.engine import budgets
from auctions.models import BudgetKind, CreditKind
from auctions.readings import statements
from auctions.readings.statements import Statement, TransactionFilter
from cluster import clock
from scheduling.model.errors import InvalidField
from web.csv_files import CsvView, csv_file
from web.fields import Choice, Number, Text
from web.openapi import CSV, PAGES, READ, WRITE, describe, examples, query
from web.pagination import Page, page_of
from web.parameters import day_of
from web.schema import Schema
from web.views import ApiView, user_of
from web.writing import Answer

DAY: Final = {"type": "string", "format": "date"}
FILTERS: Final = [
    query("kind", str, "Only transactions of this kind.", enum=CreditKind.values),
    query("cluster", {"type": "string", "minLength": 1}, "Only transactions of bids in the market of this cluster."),
    query("since", DAY, "Only transactions of this day or later, UTC."),
    query("until", DAY, "Only transactions of this day or earlier, UTC."),
]


class Credits(serializers.FloatField):
    """An amount of credits, from millionths."""

    def written(self, amount: int, _context: Mapping[str, Any]) -> float:
        """The number of credits."""
        return amount / MILLION


class Day(serializers.DateField):
    """A day."""

    def written(self, day: date, _context: Mapping[str, Any]) -> str:
        """The day, ISO 8601."""
        return day.isoformat()


def amount(text: str) -> Credits:
    """Return a field for an amount of credits."""
    return Credits(help_text=f"{text}, credits.")


class BudgetIn(Schema):
    period = Choice(BudgetKind.values, help_text="Period by the calendar in UTC; weeks begin on Mondays.")
    credits = Number(0, MOST_CREDITS, help_text="Credits that are granted when a period begins.")

    def validate_credits(self, given: float) -> int:
        """Return millionths of a credit."""
        return _millionths(given, may_be_0=True)


class GrantIn(Schema):
    credits = Number(-MOST_CREDITS, MOST_CREDITS, help_text="Credits to grant now; below 0 to take them back.")
    note = Text(200, blank=True, line=True, required=False, default="", help_text="What it is for; the team reads it.")

    def validate_credits(self, given: float) -> int:
        """Return millionths of a credit."""
        return _millionths(given, may_be_0=False)


def _millionths(given: float, *, may_be_0: bool) -> int:
    try:
        return stated_millionths(given, may_be_0=may_be_0)
    except InvalidField as error:
        raise ValidationError(error.problem) from None


class BudgetOut(Answer):
    team = string("Name of the team.", source="budget.team.name")
    period = serializers.ChoiceField(BudgetKind.values, source="budget.period", help_text="Length of a period.")
    credits = Credits(source="budget.amount", help_text="Granted when a period begins, credits.")
    starts_on = Day(help_text="First day of the period under way, UTC.")
    ends_on = Day(help_text="First day after it, UTC.")
    granted = amount("Granted in this period")
    held = amount("Payments of jobs that have not ended")
    charged = amount("Payments of jobs that have ended")
    refunded = amount("Paid back")
    left = amount("What may be spent in this period")
    credit_price = serializers.FloatField(allow_null=True, help_text="Price of one credit; null if none is stated.")
    currency = string("Currency of that price; null if none is stated.", null=True)

    @staticmethod
    def credit_price_of(_statement: Statement) -> float | None:
        """The price of a credit."""
        return None if settings.CREDIT_PRICE is None else float(settings.CREDIT_PRICE[0])

    @staticmethod
    def currency_of(_statement: Statement) -> str | None:
        """The currency of that price."""
        return None if settings.CREDIT_PRICE is None else str(settings.CREDIT_PRICE[1])


class BudgetsOut(Answer):
    results = BudgetOut(many=True, help_text="The budget of your team, or all budgets for operators, by name.")


class TransactionOut(Answer):
    kind = string("What happened to the credits: granted, held, charged or refunded.")
    credits = Credits(source="amount", help_text="How many; below 0 if a grant was taken back, credits.")
    at = wall_time("Time")
    cluster = string("Cluster of the bid; null for a grant.", source="bid.market.cluster.name", null=True)
    bid = number("Number of the bid; null for a grant.", source="bid.sequence", null=True)
    by = string("Who granted; null for what the budget or a market did.", source="by.username", null=True)
    note = string("What a grant is for.", blank=True)
    period_starts_on = Day(source="period.starts_on", help_text="First day of the period that it belongs to, UTC.")


class TransactionPage(Page):
    results = TransactionOut(many=True, help_text="Transactions, newest first.")


class Budgets(ApiView):
    """The budgets of teams."""

    @describe("List budgets", {200: BudgetsOut}, READ, operation_id="budgets_list")
    def get(self, request: Request) -> Response:
        """The budget of your team, or all budgets for operators. A team without one has no limit."""
        found = statements.statements_of(teams.visible_teams(user_of(request)), clock.now())
        return Response(BudgetsOut.write({"results": found}))


class OneBudget(ApiView):
    """The budget of a team."""

    scope_of_changes = Scope.OPERATE

    @describe("Read a budget", {200: BudgetOut}, READ, operation_id="budgets_read")
    def get(self, request: Request, team: str) -> Response:
        """The limit of your team, or of any for operators, and the sums of this period. 404 without a budget."""
        return _budget(team_named(request, team))

    @describe(
        "Set a budget",
        {200: BudgetOut},
        WRITE,
        request=BudgetIn,
        examples=examples({"A month": {"period": "month", "credits": 1000}}),
        operation_id="budgets_set",
    )
    def put(self, request: Request, team: str) -> Response:
        """For operators. A first budget holds at once; a change of the credits holds from the next period on.

        If no bid of the team was decided and nothing was granted in the period under way, the change holds at once.
        """
        body, found = BudgetIn.read(request.data), _operated(request, team)
        budgets.set_budget(found, period=BudgetKind(body["period"]), amount=body["credits"])
        return _budget(found)

    @describe("Remove a budget", {204: None}, WRITE, operation_id="budgets_remove")
    def delete(self, request: Request, team: str) -> Response:
        """For operators. The team has no limit from the next decision on; its statement stays."""
        budgets.remove_budget(_operated(request, team))
        return Response(status=204)


class Grants(ApiView):
    """Grants to a team."""

    scope_of_changes = Scope.OPERATE

    @describe(
        "Grant credits",
        {200: BudgetOut},
        WRITE,
        request=GrantIn,
        examples=examples({"For a deadline": {"credits": 250, "note": "camera-ready experiments"}}),
        operation_id="budgets_grant",
    )
    def post(self, request: Request, team: str) -> Response:
        """For operators: credits for the period under way. 409 if more is taken back than is left."""
        body, found = GrantIn.read(request.data), _operated(request, team)
        budgets.grant(found, body["credits"], by=user_of(request), note=body["note"])
        return _budget(found)


class Transactions(ApiView):
    """The transactions of a team."""

    @describe(
        "List transactions of credits",
        {200: TransactionPage},
        READ,
        parameters=[*FILTERS, *PAGES],
        operation_id="budgets_transactions",
    )
    def get(self, request: Request, team: str) -> Response:
        """Credits of your team, or of any for operators, that were granted, held, charged and refunded."""
        return page_of(
            self, request, statements.transactions(team_named(request, team), _chosen(request)), TransactionPage
        )


class TransactionsCsv(CsvView):
    """The transactions of a team as a table."""

    @describe(
        "Download transactions of credits",
        CSV,
        READ,
        parameters=FILTERS,
        operation_id="budgets_transactions_csv",
    )
    def get(self, request: Request, team: str) -> HttpResponse:
        """Return the newest transactions that the filters let pass as CSV, at most 10,000."""
        found = team_named(request, team)
        rows = statements.csv_rows(statements.transactions(found, _chosen(request)))
        return csv_file([statements.HEADER, *rows], f"{found.name}-credits.csv")


def _operated(request: Request, name: str) -> Team:
    found = team_named(request, name)
    if not rights_of(request.user).operates_all:
        raise PermissionDenied("This is for operators of all clusters.")
    return found


def _budget(team: Team) -> Response:
    found = statements.statement_of(team, clock.now())
    if found is None:
        raise Http404(f"{team} has no budget.")
    return Response(BudgetOut.write(found))


def _chosen(request: Request) -> TransactionFilter:
    given = request.query_params
    return TransactionFilter(
        kind=CreditKind(given["kind"]) if "kind" in given else None,
        cluster=given.get("cluster"),
        since=day_of(given["since"]) if "since" in given else None,
        until=day_of(given["until"]) if "until" in given else None,
    )
