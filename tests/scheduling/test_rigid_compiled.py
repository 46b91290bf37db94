"""What is compiled, when, and that machine code never outlives its source."""

import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import scheduling
from scheduling.best_response.rigid import bounds as rigid_bounds
from scheduling.best_response.rigid import compiled as rigid_compiled
from scheduling.best_response.rigid import job as rigid_job
from scheduling.best_response.rigid import placement as rigid_placement
from scheduling.best_response.rigid import search as rigid_search
from scheduling.best_response.rigid import tables as rigid_tables
from scheduling.best_response.rigid.kernel import warm_up
from scheduling.policies.dps import Dps
from tests.scheduling.worlds import Run, world

ENTRIES = (
    "changed_cells",
    "fill_hosted",
    "price_all",
    "price_some",
    "refresh_all",
    "refresh_cheapest",
    "refresh_ps",
    "refresh_some",
    "round_all",
    "round_some",
    "search",
)
MODULES = (rigid_bounds, rigid_compiled, rigid_job, rigid_placement, rigid_search, rigid_tables)
SMALL = """
from scheduling.best_response.rigid.compiled import borrowing, kernel

@borrowing
def answer():
    return {answer}
"""
CALLER = """
from scheduling.best_response.rigid.compiled import kernel
from scheduling.best_response.rigid.small import answer

@kernel
def ask():
    return answer()

print(ask(), sum(ask.stats.cache_hits.values()))
"""


def compiled() -> dict[str, int]:
    """Return the number of times that each kernel was compiled or loaded, by name."""
    functions = {name: f for module in MODULES for name, f in vars(module).items() if hasattr(f, "signatures")}
    return {name: len(f.signatures) for name, f in functions.items()}


def compiled_by_warming_up_and_by_deciding() -> tuple[dict[str, int], dict[str, int]]:
    warm_up()
    before = compiled()
    for seed in range(20):
        drawn = world(seed, servers=12)
        going = Run(drawn.ledger(), Dps(refit_every=2), [])
        for bid in drawn.bids:
            going.decide(bid)
            going.ledger.advance(going.ledger.start + seed % 2)
    return before, compiled()


@pytest.mark.thorough
def test_warming_up_leaves_nothing_to_compile() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        before, after = fresh.submit(compiled_by_warming_up_and_by_deciding).result()
    assert min(before[name] for name in ENTRIES) == 1
    assert after == before


def run(root: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "scheduling.best_response.rigid.caller"],
        cwd=root,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.slow
def test_machine_code_is_kept_and_made_again_when_any_rigid_module_changes(tmp_path: Path) -> None:
    package = tmp_path / "scheduling/best_response/rigid"
    source = Path(scheduling.__file__).parent
    shutil.copytree(source, tmp_path / "scheduling", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "caller.py").write_text(CALLER)
    (package / "small.py").write_text(SMALL.format(answer=1))
    assert run(tmp_path) == ["1", "0"]
    assert run(tmp_path) == ["1", "1"]
    (package / "small.py").write_text(SMALL.format(answer=2))
    assert run(tmp_path) == ["2", "0"]
