"""Readings are of one version, whatever is committed between two of their queries.

On databases of their own, each with a connection that reads and one that writes.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from io import StringIO
from itertools import count, cycle
from pathlib import Path
from typing import Any

import dj_database_url
import numpy as np
import pytest
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import DatabaseError, connections, transaction
from django.db.utils import load_backend
from django.test import Client
from pytest_django import DjangoDbBlocker

from auctions.domain.bid_conversion import policy_in_force
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.markets import open_market
from auctions.engine.policies import change_policy
from auctions.engine.slots import pass_slots
from auctions.engine.submission import quote, submit_bid
from auctions.models import Bid, BidState, Market
from auctions.readings import market_readings, sums
from auctions.state import book
from auctions.state.market_snapshot import _snapshots, market_snapshot, one_version
from cluster.database import limits
from cluster.guards import checked_change
from cluster.models import Capacity
from cluster.read_transaction import read_transaction
from frontend.views.charts import charts_of
from scheduling.model.types import Json
from tests import processes
from tests.auctions.worlds import SLOT_S, body, make_cluster, make_operator, make_user, set_time
from tests.conftest import Tables
from tests.draws import some

pytestmark = pytest.mark.thorough

POLICIES: dict[str, tuple[str, tuple[Json, Json]]] = {
    "an auction": ("dps", ({"refit_every": 2}, {"refit_every": 3})),
    "a plan": ("weighted_completion", ({}, {"lambda": 8.0})),
    "queues": ("preemptive", ({}, {"cloud": "edge"})),
}
AT_ONCE = 6
"""Readers who come at once."""
DRAWN = 3
"""Readings of each kind of market that an ordinary run disturbs; a soak disturbs all of them."""
MEMORIES = ("of this process", "of another process", "empty")
"""Processes whose decisions disturb a reading: the reader's memory knows of them, or not."""


class Databases:
    """Two connections to one database: the reader's, and the writer's for what is done `as_another`."""

    def __init__(self, settings: dict[str, Any]) -> None:
        settings = {**connections["default"].settings_dict, **settings}
        kind = load_backend(settings["ENGINE"]).DatabaseWrapper
        self._connect = partial(kind, settings, "default")
        self.reader, self.writer = self._connect(), self._connect()

    def another_reader(self) -> Any:
        """A connection for another thread."""
        return self._connect()

    @contextmanager
    def in_use(self) -> Iterator["Databases"]:
        """Let this thread use the reader's connection.

        Content types are kept per process, and those of another database may have other ids.
        """
        before = connections["default"]
        connections["default"] = self.reader
        ContentType.objects.clear_cache()
        try:
            yield self
        finally:
            connections["default"] = before
            ContentType.objects.clear_cache()
            self.reader.close()
            self.writer.close()

    @contextmanager
    def as_another(self, *, process: bool = False) -> Iterator[None]:
        """Use the writer's connection; as another process also with other books."""
        with ExitStack() as stack:
            connections["default"] = self.writer
            stack.callback(connections.__setitem__, "default", self.reader)
            stack.callback(_snapshots.reset, _snapshots.set(None))
            for name in ("_books", "_shelves") if process else ():
                stack.callback(setattr, book, name, getattr(book, name))
                setattr(book, name, {})
            yield

    @contextmanager
    def disturbed(self, step: Callable[[], None], *, before_query: int) -> Iterator[list[str]]:
        """Take a step before the query of this number; yields what is a list of one once it was taken."""
        queries, taken = count(), []

        def run(execute: Any, sql: str, *arguments: Any) -> Any:
            is_query = sql.startswith("SELECT")
            if is_query and next(queries) == before_query:
                taken.append(sql)
                step()
            return execute(sql, *arguments)

        with self.reader.execute_wrapper(run):
            yield taken


@pytest.fixture
def sqlite(tmp_path: Path, make_tables: Tables, django_db_blocker: DjangoDbBlocker) -> Iterator[Databases]:
    """A database in a file."""
    make_tables({"SHADOWPRICE_VAR": str(tmp_path)})
    with django_db_blocker.unblock(), Databases({"NAME": str(tmp_path / processes.DATABASE)}).in_use() as found:
        yield found


@pytest.fixture
def postgres(postgres_tables: str, django_db_blocker: DjangoDbBlocker) -> Iterator[Databases]:
    """A database on a server."""
    settings = {"OPTIONS": {}, **dj_database_url.parse(postgres_tables)}
    with django_db_blocker.unblock(), Databases(settings).in_use() as found:
        yield found


@dataclass
class World:
    """A market with a past and a future, what may happen to it, and what is read of it."""

    market: Market
    alice: User
    parameters: tuple[Json, Json]

    @classmethod
    def of(cls, kind: str) -> "World":
        """Some jobs run, some are planned, some are complete. Made once on SQLite, then copied; no process knows it."""
        connection = connections["default"]
        if connection.vendor != "sqlite":
            return cls._made(kind)
        if kind not in _worlds:
            cls._made(kind)
            _worlds[kind] = sqlite3.connect(":memory:")
            connection.connection.backup(_worlds[kind])
        else:
            connection.ensure_connection()
            _worlds[kind].backup(connection.connection)
        book.forget()
        sums.forget()
        market = Market.objects.select_related("cluster").get()
        return cls(market, User.objects.get(username="alice"), POLICIES[kind][1])

    @classmethod
    def _made(cls, kind: str) -> "World":
        policy, parameters = POLICIES[kind]
        market = open_market(make_cluster("lab", units=4, horizon=12), policy=policy, parameters=parameters[0])
        world = cls(market, make_operator("alice"), parameters)
        for i in range(12):
            world.decide()
            if i % 3 == 2:
                world.slot()
        return world

    def steps(self) -> Iterator[Callable[[], None]]:
        """What happens next, for ever."""
        parameters = cycle(self.parameters[::-1])
        while True:
            yield self.decide
            yield self.slot
            yield self.time
            yield self.decide
            yield self.cancel
            yield self.withdraw
            yield self.slot
            yield lambda: self.choose(next(parameters))
            yield self.more_units

    def decide(self) -> None:
        """A bid comes and is decided; later ones are worth less."""
        submit_bid(cluster=self.market.cluster, owner=self.alice, body=self.offer())
        decision_queue.process_pending(self.market.pk)

    def offer(self) -> Json:
        """A bid that says its worth as the policy asks."""
        number = Bid.objects.count()
        value, epochs = 5.0 + 40.0 * (number % 7), 1 + number % 4
        sent = body(value, epochs=epochs)
        if self.market.policies.latest("number").name != "dps":
            del sent["utility"]
            sent["weight"] = value
        return sent

    def slot(self) -> None:
        """A slot begins and is processed."""
        self.time()
        pass_slots(self.market.pk)

    def time(self) -> None:
        """A slot begins; rows do not know of it yet."""
        self.market.cluster.refresh_from_db()
        set_time(self.market, self.market.cluster.clock_offset_s + SLOT_S)

    def cancel(self) -> None:
        """A job is cancelled."""
        going = Bid.objects.filter(state__in=(BidState.PLANNED, BidState.RUNNING))
        pass_slots(self.market.pk)
        while not going.exists():
            self.decide()
        cancel_job(going.latest("sequence"))

    def withdraw(self) -> None:
        """A bid comes and is withdrawn."""
        withdraw_bid(submit_bid(cluster=self.market.cluster, owner=self.alice, body=self.offer()).bid)

    def choose(self, parameters: Json) -> None:
        """The policy decides by other parameters."""
        change_policy(self.market, name=self.market.policies.latest("number").name, parameters=parameters, by=None)

    def more_units(self) -> None:
        """A server has one unit more."""
        with checked_change(self.market.cluster):
            row = Capacity.objects.filter(server__cluster=self.market.cluster).order_by("amount", "pk")[0]
            Capacity.objects.filter(pk=row.pk).update(amount=row.amount + 1)

    def readings(self) -> dict[str, Callable[[], Any]]:
        """What is read, by name."""
        market, client, bid = self.market, Client(), Bid.objects.order_by("sequence")[0]
        client.force_login(self.alice)
        charts = charts_of(policy_in_force(market.cluster))
        of_pages = ["/tiles.json", "/figures/schedule.json", *(f"/figures/{chart}.csv" for chart in charts)]
        api = f"/api/v1/clusters/{market.cluster.name}"
        addresses = [f"/markets/{market.cluster.name}{page}" for page in of_pages]
        addresses += [f"{api}{part}" for part in ("/summary", "/utilisation", "/bids/1/schedule")]
        return {
            "summary": lambda: market_readings.summary(market),
            "prices": lambda: market_readings.prices(market, start=-100, end=1000),
            "utilisation": lambda: market_readings.utilisation(market, start=-100, end=1000),
            "flow": lambda: market_readings.flow(market),
            "bars": lambda: market_readings.bars(market, start=-100, end=1000, viewer=self.alice),
            "machines": lambda: market_readings.machines(bid),
            "quote": lambda: quote(market=market, body=self.offer_quoted()).decision,
            **{address: partial(_answer, client, address) for address in addresses},
        }

    def offer_quoted(self) -> Json:
        """Return the same bid in every state; its value is stated as the policy requires."""
        sent = body(60.0, epochs=2)
        if self.market.policies.all()[0].name != "dps":
            del sent["utility"]
            sent["weight"] = 60.0
        return sent


_worlds: dict[str, sqlite3.Connection] = {}
"""Databases in memory with a world of each kind as it begins."""


def _answer(client: Client, address: str) -> tuple[int, bytes, str]:
    answer = client.get(address)
    return answer.status_code, answer.content, answer.headers.get("ETag", "")


def plain(found: Any) -> Any:
    """A reading as numbers and lists that can be compared, without the time by the wall's clock."""
    if isinstance(found, np.ndarray):
        return found.tolist()
    if isinstance(found, (tuple, list)):
        return [plain(one) for one in found]
    if hasattr(found, "__dataclass_fields__"):
        return {name: plain(value) for name, value in vars(found).items() if name != "read_at"}
    return found


def assert_of_one_version(databases: Databases, kind: str, memory: str) -> None:
    """Disturb readings before each of their queries, each time by what happens next: a third with each memory."""
    world, process = World.of(kind), memory == "of another process"
    steps, readings = world.steps(), world.readings()
    for _, name in some([(kind, name) for name in readings], DRAWN)[MEMORIES.index(memory) :: len(MEMORIES)]:
        read = readings[name]
        before = plain(read())
        for number in count():
            if memory == "empty":
                book.forget()
            step = next(steps)

            def happen(step: Callable[[], None] = step) -> None:
                with databases.as_another(process=process):
                    step()

            with databases.disturbed(happen, before_query=number) as taken:
                found = plain(read())
            after = plain(read())
            book.forget()
            rebuilt = plain(read())
            assert after == rebuilt, f"{name}: what was caught up with is not what rows say, after {step}"
            assert found in (before, after), f"{name}: mixed versions, with {step} before query {number}: {taken}"
            if not taken:
                break
            before = rebuilt
        assert number > 0, f"{name} asks nothing"


@pytest.mark.soak
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("kind", POLICIES)
def test_a_reading_is_of_one_version_whatever_is_committed_between_its_queries(
    sqlite: Databases, kind: str, memory: str
) -> None:
    assert_of_one_version(sqlite, kind, memory)


@pytest.mark.soak
@pytest.mark.services
def test_a_reading_on_postgres_is_of_one_version(postgres: Databases) -> None:
    assert_of_one_version(postgres, "queues", "of another process")


def test_an_audit_finds_nothing_in_a_market_that_decides_meanwhile(sqlite: Databases) -> None:
    world = World.of("an auction")

    def go_on() -> None:
        with sqlite.as_another():
            world.decide()
            world.slot()

    for number in range(4, 60, 11):
        with sqlite.disturbed(go_on, before_query=number) as taken:
            call_command("audit", "--market", "lab", stdout=StringIO())
        assert taken


@pytest.mark.services
def test_an_audit_on_postgres_finds_nothing_in_a_market_that_decides_meanwhile(postgres: Databases) -> None:
    world = World.of("an auction")

    def go_on() -> None:
        with postgres.as_another():
            world.decide()
            world.slot()

    with postgres.disturbed(go_on, before_query=20) as taken:
        call_command("audit", "--market", "lab", stdout=StringIO())
    assert taken


def test_a_reader_takes_no_lock_and_sees_nothing_new(sqlite: Databases) -> None:
    world = World.of("an auction")
    with one_version():
        before = market_snapshot(world.market).market.version
        with sqlite.as_another():
            world.decide()
        assert Market.objects.get().version == before
    assert Market.objects.get().version > before


def test_nothing_can_be_written_in_a_read_transaction(sqlite: Databases) -> None:
    make_user("alice")
    with pytest.raises(DatabaseError, match="readonly"), read_transaction():
        User.objects.update(username="bob")
    User.objects.update(username="carol")
    assert User.objects.get().username == "carol"


def test_transactions_that_write_take_the_lock_at_once_after_a_reader_was_there(
    sqlite: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    with read_transaction():
        assert not User.objects.exists()
    with transaction.atomic(), sqlite.as_another():
        monkeypatch.setattr(limits, "current", lambda: limits.Limits(lock=0.1))
        with pytest.raises(DatabaseError, match="locked"), transaction.atomic():
            pass


def test_a_reading_within_a_transaction_that_may_have_written_is_a_mistake(sqlite: Databases) -> None:
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic(), one_version():
        pass


def test_a_snapshot_needs_a_version(sqlite: Databases) -> None:
    market = World.of("an auction").market
    with pytest.raises(RuntimeError, match="one_version"):
        market_snapshot(market)


def test_no_reading_after_a_decision_of_another_process_reads_all_jobs_again(
    sqlite: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World.of("an auction")
    market_readings.summary(world.market)
    with sqlite.as_another(process=True):
        for _ in range(3):
            world.decide()
        world.slot()
    monkeypatch.setattr(book, "rebuild", _fail)
    for _ in range(2):
        for read in world.readings().values():
            read()


def test_many_waiting_bids_do_not_make_a_reader_read_all_jobs_again(
    sqlite: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World.of("an auction")
    market_readings.summary(world.market)
    with sqlite.as_another(process=True):
        for _ in range(2 * book.CATCH_UP_EVENTS):
            submit_bid(cluster=world.market.cluster, owner=world.alice, body=world.offer())
        decision_queue.decide_batch(world.market.pk, at_most=1)
    monkeypatch.setattr(book, "rebuild", _fail)
    assert market_readings.summary(world.market).undecided == 2 * book.CATCH_UP_EVENTS - 1


def test_a_reading_while_a_bid_is_decided_needs_no_new_book(sqlite: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.of("an auction")
    known = market_readings.summary(world.market)
    world.market.refresh_from_db()
    book.checkout(world.market, now=world.market.now)  # as a worker does that has the lock
    monkeypatch.setattr(book, "rebuild", _fail)
    assert plain(market_readings.summary(world.market)) == plain(known)


@pytest.mark.parametrize("known", [True, False])
def test_readers_who_come_at_once_make_one_book(
    sqlite: Databases, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    world, made = World.of("an auction"), []
    if known:
        market_readings.summary(world.market)
    with sqlite.as_another(process=True):
        world.decide()
    name = "_catch_up" if known else "rebuild"
    make = getattr(book, name)

    def slowly(*arguments: Any, **keywords: Any) -> Any:
        made.append(threading.current_thread().name)
        time.sleep(0.3)  # long enough for all the others to come
        return make(*arguments, **keywords)

    monkeypatch.setattr(book, name, slowly)
    if not known:
        book.forget()
    found = read_at_once(sqlite, lambda: market_readings.summary(world.market))
    assert len(made) == 1
    assert all(plain(one) == plain(found[0]) for one in found)


@pytest.mark.parametrize("failures", [0, 1])
def test_readers_who_come_at_once_read_all_bids_once_and_again_only_if_that_fails(
    sqlite: Databases, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    world, begun = World.of("an auction"), list[Market]()
    read = sums._decisions._read

    def slowly(market: Market) -> Any:
        begun.append(market)
        fails = len(begun) <= failures
        time.sleep(0.3)  # long enough for all the others to come
        if fails:
            raise DatabaseError("busy")
        return read(market)

    monkeypatch.setattr(sums._decisions, "_read", slowly)
    sums.forget()
    found = read_at_once(sqlite, lambda: market_readings.welfare(world.market))
    assert len(begun) == failures + 1
    assert sum(isinstance(one, DatabaseError) for one in found) == failures
    values = [plain(one) for one in found if not isinstance(one, DatabaseError)]
    assert all(one == values[0] for one in values)


def read_at_once(sqlite: Databases, read: Callable[[], Any]) -> list[Any]:
    """What each of some threads reads, which begin together, or its error."""
    together, found = threading.Barrier(AT_ONCE), list[Any]()

    def run() -> None:
        connections["default"] = sqlite.another_reader()
        together.wait()
        try:
            found.append(read())
        except DatabaseError as error:
            found.append(error)
        connections["default"].close()

    threads = [threading.Thread(target=run) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == AT_ONCE
    return found


def _fail(*_arguments: Any, **_keywords: Any) -> Any:
    raise AssertionError("all jobs were read again")
