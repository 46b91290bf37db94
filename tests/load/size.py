"""`python -m tests.load.size`: a market of many bids: bytes a bid, its audit, and the first decision of a new process.

The market is made in this process, in a database of its own, of SQLite or with `--postgres` of PostgreSQL: bids are
submitted and decided as by a worker, 200 in a slot, under DPS. With `--live` all bids are worth admitting and come in
one slot, so that all their jobs are live. With `--archive` its past is archived up to the last slots, measured and
audited again. With `--at 1000 100000` one market grows to each of these numbers of bids, which owners send in bulk, and
at each of them single bids, requests of operators and bidders, and pages are measured, too.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

from tests.load.world import CLIENTS, TYPES, World
from tests.processes import end_on_sigterm, fresh_database, postgres, run_python

BIDS_A_SLOT: Final = 200
BATCH: Final = 50
SLOT_S: Final = 3600.0
SHOWN: Final = 8
"""Number of tables of which the bytes are shown."""
KEPT_SLOTS: Final = 2
COUNTED: Final = ("auctions_", "cluster_textsample")
SIZES: Final = {
    "sqlite": "SELECT tbl_name, pgsize FROM dbstat JOIN sqlite_master USING (name)",
    "postgresql": "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r'",
}
"""Queries for names of tables and bytes; pages that are half full count whole."""
ROUNDS: Final = 10
"""Number of measurements of each thing; a bid is decided before each, so that nothing is remembered."""
API: Final = "/api/v1/clusters/load"
READINGS: Final = {
    "summary": (f"{API}/summary", True),
    "summary, bidder": (f"{API}/summary", False),
    "prices": (f"{API}/prices", False),
    "bids": (f"{API}/bids", True),
    "bids, bidder": (f"{API}/bids", False),
    "waiting bids": (f"{API}/bids?state=submitted", True),
    "page of bids": ("/markets/load/bids/", True),
    "page of bids, bidder": ("/markets/load/bids/", False),
    "overview": ("/markets/load/", True),
    "overview, bidder": ("/markets/load/", False),
    "welfare chart": ("/markets/load/figures/welfare.json", True),
}
"""Addresses, and whether an operator asks."""
ALONE: Final = ("-F", "-c", "max_parallel_workers_per_gather=0")
"""Options of PostgreSQL with which the process of a connection does all work for it."""
FIRST_DECISION: Final = "from tests.load import size; size.decide_first()"


def main() -> None:
    """Make the market, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.size", description=__doc__)
    parser.add_argument("--bids", type=int, default=10_000)
    parser.add_argument("--servers", type=int, default=50)
    parser.add_argument("--live", action="store_true", help="all bids are worth admitting and come in one slot")
    parser.add_argument("--postgres", action="store_true", help="in PostgreSQL")
    parser.add_argument("--archive", action="store_true", help="archive the past afterwards")
    parser.add_argument("--at", type=int, nargs="+", metavar="BIDS", help="compare one market of these numbers of bids")
    asked = parser.parse_args()
    end_on_sigterm()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ["SHADOWPRICE_VAR"] = folder
        os.environ["DATABASE_URL"] = f"sqlite:///{folder}/market.sqlite3"
        if asked.postgres:
            server = stack.enter_context(postgres(shared=Path(folder), options=ALONE if asked.at else ALONE[:1]))
            os.environ["DATABASE_URL"] = fresh_database(server)
        _start()
        measured = (
            _grown(asked.at, asked.servers) if asked.at else _measured(asked.bids, asked.servers, live=asked.live)
        )
        for line in measured:
            print(line, flush=True)
        for line in _archived(asked.bids) if asked.archive else ():
            print(line, flush=True)


def decide_first() -> None:
    """Decide the bid that waits, in a new process that loads kernels first, as workers do; print what it takes."""
    began = perf_counter()
    _start()
    from auctions.engine import decision_queue
    from auctions.kernels import warming
    from auctions.models import Market

    warming.compile_here(warming.groups_of_open_markets())
    ready, used = perf_counter(), process_time()
    market = Market.objects.get()
    if decision_queue.process_pending(market.pk) != 1:
        sys.exit("expected one waiting bid")
    took, used = perf_counter() - ready, process_time() - used
    print(f"{took:.2f} s, {used:.2f} s of the processor, after a start of {ready - began:.2f} s", end="")


def _start() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()


def _measured(bids: int, servers: int, *, live: bool) -> Iterator[str]:
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    used = process_time()
    market, submit = _market(servers, live=live)
    _fill(market, submit, bids, slots=not live)
    yield f"{bids:,} bids on {servers} servers: {1000 * (process_time() - used) / bids:.1f} ms of the processor each"
    yield _states()
    yield _bytes(bids)
    submit(bids)
    yield "first decision of a new process: " + run_python("-c", FIRST_DECISION, env=dict(os.environ))
    yield _audited()


def _states() -> str:
    from auctions.models import Bid

    found = Counter(Bid.objects.values_list("state", flat=True))
    return "states: " + ", ".join(f"{n} {state}" for state, n in found.most_common())


def _audited() -> str:
    from django.core.management import call_command

    began, used = perf_counter(), process_time()
    call_command("audit", stdout=StringIO())
    return f"audit: {perf_counter() - began:.1f} s, {process_time() - used:.1f} s of the processor"


def _archived(bids: int) -> Iterator[str]:
    """Archive all but the last slots, and measure."""
    from auctions.history.sealing import Before, archive
    from auctions.models import Bid, Market, Seal

    market, used = Market.objects.get(), process_time()
    while archive(market, Before(slot=market.slot - KEPT_SLOTS)):
        pass
    gone = Bid.objects.filter(seal__isnull=False).count()
    size = sum(Seal.objects.values_list("file_bytes", flat=True))
    yield (
        f"{gone:,} bids archived in {Seal.objects.count()} archives of {size / max(1, gone):.0f} bytes a bid,"
        f" {1000 * (process_time() - used) / max(1, gone):.1f} ms of the processor each"
    )
    yield _bytes(bids)
    yield _audited()


@dataclass(frozen=True)
class _Used:
    """Processor time, seconds: of this process, and of the database's process for this connection."""

    here: float
    database: float

    @classmethod
    def now(cls) -> "_Used":
        from django.db import connection

        if connection.vendor != "postgresql":
            return cls(process_time(), 0.0)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (number,) = cursor.fetchone()
        numbers = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return cls(process_time(), (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK"))


def _grown(counts: Sequence[int], servers: int) -> Iterator[str]:
    """Let a market grow, and measure it at each of these numbers of bids."""
    from django.core.management import call_command
    from django.db import connection

    from auctions.kernels import warming

    call_command("migrate", verbosity=0)
    market, submit = _market(servers, live=False)
    warming.compile_here(warming.groups_of_open_markets())
    bids = 0
    for count in sorted(counts):
        used, before = _Used.now(), bids
        while bids < count:
            bids = _slot_in_bulk(market, bids)
        yield f"{bids:,} bids: {_each(used, _Used.now(), bids - before)} each, sent in bulk and decided, with slots"
        yield _states()
        yield _bytes(bids)
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE")
        for name, times in _of_single_bids(market, submit, bids):
            yield f"  {name}: {times}"
        submit(bids)
        yield "first decision of a new process: " + run_python("-c", FIRST_DECISION, env=dict(os.environ))
        yield _audited()
        bids = market.__class__.objects.get(pk=market.pk).submitted


def _slot_in_bulk(market: Any, bids: int) -> int:
    """Let each owner send bids in one request, decide them and begin the next slot; return the number of bids."""
    from django.contrib.auth.models import User

    from auctions.engine import decision_queue
    from auctions.engine.slots import pass_slots
    from auctions.engine.submission import submit_bids
    from cluster.clock import set_clock

    world, each = World(["load"], [""] * CLIENTS), BIDS_A_SLOT // CLIENTS
    for user in User.objects.filter(username__startswith="client-").order_by("pk"):
        bodies = [world.body(number, "run") for number in range(bids, bids + each)]
        submit_bids(cluster=market.cluster, owner=user, bodies=bodies)
        bids += each
    decision_queue.process_pending(market.pk)
    set_clock(market.cluster, at_s=(market.cluster.clock_offset_s // SLOT_S + 1) * SLOT_S)
    pass_slots(market.pk)
    return bids


def _each(before: _Used, after: _Used, number: int) -> str:
    here, database = ((getattr(after, name) - getattr(before, name)) * 1000 / number for name in ("here", "database"))
    return f"{here:.2f} ms + {database:.2f} ms of the database"


def _of_single_bids(market: Any, submit: Any, first: int) -> Iterator[tuple[str, str]]:
    """Yield what is measured beside the bids of a market, and its times; `first` is the number of the next bid."""
    from django.contrib.auth.models import User
    from django.test import Client

    from auctions.engine import decision_queue

    numbers = iter(range(first, sys.maxsize))
    operator, _ = User.objects.get_or_create(username="operator", is_superuser=True)
    clients = {True: Client(headers={"host": "localhost"}), False: Client(headers={"host": "localhost"})}
    clients[True].force_login(operator)
    clients[False].force_login(User.objects.get(username="client-1"))

    def decide_one() -> None:
        submit(next(numbers))
        decision_queue.process_pending(market.pk)

    def ask(path: str, by_operator: bool) -> None:
        answer = clients[by_operator].get(path)
        if answer.status_code != 200:
            sys.exit(f"{path}: {answer.status_code}")

    def quote() -> None:
        body = json.dumps(World(["load"], [""] * CLIENTS).body(next(numbers), "quote"))
        answer = clients[False].post(f"{API}/quotes", body, content_type="application/json")
        if answer.status_code != 200:
            sys.exit(f"quotes: {answer.status_code}")

    yield "submission", _mean(lambda: submit(next(numbers)))
    yield "decision, in a batch", _mean(lambda: decision_queue.process_pending(market.pk), rounds=1, each=ROUNDS)
    yield "submission and decision", _mean(decide_one)
    yield "quote", _mean(quote, before=decide_one)
    for name, (path, by_operator) in READINGS.items():
        ask(path, by_operator)  # imports, templates
        yield name, _mean(partial(ask, path, by_operator), before=decide_one)


def _mean(
    measured: Callable[[], object], *, before: Callable[[], None] | None = None, rounds: int = ROUNDS, each: int = 1
) -> str:
    """Return the mean times of some rounds, each of which does this number of things."""
    here = database = 0.0
    for _ in range(rounds):
        if before is not None:
            before()
        began = _Used.now()
        measured()
        ended = _Used.now()
        here, database = here + ended.here - began.here, database + ended.database - began.database
    return _each(_Used(0.0, 0.0), _Used(here, database), rounds * each)


def _market(servers: int, *, live: bool) -> tuple[Any, Any]:
    import numpy as np
    from django.contrib.auth.models import User

    from auctions.engine.markets import open_market
    from auctions.engine.submission import submit_bid
    from cluster.clock import set_clock
    from cluster.documents import import_cluster
    from demo.clusters.edge_cloud import edge_cloud_document

    rng, clock = np.random.default_rng(0), {"clock": {"kind": "virtual", "speed": 1.0}}
    cluster = import_cluster(edge_cloud_document(rng, name="load", edge_servers=servers - 1, types=TYPES) | clock)
    set_clock(cluster, at_s=0.0, running=False)
    market = open_market(cluster, policy="dps")
    users = [User.objects.create(username=f"client-{i + 1}") for i in range(CLIENTS)]
    world = World([cluster.name], [""] * CLIENTS)

    def submit(number: int) -> None:
        body = world.body(number, "run")
        if live:
            body |= {"epochs": 1, "utility": {"form": "step", "value": 1e6, "deadline_s": 140 * SLOT_S}}
        submit_bid(cluster=cluster, owner=users[number % CLIENTS], body=body)

    return market, submit


def _fill(market: Any, submit: Any, bids: int, *, slots: bool) -> None:
    from auctions.engine import decision_queue
    from auctions.engine.slots import pass_slots
    from cluster.clock import set_clock

    for number in range(bids):
        submit(number)
        if (number + 1) % BATCH == 0:
            decision_queue.process_pending(market.pk)
            if slots:
                set_clock(market.cluster, at_s=(number + 1) * SLOT_S / BIDS_A_SLOT)
                pass_slots(market.pk)
    decision_queue.process_pending(market.pk)


def _bytes(bids: int) -> str:
    """Return the bytes a bid of the tables of the market with their indexes, as they are and after a vacuum."""
    from django.db import connection

    words = []
    full = "VACUUM FULL" if connection.vendor == "postgresql" else "VACUUM"
    for vacuum in ("", full):
        with connection.cursor() as cursor:
            if vacuum:
                cursor.execute(vacuum)
            cursor.execute(SIZES[connection.vendor])
            sizes: Counter[str] = Counter()
            for name, size in cursor.fetchall():
                sizes[name] += size
        found = {name: size / bids for name, size in sizes.most_common() if name.startswith(COUNTED)}
        words.append(f"{sum(found.values()):,.0f} bytes a bid{f' after {vacuum}' if vacuum else ''}")
    tables = (f"{size:.0f} {name.removeprefix('auctions_')}" for name, size in list(found.items())[:SHOWN])
    return f"{', '.join(words)}: {', '.join(tables)}"


if __name__ == "__main__":
    main()
