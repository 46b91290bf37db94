"""Machines of Alibaba's PAI trace of 2020 (`pai_machine_spec.csv`, which has no heading)."""

from collections.abc import Iterable, Iterator

from cluster.traces.cells import each, expect, once, whole
from cluster.traces.records import Machine, Malformed
from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown

COLUMNS = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")


def read(lines: Iterable[str]) -> Iterator[Machine | Malformed]:
    """Every row as one machine: cores, GB, GPUs; none stands twice."""
    seen: dict[str, int] = {}

    def machine(line: int, cells: list[str]) -> Iterator[Machine]:
        row = _machine(line, cells)
        once("machine", row.name, seen, line)
        yield row

    return each(lines, machine, first=1)


def _machine(line: int, cells: list[str]) -> Machine:
    expect(cells, len(COLUMNS))
    for column, cell in zip(COLUMNS[:2], cells, strict=False):
        if not cell.strip():
            raise InvalidField(column, f"expected a name, got {shown(cell)}")
    cpus, memory, gpus = (whole(column, cell, high=10**6) for column, cell in zip(COLUMNS[2:], cells[2:], strict=True))
    if (cells[1] == "CPU") != (gpus == 0):
        raise InvalidField(
            "cap_gpu", f"expected GPUs exactly where gpu_type is not CPU, got {gpus} of {shown(cells[1])}"
        )
    return Machine(line, cells[0], cells[1], cpus=cpus, memory_gb=memory, gpus=gpus)
