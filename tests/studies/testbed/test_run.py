"""Real servers, real processes in them, and one small run of the testbed."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from execution.engines.base import Phase, Start
from studies.testbed import jobs, networks, runs, servers
from studies.testbed.calibration import Profile
from studies.testbed.engine import ConfinedEngine
from studies.testbed.groups import Groups, NoGroups
from studies.testbed.servers import Servers
from studies.testbed.settings import SETTINGS
from tests.conftest import missing
from tests.execution.leftovers import adopted, below
from tests.processes import ROOT, wait_until

PROFILE = Profile({"large": 3.0, "small": 4.5}, ps_step_s=0.03, reduce_step_s=0.03)
"""About ten times what a step takes, so that the slots that are granted are enough on a busy machine."""
SHOW = """
import json, os, socket, time
begin, used = time.monotonic(), time.process_time()
while time.process_time() < used + 0.2: pass
groups = [line.split(":", 2)[2] for line in open("/proc/self/cgroup").read().split()]
print(json.dumps({"groups": groups, "links": [n for _, n in socket.if_nameindex()], "s": time.monotonic() - begin}))
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Servers]:
    """The servers of this machine, as far as it allows; afterwards nothing of them is left."""
    before, prefix = below(), servers.prefix_of(tmp_path)
    with adopted():
        with servers.made(prefix) as made:
            yield made
        wait_until(lambda: not below(leave=before) - before, what="end of all processes", seconds=5, every=0.02)
    assert not list(networks.FOLDER.glob(f"{prefix}-*"))
    if made.groups is not None:
        assert not [path for root in made.groups.roots for path in root.rglob(prefix)]


@pytest.mark.slow
def test_a_process_runs_in_its_group_and_in_the_network_of_its_server(made: Servers, tmp_path: Path) -> None:
    if made.groups is None or not made.has_networks:
        missing(f"right to make control groups and network namespaces: {made.words}", install="root, iproute2")
    engine = ConfinedEngine(tmp_path / "engine", made)
    arguments = ("/usr/bin/env", "python3", "-c", SHOW)
    path = {"PATH": os.environ["PATH"]}
    engine.launch(Start("one", "edge-1", arguments, path, tmp_path, time.time() + 30, 1.0, machine_type="small"))
    wait_until(lambda: engine.list()["one"].phase == Phase.EXITED, what="its end", seconds=20, every=0.05)
    said = json.loads(engine.log("one", 0, 10_000))
    assert [group for group in said["groups"] if group.endswith(f"/{made.prefix}/edge-1/one")]
    assert sorted(said["links"]) == ["lo", "uplink"]
    assert said["s"] > 0.2 / 0.14 * 0.8  # a small worker has 0.14 processors
    engine.retire("one")
    assert not [path for path in made.groups.paths(f"{made.prefix}/edge-1/one") if path.exists()]


@pytest.mark.slow
def test_what_a_killed_testbed_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    prefix = servers.prefix_of(tmp_path)
    child = os.fork()
    if child == 0:
        with servers.made(prefix):
            os._exit(0)  # nothing is removed
    os.waitpid(child, 0)
    with servers.made(prefix) as made:
        assert made.groups is None or made.groups.paths(f"{prefix}/edge-2")[0].exists()
        assert made.has_networks == networks.file_of(prefix, "store").exists()
    assert not list(networks.FOLDER.glob(f"{prefix}-*"))


@pytest.mark.slow
@pytest.mark.django_db
def test_a_small_run_trains_and_is_recorded(made: Servers, tmp_path: Path) -> None:
    job = jobs.Job("job 0", "ada", 0.0, epochs=2, chunks=2, seed=1, weight=9, decay=0.0, target=3, kappa=2)
    conditions = runs.Conditions(made, PROFILE, (job,), slot_s=4, deadline=5, root=ROOT)
    setting = next(one for one in SETTINGS if one.name == "FIFO")
    with override_settings(EXECUTION_DIR=tmp_path / "execution"):
        run = runs.run(setting, conditions)
    (outcome,) = run.outcomes
    assert (run.findings, outcome.admitted, outcome.planned) == (0, True, 6)
    assert (outcome.done, len(outcome.generations)) == (job.steps, 1)
    assert outcome.completed is not None
    assert 0 < outcome.generations[0].training < outcome.completed - 1


def test_an_installation_that_is_not_its_own_is_refused() -> None:
    with pytest.raises(CommandError, match="SHADOWPRICE_VAR: expected the whole path of a directory called testbed"):
        call_command("testbed", small=True)
    with pytest.raises(CommandError, match="--seed: expected"):
        call_command("testbed", seed=0)


def test_without_control_groups_and_networks_workers_pause_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Groups:
        raise NoGroups("expected root, got none")

    monkeypatch.setattr(Groups, "here", refuse)
    monkeypatch.setattr("shutil.which", lambda _: None)
    with servers.made(servers.prefix_of(tmp_path)) as made:
        assert made.words.startswith("without control groups: a worker pauses instead")
        assert "expected root, got none" in made.words
        assert "iproute2" in made.words
        assert made.addresses() == {}
        start = Start("one", "edge-0", ("true",), {}, tmp_path, 0.0, 1.0)
        assert made.confine(start) == start.confinement
