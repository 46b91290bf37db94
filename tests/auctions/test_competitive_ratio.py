"""The competitive ratios of a market that queues."""

import pytest
from django.contrib.auth.models import User

from auctions import tasks
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.models import CompetitiveRatio, Market
from auctions.readings import competitive_ratio
from auctions.readings.competitive_ratio import found
from cluster.guards import checked_change
from cluster.models import Server
from tests.auctions.test_queues import go_to, send
from tests.auctions.worlds import make_cluster, make_market, set_time


@pytest.fixture
def queued(db: None) -> Market:
    """A market of one edge server with four workers, and a cloud that is not used."""
    return open_market(make_cluster(servers=1, horizon=40), policy="preemptive", parameters={"cloud": "edge"})


def test_one_job_alone_takes_what_it_must(queued: Market, alice: User) -> None:
    """Four chunks of 20.32 slots on four workers at once: nobody could be quicker."""
    with checked_change(queued.cluster):
        Server.objects.filter(cluster=queued.cluster, name="cloud").update(upload_delay_s=10**6)
    set_time(queued, 10.0)
    send(queued, alice, epochs=20)
    go_to(queued, 60)
    tasks.measure()
    known = found(queued)
    assert (known.jobs, known.complete, known.reason) == (1, 1, "")
    assert [row.run for row in known.rows] == ["as it ran", "speed 1", "speed 1.2", "speed 1.5"]
    ran, again, faster, fastest = known.rows
    assert ran == type(ran)("as it ran", *[getattr(again, key) for key in list(vars(again))[1:]])
    assert ran.jct == pytest.approx(20.32)
    assert ran.fractional == pytest.approx(10.16)
    assert 1.0 <= ran.jct_ratio < 1.01
    assert 1.0 <= ran.fractional_ratio < 1.01
    assert faster.jct_ratio == pytest.approx(ran.jct_ratio / 1.2)
    assert fastest.jct_ratio == pytest.approx(ran.jct_ratio / 1.5)


def test_it_is_computed_again_only_when_more_is_complete(queued: Market, alice: User) -> None:
    assert found(queued).reason.startswith("No job is complete yet")
    set_time(queued, 10.0)
    send(queued, alice, epochs=3)
    row = competitive_ratio.renew(queued.pk)
    assert row is not None
    assert found(queued).reason.startswith("No job is complete yet since")
    go_to(queued, 30)
    assert competitive_ratio.renew(queued.pk) is not None
    at = CompetitiveRatio.objects.get().computed_at
    send(queued, alice, epochs=9)
    competitive_ratio.renew(queued.pk)
    assert CompetitiveRatio.objects.get().computed_at == at
    go_to(queued, 90)
    competitive_ratio.renew(queued.pk)
    assert found(queued).jobs == 2
    # What was complete on other servers is not compared with bounds on these.
    with checked_change(queued.cluster):
        Server.objects.filter(cluster=queued.cluster, name="cloud").update(upload_delay_s=50)
    competitive_ratio.renew(queued.pk)
    assert found(queued).rows == ()


def test_every_ratio_of_what_ran_is_at_least_one(queued: Market, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    change_policy(queued, name="preemptive", parameters={"cloud": "jobmax", "ageing": 1.0}, by=None)
    set_time(queued, 10.0)
    for i, epochs in enumerate((9, 3, 12, 1, 5, 7, 2)):
        send(queued, alice, epochs=epochs)
        go_to(queued, 1.5 + i)
    go_to(queued, 200)
    monkeypatch.setattr(competitive_ratio, "MOST_JOBS", 5)
    competitive_ratio.renew(queued.pk)
    known = found(queued)
    assert (known.jobs, known.complete) == (5, 7)
    for row in known.rows[:2]:
        assert row.fractional_ratio >= 1
        assert row.jct_ratio >= 1


def test_what_is_too_large_is_said(queued: Market, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    set_time(queued, 10.0)
    send(queued, alice, epochs=30)
    go_to(queued, 90)
    monkeypatch.setattr(competitive_ratio, "MOST_UNKNOWNS", 3)
    competitive_ratio.renew(queued.pk)
    assert found(queued).reason == "1 jobs here are too many for a linear program of at most 3 unknowns."


def test_a_market_that_books_slots_has_none_and_trouble_is_logged(
    db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    market = make_market()
    tasks.measure()
    assert not CompetitiveRatio.objects.exists()
    monkeypatch.setattr(competitive_ratio, "renew", lambda _: 1 / 0)
    tasks.measure()
    assert f"measuring market {market.pk} failed" in caplog.text
