"""Step and synchronisation times of data-parallel training, measured for Pollux and shipped with Sia.

Two kinds of file: by placement (GPUs per node as digits: `44` is two nodes of four), and by number of nodes and GPUs.
"""

from collections.abc import Iterable, Iterator

from cluster.traces.cells import each, expect, positive, real, split, whole
from cluster.traces.records import LARGEST_GPUS, Malformed, StepTime
from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown

PLACEMENTS = ("placement", "local_bsz", "step_time", "sync_time")
MOST_NODES = 100
"""Largest number of nodes of a measurement, six times that of the data. Without it, a short line could ask for any."""
SCALABILITY = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")


def read(lines: Iterable[str]) -> Iterator[StepTime | Malformed]:
    """Every row as a measurement."""
    rest = iter(lines)
    columns = tuple(split(next(rest, ""), ","))
    if columns not in (PLACEMENTS, SCALABILITY):
        expected = f"{', '.join(PLACEMENTS)} or {', '.join(SCALABILITY)}"
        raise InvalidField("heading", f"expected the columns {expected}, got {', '.join(columns)[:200] or 'none'}")

    def step(line: int, cells: list[str]) -> Iterator[StepTime]:
        expect(cells, len(columns))
        placement = _digits(cells[0]) if columns == PLACEMENTS else _nodes(cells[0], cells[1])
        batch, step_s, sync_s = cells[-3:]
        measured = StepTime(
            line,
            placement,
            whole("local_bsz", batch, low=1),
            positive("step_time", step_s),
            real("sync_time", sync_s),
        )
        if measured.sync_s >= measured.step_s:
            raise InvalidField("sync_time", f"expected less than step_time = {shown(step_s)}, got {shown(sync_s)}")
        yield measured

    return each(rest, step, first=2)


def _digits(text: str) -> tuple[int, ...]:
    if not (text.isascii() and text.isdecimal()) or "0" in text or len(text) > MOST_NODES:
        raise InvalidField("placement", f"expected GPUs per node as digits above 0, got {shown(text)}")
    return tuple(int(digit) for digit in text)


def _nodes(nodes: str, replicas: str) -> tuple[int, ...]:
    count = whole("num_nodes", nodes, low=1, high=MOST_NODES)
    gpus = whole("num_replicas", replicas, low=count, high=LARGEST_GPUS)
    return tuple(gpus // count + (node < gpus % count) for node in range(count))
