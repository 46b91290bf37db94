"""The file of the cells that are complete, from which an interrupted run goes on."""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from signal import SIG_DFL, SIGINT, signal

from benchmarks.market_on_traces.cells import Cell, Place, cells_of, read_cell
from benchmarks.market_on_traces.contenders import Contender
from benchmarks.market_on_traces.workloads import Source
from cluster.memory import pass_over_what_is_loaded
from scheduling.kernels import warm_up_all
from scheduling.model.types import Json

Key = tuple[Place, str, str, str]


class Results:
    """Cells by place, policy and settings, one JSON document a line; a line that was not completed is dropped.

    A cell whose policy has other settings by now, or whose trace has other bytes, is computed again.
    """

    def __init__(self, path: Path) -> None:
        """Read the cells of an earlier run, if any."""
        self.path = path
        self._known: dict[Key, Cell] = {}
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        if len(whole) < len(lines):
            path.write_text("".join(whole), encoding="utf-8")
        for line in whole:
            self._take(read_cell(line))

    def get(self, place: Place, sha256: str, contender: Contender) -> Cell | None:
        """Return the cell; None if it was not computed with these settings."""
        return self._known.get((place, sha256, contender.name, _text(contender.to_json())))

    def add(self, cell: Cell) -> None:
        """Append a cell."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(cell.to_json(), allow_nan=False) + "\n")
        self._take(cell)

    def _take(self, cell: Cell) -> None:
        self._known[cell.place, cell.sha256, cell.contender, _text(cell.settings)] = cell


def make_ready() -> None:
    """Load kernels, and exclude what is loaded from garbage collection, as servers and workers do."""
    warm_up_all()
    pass_over_what_is_loaded()


def _make_worker_ready() -> None:
    """Make a process of a pool ready. Ctrl-C ends it at once; otherwise it would go on with the next workload."""
    signal(SIGINT, SIG_DFL)
    make_ready()


def run(
    sources: Sequence[Source],
    places: Iterable[Place],
    contenders: Sequence[Contender],
    results: Results,
    *,
    processes: int,
) -> Iterator[tuple[Place, int]]:
    """Compute the cells that are not known; yield each place that is complete, with its number of new cells."""
    by_name = {source.name: source for source in sources}
    todo = []
    for place in places:
        source = by_name[place.trace]
        missing = [one for one in contenders if results.get(place, source.sha256, one) is None]
        if missing:
            todo.append((source, place, missing))
    if processes == 1:
        for source, place, missing in todo:
            yield place, _keep(results, cells_of(source, place, missing))
        return
    with ProcessPoolExecutor(processes, initializer=_make_worker_ready) as pool:
        waiting = {pool.submit(_listed, *one): one[1] for one in todo}
        for done in as_completed(waiting):
            yield waiting[done], _keep(results, done.result())


def _listed(source: Source, place: Place, contenders: list[Contender]) -> list[Cell]:
    return list(cells_of(source, place, contenders))


def _keep(results: Results, cells: Iterable[Cell]) -> int:
    found = list(cells)
    for cell in found:
        results.add(cell)
    return len(found)


def _text(settings: Json) -> str:
    return json.dumps(settings, sort_keys=True)
