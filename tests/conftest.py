"""What every test may need from the machine: skipped in one line where it is missing, a failure under CI=true."""

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest
from auditlog.context import disable_auditlog
from django.conf import settings
from pytest_django import DjangoDbBlocker

from cluster import operators
from cluster.database import holding
from scheduling import kernels
from studies.background import loading
from tests import collection, draws, processes, rows
from tests.traces import Traces, each

LONG = ("browser", "services", "slow", "thorough")
"""Markers of what takes long: first the one file that takes longest, then what waits for processes of its own, then
what takes a second or more; files of short tests are left for the end."""
# A machine may be busy: no test has a limit of time for a drawn example, or for drawing it.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")
Tables = Callable[[Mapping[str, str]], None]
INSTALL = "apt-get install postgresql redis-server"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests come first: one that is begun last leaves every other worker idle until it ends."""
    ranks: Counter[Path] = Counter()
    tests = Counter(item.path for item in items)
    for item in items:
        if draws.is_random(item):
            item.add_marker(draws.MARKER)
        for rank, marker in enumerate(reversed(LONG), start=1):
            if item.get_closest_marker(marker) is not None:
                ranks[item.path] = max(ranks[item.path], rank)
    items.sort(key=lambda item: (-ranks[item.path], -tests[item.path], item.path))


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over what is imported, and look less often: tests keep little for long."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect garbage once: at its end pytest does five times, each time over all that is left."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse to begin where the environment names a larger collection of test data that is not there; choose a seed."""
    collection.larger()
    config.option.hypothesis_seed = str(draws.choose_seed())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say whether the larger collection of test data was there, and which tests this machine could not run."""
    reports = [row for rows in terminalreporter.stats.values() for row in rows if isinstance(row, pytest.TestReport)]
    marked = {report.nodeid for report in reports if collection.MARKER in report.keywords}
    terminalreporter.write_line(collection.summary(len(marked)))
    terminalreporter.write_line(draws.summary())
    skipped = [report.longrepr[2] for report in reports if report.skipped and isinstance(report.longrepr, tuple)]
    for reason, count in sorted(Counter(skipped).items()):
        terminalreporter.write_line(f"Left out: {count} tests. {reason.removeprefix('Skipped: ')}")


def missing(what: str, *, install: str) -> NoReturn:
    """Skip this test, or fail it where a skip would hide that nothing was tested."""
    message = f"This machine has no {what}; install it with: {install}"
    if os.environ.get("CI") == "true":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="session", autouse=True)
def _kernels_are_loaded() -> None:
    """Mark all kernels as loaded, as in a worker that replays a record: tests have compiled them."""
    loading._loaded.update(kernels.GROUPS.values())


@pytest.fixture(scope="session", autouse=True)
def _tests_may_hold_the_lock() -> None:
    """Each test that writes runs in one transaction."""
    holding.LONGEST_S = float("inf")


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_looked_up_when_asked_for() -> None:
    """Every client of a test makes the middleware again, which otherwise begins with a look at each of them."""
    settings.WHITENOISE_AUTOREFRESH = True


@pytest.fixture(scope="session", autouse=True)
def _permissions_are_given_again_without_a_record() -> None:
    """After each test that commits, operators get their permissions again; to record that takes a query for each."""
    operators.ensure_operator_group = disable_auditlog()(operators.ensure_operator_group)


@pytest.fixture(params=each())
def traces(request: pytest.FixtureRequest) -> Traces:
    """The project's samples of public traces; then the published ones, where the larger collection is there."""
    found: Traces = request.param
    return found


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of all processes of this run of the tests."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def make_tables(shared: Path) -> Tables:
    """Give the data directory of these processes a migrated database on SQLite, without a row."""
    return partial(processes.make_tables, shared=shared)


@pytest.fixture(scope="session")
def django_db_setup(request: pytest.FixtureRequest, shared: Path) -> None:
    """The database of the tests of this process: migrated by the first process of the run, copied by the others."""
    with processes.migrating_once(shared=shared):
        request.getfixturevalue("django_db_setup")


@pytest.fixture(scope="module")
def kept_rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """What fixtures of a module write after this one is there for all its tests: each takes back only its own changes.

    Not for modules with tests that commit.
    """
    with django_db_blocker.unblock(), rows.taken_back():
        yield


@pytest.fixture(scope="module")
def postgres_server(shared: Path) -> Iterator[processes.Server]:
    """A PostgreSQL server of its own."""
    if processes.binary("initdb") is None:
        missing("PostgreSQL", install=INSTALL)
    with processes.postgres(shared=shared) as server:
        yield server


@pytest.fixture(scope="module")
def redis_server() -> Iterator[processes.Server]:
    """A Redis server of its own."""
    if processes.binary("redis-server") is None:
        missing("Redis", install=INSTALL)
    with processes.redis() as server:
        yield server


@pytest.fixture(scope="module")
def postgres_url(postgres_server: processes.Server) -> str:
    """Its empty database."""
    return postgres_server.url


@pytest.fixture
def postgres_tables(postgres_server: processes.Server) -> str:
    """A database of it for one test, with tables and without a row."""
    return processes.fresh_database(postgres_server)


@pytest.fixture(scope="module")
def redis_url(redis_server: processes.Server) -> str:
    """Its first database."""
    return redis_server.url
