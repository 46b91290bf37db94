"""New values for many rows in one statement."""

from time import thread_time

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cluster.database.updating import MOST_PARAMETERS, update_rows
from cluster.models import Server
from tests.auctions.worlds import make_cluster

FIELDS = ["name", "upload_delay_s", "storage_mb"]


@pytest.fixture
def servers(db: None) -> list[Server]:
    cluster = make_cluster(servers=1)
    Server.objects.bulk_create(Server(cluster=cluster, name=f"more-{i}", storage_mb=1.0) for i in range(60))
    return list(Server.objects.filter(name__startswith="more-").order_by("pk"))


def change(servers: list[Server]) -> None:
    for number, server in enumerate(servers):
        server.name, server.upload_delay_s, server.storage_mb = f"it's {number}", number / 3, None
        server.kind = "cloud"


def test_only_these_fields_of_these_rows_change_in_one_statement(servers: list[Server]) -> None:
    others = list(Server.objects.exclude(pk__in=[server.pk for server in servers[:2]]).order_by("pk").values())
    change(servers[:2])
    with CaptureQueriesContext(connection) as queries:
        update_rows(servers[:2], FIELDS)
    assert len(queries) == 1
    stored = Server.objects.filter(pk__in=[server.pk for server in servers[:2]]).order_by("pk")
    assert list(stored.values_list(*FIELDS, "kind")) == [("it's 0", 0.0, None, "edge"), ("it's 1", 1 / 3, None, "edge")]
    assert list(Server.objects.exclude(pk__in=[s.pk for s in stored]).order_by("pk").values()) == others


def test_no_rows_need_no_statement_and_many_need_few(servers: list[Server], monkeypatch: pytest.MonkeyPatch) -> None:
    with CaptureQueriesContext(connection) as queries:
        update_rows([], FIELDS)
        update_rows(servers * (MOST_PARAMETERS // (2 + len(FIELDS)) // len(servers) + 1), FIELDS)
    assert len(queries) == 2


def test_only_rows_that_have_an_expected_value_are_updated(servers: list[Server]) -> None:
    names = [server.name for server in servers[:3]]
    for server in servers[:3]:
        server.storage_mb = 2.0
    assert update_rows(servers[:3], ["storage_mb"], only_if=("name", [names[0], "another", names[2]])) == 2
    stored = Server.objects.filter(name__in=names).order_by("pk")
    assert list(stored.values_list("storage_mb", flat=True)) == [2.0, 1.0, 2.0]


def test_it_takes_a_fifth_of_the_processor_time_of_bulk_update(servers: list[Server]) -> None:
    def least_s(times: int) -> tuple[float, float]:
        found = []
        for _ in range(times):
            began = thread_time()
            update_rows(servers, FIELDS)
            middle = thread_time()
            Server.objects.bulk_update(servers, FIELDS)
            found.append((middle - began, thread_time() - middle))
        ours, theirs = zip(*found, strict=True)
        return min(ours), min(theirs)

    change(servers)
    ours, theirs = least_s(5)
    assert ours < theirs / 5
