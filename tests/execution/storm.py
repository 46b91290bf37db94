"""A storm over a whole installation: programs, shims, daemons of Slurm, executors and the web process are killed and
frozen while jobs arrive by REST and train.

`main` runs where Django has the settings of an installation that has tables and no row, as in `manage.py shell`.
"""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import requests
from django.contrib.auth.models import User
from django.db import OperationalError, connection

from auctions.domain.bid_conversion import policy_in_force
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.history.audit import audit_market
from auctions.models import Bid
from cluster.models import Capacity
from execution.engines import small_slurm
from execution.engines.files import FilesEngine
from execution.executor import engine_of
from execution.models import Execution, Generation, Lease, Process, Progress, Training
from scheduling import kernels
from scheduling.policies.base import Objective
from scheduling.registry import make_policy
from tests import forks
from tests.auctions.worlds import body
from tests.execution.clusters import executing_cluster
from tests.execution.leftovers import adopted, below
from tests.execution.promises import assert_nothing_ran_elsewhere
from tests.faults.installation import start_web
from tests.forks import project
from tests.processes import Process as Child
from tests.processes import children, free_port, wait_until
from tests.rest import user_token

POLICIES: Final = ("competition", "completions", "dps")
"""Policies between which a storm changes: bids that one takes the others take, too."""
SLOT_S: Final = {False: 3.0, True: 5.0}
"""Length of a slot without and with Slurm, seconds."""
LATE_S: Final = 1.5
"""Longest time for which a process may be there after its machines are given back, seconds."""
LONGEST_FREEZE_S: Final = 4.0
EXITS: Final = (
    "CREATE TABLE exits (key TEXT)",
    "CREATE TRIGGER count_exits AFTER UPDATE OF state ON execution_process WHEN NEW.state IN ('exited', 'lost')"
    " BEGIN INSERT INTO exits VALUES (NEW.key); END",
)
"""Each write of an exit is counted by the database itself."""


class Storm:
    """An installation, what it runs, and the faults."""

    def __init__(self, policy: str, seed: int, slurm: Path | None, stack: ExitStack) -> None:
        self.rng, self.slurm, self.stack = np.random.default_rng(seed), slurm, stack
        self.env, self.directory = dict(os.environ), Path(os.environ["SHADOWPRICE_VAR"])
        self.cluster = executing_cluster(
            "storm", slot_s=SLOT_S[slurm is not None], slurm=slurm, units=2, loopback=40 + seed % 200
        )
        if policy == "oasis":
            here = Capacity.objects.filter(server__cluster=self.cluster)
            here.filter(server__name="edge-2", resource__name="gpu").update(amount=0)
            here.exclude(server__name="edge-2").filter(resource__name="ps").update(amount=0)
        self.market = open_market(self.cluster, policy=policy, parameters={})
        self.policy, self.changes = policy, 0
        self.by_weight = policy_in_force(self.cluster).objective is not Objective.WELFARE
        self.headers = {"Authorization": f"Token {user_token(User.objects.create(username='a'))}"}
        for statement in EXITS:
            with connection.cursor() as cursor:
                cursor.execute(statement)
        connection.close()
        self.engine = engine_of(Execution.objects.get())
        assert isinstance(self.engine, FilesEngine)
        self.root = self.engine.files.live.parent
        self.pool = ThreadPoolExecutor(1)
        self.posting: Future[None] | None = None
        self.frozen: dict[int, float] = {}
        """Processes that are frozen, and when they go on."""
        self.faults: Counter[str] = Counter()
        self.most = 0
        self.port = free_port()
        self.before = below()
        if policy in POLICIES:  # changes are made in this process; they are not to compile under the market's lock
            kernels.warm_up(*(group for name in POLICIES for group in kernels.needed_by(make_policy(name, {}))))
        self.web = self.started(start_web(self.port, self.env, self.directory / "web.log"))
        self.executors: list[Child] = []
        self.start_executor()

    def started(self, child: Child) -> Child:
        """Let it end with the storm at the latest."""
        self.stack.callback(child.end, 0)
        return child

    def start_executor(self) -> None:
        """Start another executor; the former one may be frozen."""
        command = ["python", "manage.py", "execute", "--every", "0.3"]
        log = self.directory / "executor.log"
        self.executors.append(self.started(Child(command, log=log, env=self.env, parent=project(self.env))))

    def post(self) -> None:
        """Submit a bid; the web process may be dead or frozen."""
        steps = int(self.rng.choice([10, 40, 100_000]))
        asked = body(100.0, epochs=int(self.rng.integers(1, 4)), program={"name": "train", "steps": steps})
        if self.by_weight:
            del asked["utility"]
            asked["weight"] = 1
        else:
            asked["standing"] = bool(self.rng.random() < 0.7)
        address = f"http://127.0.0.1:{self.port}/api/v1/clusters/storm/bids"
        with suppress(requests.RequestException), requests.Session() as session:
            session.trust_env = False
            answer = session.post(address, json=asked, headers=self.headers, timeout=5)
            assert answer.status_code in (200, 202, 429, 503), answer.text
            if answer.ok and self.rng.random() < 0.2:  # it may be decided, or end, before
                number = int(self.rng.integers(1, answer.json()["sequence"] + 1))
                answer = session.post(f"{address}/{number}/withdraw", headers=self.headers, timeout=5)
                assert answer.status_code in (200, 409, 429, 503), answer.text

    def tick(self) -> None:
        """Let a moment pass: jobs arrive, what was frozen goes on, and what should hold is checked."""
        if self.posting is None or self.posting.done():
            if self.posting is not None:
                self.posting.result()
            self.posting = self.pool.submit(self.post)
        for pid in [pid for pid, at in self.frozen.items() if at < time.monotonic()]:
            del self.frozen[pid]
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        for child in self.executors[:-1]:
            if child.pid not in self.frozen and child.alive and self.rng.random() < 0.05:
                child.end(0)
        self.check()
        time.sleep(0.1)

    def programs(self) -> dict[int, str]:
        """The key of each live program's process, read from the environment that its shim gave it."""
        found = {}
        for pid in below(leave=self.before):
            with suppress(OSError):
                text = Path(f"/proc/{pid}/environ").read_text()
                of = dict(row.split("=", 1) for row in text.split("\0") if "=" in row)
                if "SHADOWPRICE_PROGRESS" in of:
                    folder = Path(of["SHADOWPRICE_PROGRESS"]).parent
                    role, rank = of["SHADOWPRICE_ROLE"], of["RANK"]
                    found[pid] = f"{folder.parent.name[:12]}-{folder.name}-{role[0]}{rank}"
        return found

    def programs_again(self) -> dict[int, str]:
        """Return what lives; if nothing does, let Slurm use its servers again.

        A controller that was killed may find a job twice on a server, and drains the server then until an operator
        resumes it.
        """
        found = self.programs()
        if not found and self.slurm is not None:
            command = ["scontrol", "update", f"NodeName={','.join(small_slurm.SERVERS)}", "State=RESUME"]
            environment = {"PATH": small_slurm.SYSTEM, "SLURM_CONF": str(self.slurm)}
            with suppress(subprocess.TimeoutExpired):  # its controller is frozen
                subprocess.run(command, env=environment, capture_output=True, timeout=1)
        return found

    def check(self) -> None:
        """Check that a job has one live generation, a process runs once, and none lives longer than it may."""
        keys = sorted(self.programs().values())
        generations = {key.rpartition("-")[0] for key in keys}
        jobs = Counter(name.partition("-")[0] for name in generations)
        assert len(keys) == len(set(keys)), f"a process runs twice: {keys}"
        assert all(count == 1 for count in jobs.values()), f"two generations of a job live: {sorted(generations)}"
        self.most = max(self.most, len(keys))
        for key in keys:
            folder = self.root / "live" / key
            with suppress(FileNotFoundError):
                start = json.loads((folder / "start.json").read_text())
                until = float((folder / "until").read_text()) if (folder / "until").exists() else start["until"]
                late = time.time() - until
                assert late < LATE_S or key not in self.programs().values(), f"{key} lives {late:.1f} s too long"

    def wait(self, what: str, done: Callable[[], object], *, seconds: float = 60.0) -> None:
        """Let the storm go on until something holds."""

        def ticked() -> bool:
            self.tick()
            return bool(done())

        wait_until(ticked, what=what, seconds=seconds, every=0.0)

    def fault(self) -> None:
        """Kill or freeze something that lives now."""
        kinds: dict[str, Callable[[], int | None]] = {
            "worker": lambda: self.some(self.programs()),
            "outer shim": lambda: self.some(self.shims(0)),
            "inner shim": lambda: self.some(self.shims(1)),
            "executor": lambda: self.executors[-1].pid,
            "server": lambda: self.web.pid,
            "web": lambda: self.served(0),
            "decisions": lambda: self.served(1),
        }
        if self.slurm is not None:
            kinds |= {"slurmd": lambda: self.daemon(str(self.rng.choice(small_slurm.SERVERS)))}
            kinds |= {"slurmctld": lambda: self.daemon("slurmctld")}
        pid = None
        while pid is None or pid in self.frozen:
            self.wait("programs", self.programs_again)
            kind = str(self.rng.choice(list(kinds)))
            pid = kinds[kind]()
        number = signal.SIGKILL if self.rng.random() < 0.5 else signal.SIGSTOP
        self.faults[f"{number.name} {kind}"] += 1
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        if number is signal.SIGSTOP:
            self.frozen[pid] = time.monotonic() + float(self.rng.uniform(0.5, LONGEST_FREEZE_S))
        if kind == "executor":  # as if its lease had run out meanwhile; the frozen one goes on later
            self.take_lease()
            self.start_executor()
        if number is signal.SIGKILL:
            if kind in ("server", "web"):
                self.web.end()
                self.web = self.started(start_web(self.port, self.env, self.directory / "web.log"))
            if kind.startswith("slurm"):
                self.restart_daemon(kind, pid)
        if self.policy in POLICIES and self.rng.random() < 0.3:
            self.change_policy()
        end = time.monotonic() + float(self.rng.uniform(0.3, 2.5))
        self.wait("the next fault", lambda: time.monotonic() > end)

    def served(self, number: int) -> int | None:
        """One of the server's processes: that of pages, or the worker that decides; None if it is not there."""
        return dict(enumerate(children(self.web.pid))).get(number)

    def take_lease(self) -> None:
        """Let the lease be over. An executor that was frozen in a transaction goes on first."""
        self.write(lambda: Lease.objects.update(until=0.0))

    def change_policy(self) -> None:
        """Let the market decide by another policy; jobs run and bids stand meanwhile."""
        self.policy = str(self.rng.choice([name for name in POLICIES if name != self.policy]))
        self.write(lambda: change_policy(self.market, name=self.policy, parameters={}, by=None))
        self.changes += 1

    def write(self, change: Callable[[], object]) -> None:
        """Change rows as soon as the database lets this process."""

        def done() -> bool:
            with suppress(OperationalError):
                change()
                return True
            return False

        # A long wait here would let nothing that is frozen go on. Other writes wait as long as a service does.
        with connection.cursor() as cursor:
            [(usual,)] = cursor.execute("PRAGMA busy_timeout").fetchall()
            cursor.execute("PRAGMA busy_timeout = 100")  # milliseconds
            self.wait("the database", done)
            cursor.execute(f"PRAGMA busy_timeout = {usual}")

    def shims(self, number: int) -> list[int]:
        """The outer (0) or inner (1) shims of live processes."""
        found = []
        for pid in self.programs():
            with suppress(OSError, IndexError):
                inner = parent_of(pid)
                found.append(inner if number else parent_of(inner))
        return found

    def some(self, pids: Iterable[int]) -> int | None:
        """Draw one; None if there is none."""
        known = sorted(pids)
        return int(self.rng.choice(known)) if known else None

    def daemon(self, name: str) -> int | None:
        """A daemon of Slurm, if it lives."""
        assert self.slurm is not None
        with suppress(OSError, ValueError):
            pid = int((self.slurm.parent / f"{name}.pid").read_text())
            if pid in below(leave=self.before):
                return pid
        return None

    def restart_daemon(self, kind: str, pid: int) -> None:
        """Start a daemon of Slurm that was killed again, with its state."""
        assert self.slurm is not None
        names = {self.slurm.parent / f"{name}.pid": name for name in ("slurmctld", *small_slurm.SERVERS)}
        [name] = [name for path, name in names.items() if path.read_text().strip() == str(pid)]
        command = ["slurmctld", "-D"] if kind == "slurmctld" else ["slurmd", "-D", "-N", name]
        environment = {"PATH": small_slurm.SYSTEM, "SLURM_CONF": str(self.slurm)}
        self.started(Child(command, log=self.directory / "slurm.log", env=environment))

    def settle(self) -> dict[str, Any]:
        """End the storm, stop everything, and look at what is left."""
        self.frozen = dict.fromkeys(self.frozen, 0.0)
        self.tick()
        assert self.posting is not None
        self.posting.result()
        self.pool.shutdown()
        Execution.objects.update(is_on=False)
        live = Generation.objects.exclude(state="ended")
        wait_until(lambda: not live.all().exists() and not self.engine.list(), what="end of all jobs", seconds=60)
        for child in (self.web, *self.executors):
            child.end()
        return self.verdict()

    def verdict(self) -> dict[str, Any]:
        """Fail if something is not as it should be; return figures."""
        assert self.programs() == {}
        rows = list(Process.objects.all())
        exits = read_exits()
        assert exits == Counter(row.key for row in rows), "expected each exit to be written once"
        for row in rows:
            folder = self.root / "ended" / row.key
            said = json.loads((folder / "exit.json").read_text()) if (folder / "exit.json").exists() else {"code": None}
            assert row.code == said["code"], f"{row.key}: expected code {said['code']}, got {row.code}"
            assert self.engine.log(row.key, 0, 10**7).count(b" begins at step ") <= 1, f"{row.key} began twice"
        # A shim that was frozen writes the end of its process when it goes on; `check` has looked at the processes.
        late = (LATE_S + LONGEST_FREEZE_S) / self.cluster.slot_seconds
        for training in Training.objects.all():
            assert_nothing_ran_elsewhere(training.bid, late=late)
        assert [finding for finding in audit_market(self.market) if finding.rows] == []
        return {
            "faults": self.faults.total(),
            "kinds": dict(sorted(self.faults.items())),
            "changes of policy": self.changes,
            "bids": Bid.objects.count(),
            "stood": Bid.objects.exclude(stands_until=None).count(),
            "trainings": Training.objects.count(),
            "generations": Generation.objects.count(),
            "endings": dict(Counter(Generation.objects.values_list("ending", flat=True))),
            "processes": len(rows),
            "most at once": self.most,
            "steps": Progress.objects.count(),
        }


def read_exits() -> Counter[str]:
    """Number of times that an exit was written, by key."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT key FROM exits")
        return Counter(key for (key,) in cursor.fetchall())


def parent_of(pid: int) -> int:
    """The parent of a process; raises OSError if it has ended."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def main(policy: str, faults: int, seed: int, slurm: str = "") -> None:
    """Let a storm pass over a new installation; print figures as a line of JSON, or fail at what should not be.

    Jobs run on this machine, or by a Slurm of its own in the directory that is given.
    """
    with adopted(), ExitStack() as stack:
        before = below()
        configuration = stack.enter_context(small_slurm.running(Path(slurm))) if slurm else None
        storm = Storm(policy, seed, configuration, stack)
        while storm.faults.total() < faults:
            storm.fault()
        storm.wait("the first step of a program", Progress.objects.exists)
        figures = storm.settle()
        stack.close()
        forks.end_all()
        left = what_is_left(before)
        watchers = left.pop("slurmstepd", 0)  # each waits for ever for a daemon that was killed
        assert not left, f"expected nothing to be left, got {dict(left)}"
        print(json.dumps({**figures, "left": left.total(), "watchers of Slurm": watchers}))


def what_is_left(before: frozenset[int]) -> Counter[str]:
    """Wait a little for what ends by itself, then end and count what is there still, by name."""
    deadline = time.monotonic() + 5
    while (left := below(leave=before) - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    names: Counter[str] = Counter()
    for pid in left:
        with suppress(OSError):
            names[Path(f"/proc/{pid}/comm").read_text().strip()] += 1
            os.kill(pid, signal.SIGKILL)
    return names
