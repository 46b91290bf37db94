"""Pages of execution for operators: what runs where, what is late, and measured step times that can be adopted."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from auctions.models import Bid
from cluster import clock
from cluster.models import StepTime
from execution.engines import slurm
from execution.engines.base import EngineError
from execution.models import EngineKind, Execution, Process, ProcessState
from execution.records import files_of
from tests.auctions.worlds import SLOT_S, make_operator
from tests.execution.worlds import World, make_world

pytestmark = pytest.mark.thorough

PAGE = "/markets/lab/execution/"


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


@pytest.fixture
def operator(world: World, client: Client) -> Client:
    """Signed in."""
    client.force_login(make_operator())
    return client


@pytest.fixture
def running(world: World) -> Bid:
    """A bid whose job has made 30 steps of 14 s."""
    bid = world.submit(epochs=8, steps=100)
    world.go(1.2 * SLOT_S, every=SLOT_S / 5)
    lines = [json.dumps({"step": n, "loss": 1.0, "seconds": 14.0}) + "\n" for n in range(1, 31)]
    files_of(world.training(bid)).progress(0).write_text("".join(lines))
    world.go(5)
    return bid


def shown(client: Client, address: str = PAGE) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_cluster_that_executes_nothing_says_how_to_change_that(operator: Client) -> None:
    Execution.objects.all().delete()
    assert "This cluster does not execute its jobs" in shown(operator)
    assert "No job whose model has a profile" in shown(operator, f"{PAGE}step-times/")


def test_what_runs_where_is_shown_with_links(operator: Client, running: Bid) -> None:
    page = shown(operator)
    assert "active since" in page
    assert "No job has gone on with other machines yet" in page
    assert "counts 0 slots" in page
    for process in Process.objects.select_related("server"):
        assert f"/markets/lab/bids/{running.sequence}/training/logs/{process.key}/" in page
        assert f'href="/markets/lab/servers/{process.server.name}/"' in page
    assert "Look at it" not in page
    assert 'aria-current="page">Execution' in shown(operator)


def test_nothing_runs_and_no_executor_is_active(operator: Client, world: World) -> None:
    page = shown(operator)
    assert "none was ever started" in page
    assert "No process runs." in page
    world.executor().once()
    world.wall[0] += 60
    assert "none is active since" in shown(operator)


def test_a_server_on_which_a_process_was_lost_or_does_not_start_is_marked(
    operator: Client, world: World, running: Bid
) -> None:
    lost, sent = Process.objects.order_by("pk")[:2]
    Process.objects.filter(pk=lost.pk).update(state=ProcessState.LOST, ended_at=clock.now())
    Process.objects.filter(pk=sent.pk).update(state=ProcessState.SENT)
    page = shown(operator)
    assert "1 lost in the last hour" in page
    assert "1 process not started" in page
    assert f"{sent.key} was sent to the engine and has not started" in page
    world.wall[0] += 3_700
    assert "lost in the last hour" not in shown(operator)


def test_what_slurm_says_is_shown_and_not_trusted(
    operator: Client, running: Bid, monkeypatch: pytest.MonkeyPatch
) -> None:
    Execution.objects.update(engine=EngineKind.SLURM)
    monkeypatch.setattr(slurm, "node_states", lambda configuration: {"edge-0": "idle", "edge-1": "down*"})
    page = shown(operator)
    assert "It is not trusted" in page
    assert "<td>down*</td>" in page
    assert "<td>unknown</td>" in page

    def silent(configuration: Path | None) -> dict[str, str]:
        raise EngineError("expected sinfo to answer, got nothing within 2 s")

    monkeypatch.setattr(slurm, "node_states", silent)
    assert "no answer: expected sinfo to answer" in shown(operator)


def test_the_version_of_an_open_page_changes_with_what_it_shows(operator: Client, world: World, running: Bid) -> None:
    def version() -> Any:
        return operator.get(f"{PAGE}version").headers["ETag"]

    first = version()
    world.executor().once()  # it renews its lease
    assert version() == first
    part = operator.get(f"{PAGE}part")
    assert operator.get(f"{PAGE}part", headers={"if-none-match": part.headers["ETag"]}).status_code == 304
    world.engine.lose(world.engine.alive()[0])
    world.executor().once()
    assert version() != first


def test_measured_step_times_are_adopted_with_a_confirmation(operator: Client, running: Bid) -> None:
    page = shown(operator, f"{PAGE}step-times/")
    now = StepTime.objects.get(machine_type__role="worker")
    assert now.seconds == 9.0
    assert 'data-confirm="Change the step time of ResNet-50 on gpu from 9 s to 1' in page
    rows = shown(operator, f"{PAGE}step-times.csv").splitlines()
    assert rows[0].startswith("model,architecture,worker_type,workers,ps_type,num_ps,one_server,expected_s,measured_s")
    assert rows[1].startswith("ResNet-50,ps,gpu,")
    assert rows[1].split(",")[6] in ("yes", "no")
    assert rows[1].endswith(",29,1")
    given = {"model": "ResNet-50", "worker_type": "gpu", "before": "9.0", "after": "13.0"}
    assert operator.post(f"{PAGE}step-times/adopt/", given | {"after": "nan"}).status_code == 404
    wrong = operator.post(f"{PAGE}step-times/adopt/", given | {"before": "8"}, follow=True).content.decode()
    assert "expected the step time of now, 9 s, got 8 s" in wrong
    done = operator.post(f"{PAGE}step-times/adopt/", given, follow=True).content.decode()
    assert "ResNet-50 on gpu: the profile now says 13 s." in done
    now.refresh_from_db()
    assert now.seconds == 13.0


def test_these_pages_are_not_there_for_bidders(client: Client, world: World, running: Bid) -> None:
    client.force_login(world.owner)
    for address in ("", "part", "version", "step-times/", "step-times.csv"):
        assert client.get(PAGE + address).status_code == 404
    given = {"model": "ResNet-50", "worker_type": "gpu", "before": "9", "after": "13"}
    assert client.post(f"{PAGE}step-times/adopt/", given).status_code == 404
    assert StepTime.objects.get(machine_type__role="worker").seconds == 9.0
