"""Tiresias's simulator: its jobs (drawn, not recorded) and its clusters."""

from collections.abc import Iterable, Iterator

from cluster.traces.cells import each, expect, heading, once, positive, real, whole
from cluster.traces.records import LARGEST_GPUS, LARGEST_STEPS, Machine, Malformed, TraceJob

JOB_COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval")
CLUSTER_COLUMNS = ("num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node")


def read(lines: Iterable[str]) -> Iterator[TraceJob | Malformed]:
    """Yield every row as a job; no job occurs twice. `duration` is that of `iterations` on all its GPUs."""
    rest = iter(lines)
    heading(rest, JOB_COLUMNS)
    seen: dict[str, int] = {}

    def job(line: int, cells: list[str]) -> Iterator[TraceJob]:
        row = _job(line, cells)
        once("job_id", cells[0].strip(), seen, line)
        yield row

    return each(rest, job, first=2)


def read_cluster(lines: Iterable[str]) -> Iterator[Machine | Malformed]:
    """Return every row as a number of equal nodes."""
    rest = iter(lines)
    heading(rest, CLUSTER_COLUMNS)
    return each(rest, _machine, first=2)


def _job(line: int, cells: list[str]) -> TraceJob:
    expect(cells, len(JOB_COLUMNS))
    return TraceJob(
        line,
        real("submit_time", cells[2]),
        whole("num_gpu", cells[1], low=1, high=LARGEST_GPUS),
        duration_s=positive("duration", cells[5]),
        model=cells[4],
        # An iteration is a mini-batch on each GPU.
        steps=whole("iterations", cells[3], low=1, high=LARGEST_STEPS) * int(float(cells[1])),
    )


def _machine(line: int, cells: list[str]) -> Iterator[Machine]:
    expect(cells, len(CLUSTER_COLUMNS))
    switches, nodes, gpus, cpus, memory = (
        whole(column, cell, low=0 if column == "num_gpu_p_node" else 1, high=10**6)
        for column, cell in zip(CLUSTER_COLUMNS, cells, strict=True)
    )
    yield Machine(line, f"node-{line}", "", cpus=cpus, memory_gb=memory, gpus=gpus, count=switches * nodes)
