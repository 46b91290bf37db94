"""Every engine under test, and a count of what is left behind."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from execution.engines.base import Engine
from execution.engines.local import PYTHON, LocalEngine
from tests.conftest import missing
from tests.execution.benches import LIVES, Bench
from tests.execution.leftovers import adopted

SERVERS = ("edge-0", "edge-1", "edge-2")
NO_NAMESPACES = ("setpriv", "--inh-caps=-sys_admin", "--bounding-set=-sys_admin")
"""Even root may not make a namespace then: shims work as without root."""


def local(root: Path) -> Engine:
    """The engine `local` on this machine."""
    return LocalEngine(root, SERVERS)


def without_namespaces(root: Path) -> Engine:
    """The engine `local` where the kernel gives no namespace."""
    if shutil.which(NO_NAMESPACES[0]) is None:
        missing("setpriv", install="apt-get install util-linux")
    return LocalEngine(root, SERVERS, python=(*NO_NAMESPACES, *PYTHON))


ENGINES = {"local": local, "without namespaces": without_namespaces}


@pytest.fixture(params=ENGINES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """An engine; afterwards nothing of its processes may be left."""
    work = tmp_path / "work"
    work.mkdir()
    with adopted():
        bench = Bench(ENGINES[request.param], tmp_path / "an engine", work)
        try:
            yield bench
        finally:
            for key, seen in bench.engine.list().items():
                if seen.phase in LIVES:
                    bench.engine.kill(key)
            bench.assert_nothing_is_left()
