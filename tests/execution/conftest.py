"""Every engine under test, and a count of what is left behind."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from execution.engines import small_slurm
from execution.engines.base import Engine
from execution.engines.local import PYTHON, LocalEngine
from execution.engines.slurm import SlurmEngine
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


ENGINES = {"local": local, "without namespaces": without_namespaces, "slurm": None}


@pytest.fixture(scope="session")
def slurm_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The `slurm.conf` of a Slurm of three servers, which is up."""
    lacks = small_slurm.lacking()
    if lacks:
        missing(f"Slurm ({lacks})", install=f"{small_slurm.INSTALL}, as root")
    with small_slurm.running(tmp_path_factory.mktemp("slurm")) as configuration:
        yield configuration


@pytest.fixture(params=ENGINES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """An engine; afterwards nothing of its processes may be left."""
    make = ENGINES[request.param]
    if make is None:
        configuration = request.getfixturevalue("slurm_configuration")
        make = partial(SlurmEngine, configuration=configuration)
    # Not below pytest's directory: another user may not enter it.
    with TemporaryDirectory(prefix="shadowprice-engine-") as base, adopted():
        Path(base).chmod(0o755)
        work = Path(base) / "work"
        work.mkdir()
        bench = Bench(make, Path(base) / "an engine", work)
        try:
            yield bench
        finally:
            for key, seen in bench.engine.list().items():
                if seen.phase in LIVES:
                    bench.engine.kill(key)
            bench.assert_nothing_is_left()
