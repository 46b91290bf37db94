"""Queries that are built once: they find what the same query finds when it is built each time."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import QuerySet
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext

from auctions.models import Event, Market, PolicyVersion
from cluster.database.prepared import Prepared
from tests.auctions.worlds import make_market

pytestmark = pytest.mark.django_db


@pytest.fixture
def market(db: None) -> Market:
    return make_market()


def test_each_call_has_its_own_arguments(market: Market) -> None:
    named = Prepared(lambda name: Market.objects.filter(cluster__name=name), str)
    assert named(market.cluster.name) == [market]
    assert named("none") == []
    assert named.first(market.cluster.name) == market
    assert named.first("none") is None


def test_rows_have_joined_rows_and_converted_values(market: Market) -> None:
    found = Prepared(lambda pk: PolicyVersion.objects.select_related("market__cluster").filter(pk=pk), int)
    usual = PolicyVersion.objects.get()
    with CaptureQueriesContext(connection) as asked:
        [row] = found(usual.pk)
        assert row.market.cluster == market.cluster
    assert len(asked) == 1
    assert (row.parameters, row.created_at, row.created_by) == (usual.parameters, usual.created_at, None)
    assert row._state.db == usual._state.db
    assert not row._state.adding


def test_tuples_come_as_from_a_query_set(market: Market) -> None:
    def rows(pk: int) -> "QuerySet[Event, tuple[object, ...]]":
        return Event.objects.filter(market=pk).values_list("kind", "at", "payload")

    found = Prepared(rows, int)(market.pk)
    assert found == list(rows(market.pk))
    assert found
    assert all(isinstance(row, tuple) for row in found)


def test_the_sql_is_built_once_and_is_that_of_the_query_set(market: Market) -> None:
    built = []

    def rows(market_id: int, version: int) -> "QuerySet[Event]":
        built.append(market_id)
        return Event.objects.filter(market=market_id, version__gt=version).order_by("-version")[:3]

    found = Prepared(rows, int, int)
    with CaptureQueriesContext(connection) as asked:
        for version in (0, 1):
            assert found(market.pk, version) == list(rows(market.pk, version))
    assert len(built) == 1 + 2
    sent = [query["sql"] for query in asked]
    assert sent[0::2] == sent[1::2]
    assert sent[0] != sent[2]


def test_converters_of_columns_are_looked_for_once(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Prepared(lambda pk: PolicyVersion.objects.select_related("market__cluster").filter(pk=pk), int)
    usual = PolicyVersion.objects.get()
    assert found(usual.pk)
    monkeypatch.setattr(SQLCompiler, "get_converters", None)
    [row] = found(usual.pk)
    assert (row.parameters, row.created_at) == (usual.parameters, usual.created_at)
    assert (row.market.token, row.market.cluster.epoch) == (market.token, market.cluster.epoch)


def test_an_argument_that_is_no_parameter_of_the_sql_is_a_mistake() -> None:
    found: Prepared[User] = Prepared(lambda pk: User.objects.all(), int)
    with pytest.raises(ValueError, match="compares no column"):
        found(1)


def test_the_number_of_arguments_is_that_of_their_kinds() -> None:
    with pytest.raises(ValueError, match="zip"):
        Prepared(lambda pk: User.objects.filter(pk=pk), int)()
