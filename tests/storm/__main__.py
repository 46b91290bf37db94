"""`python -m tests.storm`: a fresh `make up`, ten minutes of bids and faults, and then a count of what is wrong.

Prints a table of the faults and the longest time until bids were decided again, then what the count finds. The exit
status is 1 if any bid was lost or decided twice, a server was over capacity, money was not conserved, an archive does
not replay, or the audit found something.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import psycopg2
import redis
from kombu.exceptions import OperationalError

from tests.processes import binary, end_on_sigterm
from tests.storm.clients import Clients
from tests.storm.faults import Faults, NotPossible
from tests.storm.installations import Installation, ask, native

LONGEST_RECOVERY_S: Final = 120.0
"""Time after a fault within which a bid must be decided."""
PASSING: Final = (
    psycopg2.Error,
    redis.RedisError,
    OperationalError,
    OSError,
    NotPossible,
    subprocess.CalledProcessError,
)
"""Errors after which a fault counts as not done: another fault was not over yet."""


@dataclass
class Storm:
    """What was done, and what was found."""

    seconds: float = 0.0
    recovered: dict[str, list[float]] = field(default_factory=dict)
    """Times from the end of each fault until a bid was decided and a client was answered, by kind, seconds."""
    missed: dict[str, int] = field(default_factory=dict)
    """Faults that were not possible, by kind."""
    problems: list[str] = field(default_factory=list)
    bids: int = 0
    refused: dict[int, int] = field(default_factory=dict)
    """Answers other than stored bids, by status; 0 if there was none."""

    @property
    def faults(self) -> int:
        """Number of faults that were done."""
        return sum(map(len, self.recovered.values()))

    def table(self) -> str:
        """Return the table of faults."""
        lines = [f"{'fault':42} {'count':>5} {'not done':>8} {'longest recovery s':>18}"]
        for kind in sorted({*self.recovered, *self.missed}):
            times = self.recovered.get(kind, [])
            longest = f"{max(times):.1f}" if times else ""
            lines.append(f"{kind:42} {len(times):>5} {self.missed.get(kind, 0):>8} {longest:>18}")
        answers = ", ".join(f"{status or 'no answer'}: {count}" for status, count in sorted(self.refused.items()))
        lines.append(f"{self.bids} bids and {self.faults} faults in {self.seconds:.0f} s")
        lines.append(f"requests that had to be sent again, by status: {answers or 'no request'}")
        return "\n".join(lines)

    def judgement(self) -> str:
        """Return what was found."""
        return "\n".join([f"{len(self.problems)} problems", *self.problems])


def order_of(faults: Faults, kinds: list[str], rng: np.random.Generator, *, is_first: bool) -> list[str]:
    """Return one round of faults, in an order that is drawn; the first round has each kind once."""
    names = [name for name in kinds for _ in range(1 if is_first else faults.kinds[name][0])]
    return [names[i] for i in rng.permutation(len(names))]


def storm(
    installation: Installation,
    *,
    seconds: float,
    seed: int,
    most: int | None = None,
    kinds: list[str] | None = None,
    policies: tuple[str, ...] = (),
    pause_s: float = 0.15,
) -> Storm:
    """Send bids and do faults for these seconds, or this number of faults; then count."""
    found, rng = Storm(), np.random.default_rng(seed)
    world = ask("prepare", *policies, env=installation.env)
    clients = Clients(installation.port, world["markets"], world["tokens"], seed=seed)
    names = [name for name, _ in world["markets"]]
    faults = Faults(installation, clients, names, world["tokens"], rng)
    began, is_first = time.monotonic(), True
    clients.start(pause_s=pause_s)
    try:
        while time.monotonic() - began < seconds and (most is None or found.faults < most):
            order, is_first = order_of(faults, kinds or list(faults.kinds), rng, is_first=is_first), False
            for kind in order:
                if time.monotonic() - began < seconds and (most is None or found.faults < most):
                    _do(kind, faults, found)
    finally:
        with suppress(psycopg2.Error):
            faults.aim.remove()
        installation.revive()
        clients.stop()
    found.seconds = time.monotonic() - began
    found.bids, found.refused = clients.answered.bids, dict(clients.answered.refused)
    print(found.table(), flush=True)
    _judge(installation, faults, found)
    print(found.judgement(), flush=True)
    return found


def _do(kind: str, faults: Faults, found: Storm) -> None:
    """Do a fault, and measure the time until a bid is decided and a client is answered."""
    try:
        faults.kinds[kind][1]()
    except PASSING:
        found.missed[kind] = found.missed.get(kind, 0) + 1
        faults.installation.revive()
        return
    keys = faults.clients.answered.keys
    ended, before, answered = time.monotonic(), -1, len(keys)
    while time.monotonic() < ended + LONGEST_RECOVERY_S:
        faults.installation.revive()  # again and again, since a killed process ends a moment later
        decided = faults.decided()
        before = decided if before < 0 else before
        if 0 <= before < decided and len(keys) > answered:
            found.recovered.setdefault(kind, []).append(time.monotonic() - ended)
            return
        time.sleep(0.02)
    found.recovered.setdefault(kind, []).append(LONGEST_RECOVERY_S)
    found.problems.append(f"no bid was decided, or no client answered, within {LONGEST_RECOVERY_S:.0f} s after: {kind}")


def _judge(installation: Installation, faults: Faults, found: Storm) -> None:
    """Wait for all decisions, and count what is wrong; also in the copy that was made during the storm."""
    answered = faults.clients.answered
    found.problems += [*faults.problems, *(f"a client got {wrong}" for wrong in answered.wrong[:20])]
    with _step("all bids are decided"):
        waiting = ask("settle", env=installation.env)
    if waiting:
        found.problems.append(f"{waiting} bids still wait")
    with _step("bids, money, archives and the audit are checked"):
        counted = verdict(installation.env, answered.keys, answered.withdrawn)
    if answered.bids != counted["bids"]:
        found.problems.append(f"{answered.bids} bids were answered, {counted['bids']} are stored")
    _add(counted, found)
    if faults.copy is not None:
        with _step("the copy is restored and checked"):
            address = _restored(installation.env["DATABASE_URL"], faults.copy)
            counted = verdict(installation.env | {"DATABASE_URL": address}, *faults.in_copy, is_copy=True)
        _add(counted, found, where="in the restored copy, ")


def _add(counted: dict[str, Any], found: Storm, *, where: str = "") -> None:
    """Add what a verdict found, and say how much it looked at."""
    print(f"  {where}{counted['bids']} bids, {counted['archives']} archives of {counted['archived']} bids", flush=True)
    for what in ("lost", "doubled", "broken"):
        found.problems += [f"{where}{what}: {text}" for text in counted[what][:20]]


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Print how long a step of the verdict takes."""
    began = time.monotonic()
    yield
    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


def verdict(
    env: dict[str, str], keys: dict[str, list[int]], withdrawn: Sequence[tuple[str, int]] = (), *, is_copy: bool = False
) -> Any:
    """Count what is wrong in an installation, given what clients were answered."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"answered": keys, "withdrawn": withdrawn}, file)
        file.flush()
        return ask("verdict", file.name, *(["copy"] if is_copy else []), env=env, seconds=3600)


def _restored(address: str, copy: Path) -> str:
    """Restore a copy beside the database; return its address."""
    connection = psycopg2.connect(address)
    connection.autocommit = True
    connection.cursor().execute("CREATE DATABASE restored")
    connection.close()
    restored = f"{address.rpartition('/')[0]}/restored"
    command = [str(binary("pg_restore")), "--no-owner", "--exit-on-error", f"--dbname={restored}", str(copy)]
    subprocess.run(command, check=True, timeout=600)
    return restored


def main(arguments: list[str]) -> int:
    """Run a storm over a fresh installation; return the exit status."""
    parser = argparse.ArgumentParser(prog="tests.storm", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.8, help="pause of each client after an answer, seconds")
    options = parser.parse_args(arguments)
    end_on_sigterm()
    with native() as installation:
        found = storm(installation, seconds=60 * options.minutes, seed=options.seed, pause_s=options.pause)
        if installation.disk is None:
            print("PostgreSQL's disk was never full: only root can give it a small one")
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
