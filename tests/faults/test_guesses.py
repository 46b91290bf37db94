"""Guesses of passwords at a real server: where they seem to come from, and many at once."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from django.conf import settings

from tests.conftest import Tables
from tests.faults.installation import shell, start_web
from tests.processes import DATABASE, free_port, python_env

pytestmark = [pytest.mark.slow, pytest.mark.clocked]

OF_BOTH = settings.LOGIN_LIMITS[0][1]
PASSWORD = "correct horse"
MAKE_USER = f"from django.contrib.auth.models import User; User.objects.create_user('alice', password='{PASSWORD}')"
HERE = "127.0.0.1"


@dataclass
class Served:
    """A server and its data."""

    base: str
    var: Path

    def guess(self, password: str, *, forwarded: str = "") -> int:
        """Ask for a token; the status of the answer."""
        headers = {"X-Forwarded-For": forwarded} if forwarded else {}
        body = {"username": "alice", "password": password}
        with requests.Session() as session:
            session.trust_env = False
            return session.post(f"{self.base}/api/v1/token", json=body, headers=headers, timeout=60).status_code

    def failures(self) -> dict[str, int]:
        """What is stored, by address."""
        with closing(sqlite3.connect(self.var / DATABASE)) as database:
            rows = database.execute("SELECT ip_address, sum(failures_since_start) FROM axes_accessattempt GROUP BY 1")
            return dict(rows.fetchall())


Serve = Callable[..., AbstractContextManager[Served]]


@pytest.fixture
def serve(tmp_path: Path, make_tables: Tables) -> Serve:
    """Start a server that knows Alice. It hashes passwords as every installation does: guesses take their time."""

    @contextmanager
    def run(**extra: str) -> Iterator[Served]:
        env, port = python_env(tmp_path, DJANGO_SETTINGS_MODULE="config.settings", **extra), free_port()
        make_tables(env)
        shell(MAKE_USER, env)
        process = start_web(port, env, tmp_path / "serve.log")
        try:
            yield Served(f"http://{HERE}:{port}", tmp_path)
        finally:
            process.end()

    return run


def test_a_forged_address_changes_nothing_and_of_many_guesses_at_once_few_are_checked(
    serve: Serve,
) -> None:
    with serve(FORWARDED_ALLOW_IPS="*") as served:
        with ThreadPoolExecutor(12) as pool:
            found = list(pool.map(lambda i: served.guess(str(i), forwarded=f"203.0.113.{i}"), range(12)))
        counts = Counter(found)
        assert set(counts) <= {400, 429, 503}, found
        assert counts[400] <= OF_BOTH - 1, found
        assert served.failures() == {HERE: OF_BOTH}
        assert served.guess(PASSWORD, forwarded="198.51.100.7") == 429


def test_a_trusted_proxy_says_where_a_guess_comes_from(serve: Serve) -> None:
    with serve(SHADOWPRICE_PROXIES=f"{HERE}, 10.0.0.0/8") as served:
        found = [served.guess("a guess", forwarded="198.51.100.9, 203.0.113.1, 10.1.2.3") for _ in range(OF_BOTH)]
        assert found == [400] * (OF_BOTH - 1) + [429]
        assert served.failures() == {"203.0.113.1": OF_BOTH}
        assert served.guess(PASSWORD, forwarded="203.0.113.1") == 429
        assert served.guess(PASSWORD, forwarded="203.0.113.2") == 200
