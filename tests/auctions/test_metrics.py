"""Metrics: the same numbers whichever process is asked, for operators and scrapes alone."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from accounts.tokens import NewToken, issue
from auctions.engine import decision_queue
from auctions.engine.policies import change_policy
from auctions.models import Bid, BidState, DecisionRecord, FirstDecision, Market
from auctions.readings import market_metrics, market_readings
from auctions.runtime import health, signs
from auctions.state import book
from cluster import clock
from tests.auctions.standing import filled, pass_to, standing_market, stands
from tests.auctions.worlds import SLOT_S, make_operator, submit

Sample = tuple[str, tuple[tuple[str, str], ...]]


@pytest.fixture(autouse=True)
def _nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "KEPT_S", -1.0)
    monkeypatch.setattr(market_metrics, "_decisions", {})


@pytest.fixture
def scrape(settings: LazySettings) -> Any:
    """Read all samples by name and labels."""
    settings.METRICS_TOKEN = "of the scrape"

    def read() -> dict[Sample, float]:
        answer = Client().get("/metrics", headers={"Authorization": "Bearer of the scrape"})
        assert answer.status_code == 200, answer.content
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        # The tests before this one leave thousands of samples of addresses.
        lines = (line for line in answer.content.decode().splitlines() if "shadowprice_http_seconds" not in line)
        families = text_string_to_metric_families("\n".join(lines) + "\n")
        return {(one.name, tuple(sorted(one.labels.items()))): one.value for f in families for one in f.samples}

    return read


def of(market: Market, **labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({"market": market.cluster.name, **labels}.items()))


def test_decisions_are_counted_by_outcome_and_policy_as_the_receipts_say(
    market: Market, alice: User, scrape: Any
) -> None:
    for value in (1000, 1000, 1e-6):
        submit(market, alice, value=value)
    waiting = scrape()
    assert waiting["shadowprice_decision_queue_bids", of(market)] == 3
    assert waiting["shadowprice_decision_queue_age_seconds", of(market)] > 0
    for outcome in ("admitted", "rejected"):  # so that the first decision of each is an increase
        assert waiting["shadowprice_decisions_total", of(market, policy="dps", outcome=outcome)] == 0
    for name in ("shadowprice_decision_seconds", "shadowprice_policy_seconds"):
        assert waiting[f"{name}_bucket", of(market, policy="dps", le="+Inf")] == 0
    decision_queue.process_pending(market.pk)
    found = scrape()
    assert found["shadowprice_decisions_total", of(market, policy="dps", outcome="admitted")] == 2
    assert found["shadowprice_decisions_total", of(market, policy="dps", outcome="rejected")] == 1
    assert found["shadowprice_decision_queue_bids", of(market)] == 0
    for name in ("shadowprice_decision_seconds", "shadowprice_policy_seconds"):
        assert found[f"{name}_count", of(market, policy="dps")] == 3
        assert found[f"{name}_bucket", of(market, policy="dps", le="+Inf")] == 3
    needed_ms = sum(DecisionRecord.objects.values_list("latency_ms", flat=True))
    assert found["shadowprice_policy_seconds_sum", of(market, policy="dps")] == pytest.approx(needed_ms / 1000)


def test_a_bid_that_stood_counts_with_the_time_of_its_first_decision(alice: User, bob: User, scrape: Any) -> None:
    market = standing_market()
    taken = len(filled(market, alice))
    bid = stands(market, bob, standing_until_s=4 * SLOT_S)
    assert DecisionRecord.objects.count() == scrape()["shadowprice_decision_seconds_count", of(market, policy="dps")]
    # It stood for an hour.
    begun = clock.now() - timedelta(hours=1)
    Bid.objects.filter(pk=bid.pk).update(submitted_at=begun)
    FirstDecision.objects.filter(bid=bid).update(decided_at=begun + timedelta(seconds=0.02), latency_ms=15.0)
    before = scrape()
    pass_to(market, 5)
    bid.refresh_from_db()
    assert bid.state == BidState.REJECTED
    after = scrape()
    for name, seconds in (("decision", 0.02), ("policy", 0.015)):
        grown = [found[f"shadowprice_{name}_seconds_sum", of(market, policy="dps")] for found in (before, after)]
        assert grown[1] - grown[0] == pytest.approx(seconds)
    counted = [
        value
        for (sample, labels), value in after.items()
        if sample == "shadowprice_decisions_total" and dict(labels)["outcome"] == "rejected"
    ]
    assert sum(counted) == DecisionRecord.objects.filter(bid__value=None).count() > 0
    assert after["shadowprice_decision_seconds_count", of(market, policy="dps")] > taken


def test_the_time_of_a_first_decision_counts_for_the_policy_that_made_it(alice: User, bob: User, scrape: Any) -> None:
    market = standing_market()
    filled(market, alice)
    bid = stands(market, bob, standing_until_s=4 * SLOT_S)
    before = scrape()["shadowprice_policy_seconds_count", of(market, policy="dps")]
    change_policy(market, name="completions", parameters={}, by=None)
    pass_to(market, 5)
    bid.refresh_from_db()
    assert (bid.decision.policy.name, bid.first_decision.policy.name) == ("completions", "dps")
    after = scrape()
    for name in ("decision", "policy"):
        assert after[f"shadowprice_{name}_seconds_count", of(market, policy="dps")] == before + 1
        assert after[f"shadowprice_{name}_seconds_count", of(market, policy="completions")] == 0
    assert after["shadowprice_decisions_total", of(market, policy="completions", outcome="rejected")] == 1


def test_a_second_scrape_reads_only_what_is_new_and_another_process_says_the_same(
    market: Market, alice: User, scrape: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(market_metrics, "PAGE", 2)
    for count in (3, 2):
        for _ in range(count):
            submit(market, alice)
        decision_queue.process_pending(market.pk)
        followed = scrape()
    monkeypatch.setattr(market_metrics, "_decisions", {})  # as in a process that has just begun
    fresh = scrape()
    names = {sample for sample in fresh if sample[0].startswith(("shadowprice_decision", "shadowprice_policy"))}
    assert {sample: fresh[sample] for sample in names} == {sample: followed[sample] for sample in names}
    assert fresh["shadowprice_decision_seconds_count", of(market, policy="dps")] == 5


def test_price_utilisation_and_welfare_are_those_of_the_summary(market: Market, alice: User, scrape: Any) -> None:
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    summary = make_client().get(f"/api/v1/clusters/{market.cluster.name}/summary").json()
    found = scrape()
    for name in ("welfare", "revenue", "utilisation"):
        assert found[f"shadowprice_{name}", of(market)] == pytest.approx(summary[name])
    assert found["shadowprice_bids_admitted", of(market)] == 1
    assert found["shadowprice_market_readable", of(market)] == 1


def test_a_market_that_cannot_be_read_says_so_and_hides_no_other(
    market: Market, scrape: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no book")

    monkeypatch.setattr(market_readings, "summary", fail)
    found = scrape()
    assert found["shadowprice_market_readable", of(market)] == 0
    assert ("shadowprice_welfare", of(market)) not in found
    assert found["shadowprice_decision_queue_bids", of(market)] == 0
    assert "cannot be read" in caplog.text


def test_checks_and_workers_are_shown(market: Market, scrape: Any, settings: LazySettings) -> None:
    settings.EMBEDDED, settings.REDIS_URL = False, "redis://127.0.0.1:1/0"
    signs.give("worker-1@shadowprice", ["celery"])
    found = scrape()
    assert found["shadowprice_ready", (("check", "database"),)] == 1
    assert found["shadowprice_ready", (("check", "broker"),)] == 0
    assert found["shadowprice_broker_up", ()] == 0
    assert found["shadowprice_database_seconds", ()] > 0
    assert 0 <= found["shadowprice_sign_age_seconds", (("worker", "worker-1@shadowprice"),)] < SLOT_S


def test_steps_of_submissions_and_decisions_are_counted(market: Market, alice: User, scrape: Any) -> None:
    def steps() -> dict[tuple[str, str], float]:
        rows = (
            (dict(labels), value) for (name, labels), value in scrape().items() if name.endswith("step_seconds_count")
        )
        return {(row["work"], row["step"]): value for row, value in rows if row["policy"] == "dps"}

    before = steps()
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    after = steps()
    expected = {("submit", step) for step in ("lock", "write", "commit")}
    expected |= {("decide", step) for step in ("lock", "book", "policy", "write", "commit")}
    assert {step for step, count in after.items() if count > before.get(step, 0)} == expected


def test_no_label_names_a_bidder_or_a_bid(market: Market, alice: User, settings: LazySettings) -> None:
    settings.METRICS_ADDRESSES = ["127.0.0.0/8"]
    submit(market, alice, label="a name only Alice uses")
    decision_queue.process_pending(market.pk)
    text = Client().get("/metrics").content.decode()
    assert "alice" not in text.lower()


@pytest.mark.parametrize(
    ("headers", "address", "status"),
    [
        ({}, "192.0.2.1", 401),
        ({"Authorization": "Bearer of the scrape"}, "192.0.2.1", 200),
        ({"Authorization": "Bearer another one"}, "192.0.2.1", 401),
        ({"Authorization": "Bearer "}, "192.0.2.1", 401),
        ({}, "10.1.2.3", 200),
        ({"X-Forwarded-For": "10.1.2.3"}, "192.0.2.1", 401),
    ],
)
def test_a_scrape_needs_its_token_or_its_address(
    market: Market, settings: LazySettings, headers: dict[str, str], address: str, status: int
) -> None:
    settings.METRICS_TOKEN, settings.METRICS_ADDRESSES = "of the scrape", ["10.0.0.0/8"]
    assert Client(REMOTE_ADDR=address).get("/metrics", headers=headers).status_code == status


def test_without_settings_nobody_but_operators_reads_it(market: Market, alice: User) -> None:
    assert Client().get("/metrics", headers={"Authorization": "Bearer "}).status_code == 401
    bidder = Client()
    bidder.force_login(alice)
    assert bidder.get("/metrics").status_code == 403
    assert make_client().get("/metrics").status_code == 200


@pytest.mark.parametrize(
    ("scope", "of_cluster", "status"), [("operate", False, 200), ("operate", True, 403), ("bid", False, 403)]
)
def test_a_token_reads_it_as_far_as_it_reaches(market: Market, scope: str, of_cluster: bool, status: int) -> None:
    token = issue(make_operator(), NewToken("script", scope, market.cluster if of_cluster else None))
    assert Client().get("/metrics", headers={"Authorization": f"Token {token.text}"}).status_code == status


def make_client() -> Client:
    """Olga's client, with an empty memory of books."""
    book.forget()
    client = Client()
    users = User.objects.filter(username="olga")
    client.force_login(users.get() if users else make_operator())
    return client


def test_another_method_is_refused(market: Market) -> None:
    assert make_client().post("/metrics").status_code == 405
