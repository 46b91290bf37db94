"""A market that queues, with limited storage of servers."""

import pytest
from django.contrib.auth.models import User

from auctions.engine.jobs import cancel_job
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.submission import quote
from auctions.history.audit import audit_market
from auctions.history.replay import replay_market
from auctions.models import Bid, BidState, DecisionRecord, Market, QueuedChunks
from auctions.state import book
from auctions.state.book import rebuild
from cluster.guards import ChangeRefused, checked_change
from cluster.models import Capacity, Server
from scheduling.model.errors import InvalidField
from tests.auctions.test_queues import assert_clean, end_of, go_to, send, window
from tests.auctions.worlds import make_cluster, set_time

pytestmark = pytest.mark.thorough

EDGE = {"cloud": "edge", "storage": "limited"}


def open_limited(*limits: float | None, cloud: str = "edge", storage: str = "limited") -> Market:
    """Edge servers of four workers with this storage each, in MB, and a cloud; a job has four chunks."""
    cluster = make_cluster(servers=len(limits), horizon=40)
    for i, limit in enumerate(limits):
        Server.objects.filter(cluster=cluster, name=f"edge-{i}").update(storage_mb=limit)
    return open_market(cluster, policy="preemptive", parameters={"cloud": cloud, "storage": storage})


def chunks_on(bid: Bid) -> dict[str, int]:
    rows = QueuedChunks.objects.filter(bid=bid, until=None).select_related("server")
    found: dict[str, int] = {}
    for row in rows:
        found[row.server.name] = found.get(row.server.name, 0) + row.count
    return found


def stored(market: Market) -> tuple[int, ...]:
    """Bytes on each server, and the same read back from rows."""
    market.refresh_from_db()
    kept = book.private_copy(market, now=market.now).running.queues
    again = rebuild(market, now=market.now).running.queues
    assert kept is not None
    assert again is not None
    assert again.stored == kept.stored
    assert again.planned() == kept.planned()
    return kept.stored


def test_chunks_go_where_there_is_room_until_the_job_is_complete(db: None, alice: User) -> None:
    market = open_limited(10.0, None)
    set_time(market, 10.0)
    first = send(market, alice, epochs=6, chunk_mb=4)
    assert chunks_on(first) == {"edge-0": 2, "edge-1": 2}
    second = send(market, alice, epochs=6, chunk_mb=2.5)
    assert chunks_on(second) == {"edge-1": 4}, "2 MB are left on the first server"
    third = send(market, alice, epochs=6)
    assert chunks_on(third) == {"edge-0": 4}, "its data takes nothing"
    assert stored(market) == (8_000_000, 18_000_000, 0)
    go_to(market, end_of(first) - 1)
    assert stored(market)[0] == 8_000_000, "complete chunks stay until the job is"
    go_to(market, end_of(first) + 1)
    assert stored(market)[0] == 0
    assert max(chunks_on(send(market, alice, epochs=6, chunk_mb=2.5)).values()) == 2
    go_to(market, 200)
    assert_clean(market)


def test_without_the_parameter_storage_does_not_matter(db: None, alice: User) -> None:
    market = open_limited(1.0, storage="ignored")
    set_time(market, 10.0)
    assert chunks_on(send(market, alice, epochs=6, chunk_mb=4)) == {"edge-0": 4}
    go_to(market, 100)
    assert_clean(market)


def test_a_job_waits_for_storage_and_sees_why(db: None, alice: User) -> None:
    market = open_limited(20.0)
    set_time(market, 10.0)
    first = send(market, alice, epochs=6, chunk_mb=4)
    second = send(market, alice, epochs=1, chunk_mb=4)
    assert window(second) == ("planned", None, None)
    assert "in line until a worker, storage and a parameter server" in second.decision.receipt
    go_to(market, end_of(first) + 1)
    assert window(second)[2] is not None
    go_to(market, 200)
    assert window(second)[0] == BidState.COMPLETED
    assert_clean(market)


def test_a_job_too_large_for_empty_servers_is_rejected(db: None, alice: User) -> None:
    market = open_limited(20.0, 3.9)
    set_time(market, 10.0)
    assert "no storage for all of them" in send(market, alice, chunk_mb=5.1).decision.receipt
    assert send(market, alice, chunk_mb=5).state == BidState.PLANNED
    assert_clean(market)


def test_a_cloud_has_limits_too(db: None, alice: User) -> None:
    market = open_limited(None, cloud="cloud")
    with checked_change(market.cluster):
        Server.objects.filter(cluster=market.cluster, name="cloud").update(storage_mb=20)
    set_time(market, 10.0)
    assert chunks_on(send(market, alice, epochs=6, chunk_mb=4)) == {"cloud": 4}
    assert chunks_on(send(market, alice, epochs=6, chunk_mb=4)) == {"edge-0": 4}
    assert stored(market) == (16_000_000, 16_000_000)
    go_to(market, 100)
    assert_clean(market)


def test_storage_is_read_back_after_a_restart_in_the_middle(db: None, alice: User) -> None:
    market = open_limited(30.0, 30.0, cloud="jobmax")
    set_time(market, 10.0)
    bids = [send(market, alice, epochs=epochs, chunk_mb=4) for epochs in (9, 3, 5)]
    for slot in (1.5, 3.5, 5.5):
        go_to(market, slot)
        stored(market)
        book.forget()
        bids.append(send(market, alice, epochs=2, chunk_mb=1.5))
    cancel_job(bids[0])
    stored(market)
    # The first server stops working, so what it has not completed goes elsewhere, and what it has stays.
    with checked_change(market.cluster):
        Capacity.objects.filter(server__name="edge-0").update(amount=0)
    stored(market)
    book.forget()
    go_to(market, 8.5)
    stored(market)
    go_to(market, 400)
    assert {window(bid)[0] for bid in bids[1:]} == {BidState.COMPLETED}
    assert stored_after(market) == 0
    assert_clean(market)


def stored_after(market: Market) -> int:
    market.refresh_from_db()
    queues = book.private_copy(market, now=market.now).running.queues
    return 0 if queues is None else sum(queues.stored)


def test_a_whole_batch_in_the_cloud_is_sent_again_if_the_cloud_is_gone(db: None, alice: User) -> None:
    market = open_limited(None, cloud="cloud")
    set_time(market, 10.0)
    bid = send(market, alice, epochs=6, chunk_mb=4)
    assert chunks_on(bid) == {"cloud": 4}
    go_to(market, 6.5)
    with checked_change(market.cluster):
        Capacity.objects.filter(server__name="cloud").update(amount=0)
    assert list(QueuedChunks.objects.exclude(until=None).values_list("done", flat=True)) == [0]
    assert chunks_on(bid) == {"edge-0": 4}
    assert stored(market) == (16_000_000, 0)
    book.forget()
    go_to(market, 100)
    assert window(bid)[0] == BidState.COMPLETED
    assert_clean(market)


def test_storage_in_use_cannot_be_taken_away(db: None, alice: User) -> None:
    market = open_limited(20.0)
    set_time(market, 10.0)
    send(market, alice, epochs=6, chunk_mb=4)
    servers = Server.objects.filter(name="edge-0")
    with (
        pytest.raises(ChangeRefused, match=r"edge-0 stores 16 MB .* storage_mb cannot be 15"),
        checked_change(market.cluster),
    ):
        servers.update(storage_mb=15)
    with checked_change(market.cluster):
        servers.update(storage_mb=16)
    go_to(market, 100)
    with checked_change(market.cluster):
        servers.update(storage_mb=1)
    assert_clean(market)


def test_a_replay_gives_every_byte_again_and_a_quote_changes_nothing(db: None, alice: User) -> None:
    market = open_limited(20.0, 8.0)
    set_time(market, 10.0)
    body = {"model": "ResNet-50", "epochs": 3, "chunk_mb": 4}
    offered = quote(market=market, body=body).decision
    assert offered == quote(market=market, body=body).decision
    for epochs in (3, 5, 2, 8):
        send(market, alice, epochs=epochs, chunk_mb=4)
    change_policy(market, name="preemptive", parameters={"cloud": "edge"}, by=None)
    send(market, alice, epochs=4, chunk_mb=4)
    change_policy(market, name="preemptive", parameters=EDGE, by=None)
    send(market, alice, epochs=4, chunk_mb=0.5)
    go_to(market, 400)
    assert replay_market(market).mismatches == ()
    assert DecisionRecord.objects.count() == 6
    assert_clean(market)


def test_the_audit_finds_servers_that_store_too_much(db: None, alice: User) -> None:
    market = open_limited(20.0, None)
    set_time(market, 10.0)
    send(market, alice, epochs=6, chunk_mb=5)
    send(market, alice, epochs=6, chunk_mb=5)
    assert_clean(market)
    edge = {row.name: row for row in Server.objects.filter(cluster=market.cluster)}
    QueuedChunks.objects.filter(server=edge["edge-1"]).update(server=edge["edge-0"])
    failed = {f.check: f.rows for f in audit_market(market) if not f.passed}
    assert failed["no server stores more than it can"] == (
        f"server {edge['edge-0'].pk} held 40000000 bytes in slot 1 with chunks of bid 2; it can store 20000000",
    )


@pytest.mark.parametrize("size", [-1, "4", True, 2e9, float("nan"), None])
def test_a_wrong_size_is_refused_by_name(db: None, alice: User, size: object) -> None:
    market = open_limited(20.0)
    with pytest.raises(InvalidField) as refused:
        send(market, alice, chunk_mb=size)
    assert refused.value.field == "chunk_mb"


def test_a_server_that_stores_too_much_already_stops_no_other_change(db: None, alice: User) -> None:
    market = open_limited(10.0, None, storage="ignored")
    set_time(market, 10.0)
    first = send(market, alice, epochs=6, chunk_mb=4)
    assert chunks_on(first) == {"edge-0": 4}
    change_policy(market, name="preemptive", parameters=EDGE, by=None)
    with checked_change(market.cluster):
        Capacity.objects.filter(server__name="edge-1").update(amount=3)
    with checked_change(market.cluster):
        Server.objects.filter(name="edge-0").update(storage_mb=12)
    with pytest.raises(ChangeRefused, match="stores 16 MB"), checked_change(market.cluster):
        Server.objects.filter(name="edge-0").update(storage_mb=11)
    assert chunks_on(send(market, alice, chunk_mb=4)) == {"edge-1": 4}
    go_to(market, 400)
    assert_clean(market)
