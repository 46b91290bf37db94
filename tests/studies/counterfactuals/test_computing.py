"""Telling records in a worker: to their ends, once, cancelled, and after a worker died."""

import sqlite3
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError
from django.db.models import F

from auctions.counterfactual.comparison import Comparison, compare
from auctions.counterfactual.record import Record
from auctions.engine import decision_queue
from auctions.kernels import compiling
from auctions.models import Bid, Market
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.registry import make_policy
from studies.background import dead_workers, loading, states
from studies.background.creating import TooManyOpen
from studies.background.models import JobState, Stage
from studies.counterfactuals import computing
from studies.counterfactuals.computing import compute_next
from studies.counterfactuals.requests import CounterfactualRequest, create
from studies.job_tables import COUNTERFACTUALS
from studies.models import Counterfactual
from tests.auctions.worlds import submit


def submitted(market: Market, olga: User, *, policy: str = "fifo", since: int = 1) -> Counterfactual:
    return create(olga, market, CounterfactualRequest(make_policy(policy, {}), since))


def after(counterfactual: Counterfactual) -> Counterfactual:
    counterfactual.refresh_from_db()
    return counterfactual


def test_it_replays_the_record_as_it_was_when_it_was_requested(market: Market, olga: User) -> None:
    counterfactual = submitted(market, olga)
    submit(market, Bid.objects.first().owner, 0.0001)  # type: ignore[union-attr]
    decision_queue.process_pending(market.pk)
    assert compute_next()
    found = after(counterfactual)
    assert (found.state, found.decided, found.changed, found.error) == (JobState.COMPLETED, 5, 5, "")
    assert found.result is not None
    assert [row["sequence"] for row in found.result["rows"]] == [1, 2, 3, 4, 5]
    assert not compute_next(), "a completed job is not computed twice"


@pytest.mark.parametrize("every_s", [0.0, 3600.0])
def test_one_that_is_completed_has_replayed_all_events_however_short_it_is(
    every_s: float, market: Market, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "EVERY_S", every_s)
    counterfactual = submitted(market, olga)
    assert compute_next()
    found = after(counterfactual)
    assert found.events is not None
    assert found.replayed == found.events > 1


def test_a_parameter_that_came_with_an_upgrade_has_the_value_of_before(
    market: Market, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    counterfactual = submitted(market, olga, policy="completions")
    now = counterfactual.parameters
    Counterfactual.objects.update(parameters={key: now[key] for key in now if key not in ("each_kind", "beside")})
    policies: list[Policy] = []

    def noted(record: Record, policy: Policy, **options: Any) -> Comparison:
        policies.append(policy)
        return compare(record, policy, **options)

    monkeypatch.setattr(computing, "compare", noted)
    assert compute_next()
    (policy,) = policies
    assert policy.to_json() == {**now, "each_kind": False, "beside": False} != now


def test_the_same_request_on_the_same_record_has_the_same_result(market: Market, olga: User) -> None:
    first, second = submitted(market, olga), submitted(market, olga)
    while compute_next():
        pass
    assert after(first).result == after(second).result


def test_a_policy_that_cannot_run_there_is_refused_at_once(market: Market, olga: User) -> None:
    with pytest.raises(InvalidField, match="expected a policy that can run on this market's servers") as refused:
        submitted(market, olga, policy="oasis")
    assert refused.value.field == "policy"
    assert not Counterfactual.objects.exists()


def test_a_policy_that_turns_out_not_to_run_there_says_why(market: Market, olga: User) -> None:
    counterfactual = submitted(market, olga)
    Counterfactual.objects.update(policy="oasis", parameters=make_policy("oasis", {}).to_json())
    assert compute_next()
    assert after(counterfactual).state == JobState.FAILED
    assert "could not have been decided by oasis: " in counterfactual.error


def test_one_that_is_cancelled_while_it_is_replayed_ends_soon(
    market: Market, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    counterfactual = submitted(market, olga)
    monkeypatch.setattr(computing, "EVERY_S", 0.0)
    progress = states.progress

    def cancel_then(attempt: states.Attempt[Counterfactual], **fields: int) -> bool:
        Counterfactual.objects.update(cancel_requested=True)
        return progress(attempt, **fields)

    monkeypatch.setattr(states, "progress", cancel_then)
    assert compute_next()
    assert after(counterfactual).state == JobState.CANCELLED
    assert counterfactual.result is None


def test_a_worker_that_stops_gives_it_back(market: Market, olga: User) -> None:
    counterfactual = submitted(market, olga)
    assert compute_next(stopping=lambda: True)
    assert after(counterfactual).state == JobState.QUEUED
    assert compute_next()
    assert after(counterfactual).state == JobState.COMPLETED


def test_that_of_a_dead_worker_is_begun_again(market: Market, olga: User) -> None:
    counterfactual = submitted(market, olga)
    dead = states.claim_next(COUNTERFACTUALS)
    assert dead is not None
    assert not compute_next(), "its worker may live"
    Counterfactual.objects.update(heartbeat_at=F("heartbeat_at") - timedelta(seconds=dead_workers.STALE_S + 1))
    assert compute_next()
    assert after(counterfactual).state == JobState.COMPLETED
    assert not states.progress(dead, replayed=1)


def test_one_that_is_deleted_while_it_is_replayed_is_let_go(
    market: Market, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(market, olga)
    monkeypatch.setattr(computing, "EVERY_S", 0.0)
    monkeypatch.setattr(states, "progress", lambda attempt, **fields: not Counterfactual.objects.all().delete())
    assert compute_next()
    assert not Counterfactual.objects.exists()


def test_nobody_may_have_many_under_way(market: Market, olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.OPEN_WORK, "counterfactuals", 1)
    submitted(market, olga)
    with pytest.raises(TooManyOpen, match="1 counterfactuals of yours"):
        submitted(market, olga)


def test_kernels_are_loaded_in_a_process_and_the_row_says_so(
    market: Market, olga: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    counterfactual, seen = submitted(market, olga, policy="dps"), tmp_path / "seen"
    until_seen = f"for i in $(seq 200); do test -e {seen} && break; sleep 0.05; done"
    monkeypatch.setattr(loading, "_loaded", set())
    script = f'{until_seen}; echo \'{{"part": "rigid"}}\'; echo \'{{"ready": true}}\''
    monkeypatch.setattr(compiling, "command", lambda parts: ("sh", "-c", script))

    def look() -> bool:
        if after(counterfactual).stage == Stage.LOADING:
            seen.touch()
        return False

    assert compute_next(look)
    assert seen.exists()
    assert (after(counterfactual).state, counterfactual.stage) == (JobState.COMPLETED, Stage.BEGUN)


@pytest.mark.thorough
def test_one_that_is_cancelled_while_kernels_are_compiled_ends_at_once(
    market: Market, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    counterfactual = submitted(market, olga, policy="dps")
    monkeypatch.setattr(loading, "_loaded", set())
    monkeypatch.setattr(compiling, "command", lambda parts: ("sleep", "60"))

    def somebody_cancels() -> bool:
        if after(counterfactual).stage and not counterfactual.cancel_requested:
            states.cancel(COUNTERFACTUALS, counterfactual.pk)
        return False

    began = monotonic()
    assert compute_next(somebody_cancels)
    assert (after(counterfactual).state, counterfactual.stage) == (JobState.CANCELLED, Stage.BEGUN)
    assert monotonic() - began < 30


def test_an_error_that_nobody_foresaw_is_tried_again_and_then_shown(
    market: Market, olga: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counterfactual = submitted(market, olga)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("nothing is divided by zero")

    monkeypatch.setattr(computing, "_replayed", fail)
    for _ in range(states.MOST_ATTEMPTS - 1):
        assert compute_next()
        assert after(counterfactual).state == JobState.QUEUED
    assert compute_next()
    assert (after(counterfactual).state, counterfactual.error) == (
        JobState.FAILED,
        "ZeroDivisionError: nothing is divided by zero",
    )
    assert len(caplog.messages) == states.MOST_ATTEMPTS


def locked() -> OperationalError:
    error = OperationalError("database is locked")
    error.__cause__ = cause = sqlite3.OperationalError("database is locked")
    cause.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


def test_progress_is_left_out_while_the_database_is_busy(
    market: Market, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(market, olga)
    attempt = states.claim_next(COUNTERFACTUALS)
    assert attempt is not None
    with monkeypatch.context() as patched:

        def fail(*_: object, **__: object) -> int:
            raise locked()

        patched.setattr("django.db.models.query.QuerySet.update", fail)
        assert states.progress(attempt, replayed=1)
    assert states.progress(attempt, replayed=2)
    assert Counterfactual.objects.get().replayed == 2


def test_a_result_waits_for_a_busy_database(market: Market, olga: User, monkeypatch: pytest.MonkeyPatch) -> None:
    counterfactual = submitted(market, olga)
    monkeypatch.setattr(states, "WRITE_PAUSE_S", 0.0)
    finish, refused = states._finish, [locked(), locked()]

    def finish_at_last(attempt: states.Attempt[Counterfactual], fields: Json) -> bool:
        if refused:
            raise refused.pop()
        return finish(attempt, fields)

    monkeypatch.setattr(states, "_finish", finish_at_last)
    assert compute_next()
    assert (after(counterfactual).state, refused) == (JobState.COMPLETED, [])
