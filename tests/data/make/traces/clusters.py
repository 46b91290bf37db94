"""Tiresias's jobs and clusters, PAI's machines, Helios's quotas, step times of Sia; and files of formats not read."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta

import numpy as np

from tests.data.make.traces.sample import Line, Sample, lines_of, odd, rng_of

JOBS = "Tiresias, jobs (job_id, num_gpu, submit_time, iterations, model_name, duration, interval)"
CLUSTER = "Tiresias, cluster (num_switch, num_node_p_switch, num_gpu_p_node, num_cpu_p_node, mem_p_node)"
PAI = "Alibaba PAI 2020, machines (machine, gpu_type, cap_cpu, cap_mem, cap_gpu; no heading)"
HELIOS = "Helios, GPUs of each tenant by day (date, one column for each tenant, total)"
PLACEMENTS = "Sia and Pollux, step times by placement (placement, local_bsz, step_time, sync_time)"
SCALABILITY = "Sia and Pollux, step times by nodes (num_nodes, num_replicas, local_bsz, step_time, sync_time)"
JOBS_HEADING = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
CLUSTER_HEADING = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node"
PLACEMENTS_HEADING = "placement,local_bsz,step_time,sync_time"
MACHINES = (
    ("CPU", 96, 512, 0, 5),
    ("MISC", 96, 512, 8, 18),
    ("P100", 64, 512, 2, 50),
    ("T4", 96, 512, 2, 31),
    ("V100", 96, 384, 8, 3),
    ("V100", 96, 512, 8, 4),
    ("V100M32", 96, 384, 8, 9),
)
"""GPU type, cores, GB, GPUs, and how many machines."""
TENANTS = ("vcAAA", "vcBBB", "vcCCC", "vcDDD", "vcEEE", "vcFFF", "vcGGG")
STEPS = {"bert": (4, 5.0e-2, 0.19, 1.05), "cifar10": (32, 6.0e-4, 0.022, 0.09)}
"""Smallest batch, seconds for a sample, for a mini-batch, and for the gradients of many nodes."""
PLACES = ("1", "2", "3", "4", "11", "22", "31", "44", "111", "1134", "444", "4444")


def samples() -> Iterator[Sample]:
    """Each file."""
    yield from _tiresias()
    yield from _pai()
    yield from _helios()
    for i, model in enumerate(STEPS):
        yield _placements(model, rng_of(501 + 2 * i))
        yield _scalability(model, rng_of(502 + 2 * i))
    yield _odd_steps()
    yield from _not_read()


def _tiresias() -> Iterator[Sample]:
    rng = rng_of(300)
    models = ("alexnet", "googlenet", "inception3", "inception4", "resnet50", "resnet101", "vgg11", "vgg16", "vgg19")
    rows, at_s = [], 0
    for i in range(60):
        gpus = int(rng.choice((1, 2, 4, 8), p=(0.5, 0.2, 0.15, 0.15)))
        duration_s, step_s = 120 + int(rng.exponential(60)), float(rng.uniform(0.05, 1.0))
        interval_s = int(rng.integers(20, 45))
        rows.append((i, gpus, at_s, max(1, round(duration_s / step_s)), models[int(rng.integers(len(models)))],
                     duration_s, interval_s))  # fmt: skip
        at_s += interval_s
    gpus_of = Counter(row[1] for row in rows)
    facts = {
        "gpu_seconds": sum(row[1] * row[5] for row in rows),
        "steps": sum(row[1] * row[3] for row in rows),
        "jobs_of_gpus": {str(count): gpus_of[count] for count in sorted(gpus_of)},
        "last_submitted_s": rows[-1][2],
    }
    lines = [JOBS_HEADING, *(",".join(map(str, row)) for row in rows)]
    about = "60 jobs of a few minutes, one about every half minute; iterations are counted on each GPU"
    yield Sample("tiresias/jobs.csv", JOBS, about, "tiresias", lines_of(lines), len(rows), (), facts)
    yield odd(
        "tiresias/odd.csv",
        JOBS,
        "tiresias",
        heading=JOBS_HEADING,
        lines=[
            Line("0,1,0,600,vgg19,160,30", "", "an ordinary row"),
            Line("0,2,30,300,vgg11,140,23", "job_id", "another job of the same number"),
            Line(" 0,2,30,300,vgg11,140,23", "job_id", "the same number after a blank"),
            Line("1,0,53,100,vgg11,120,23", "num_gpu", "a job on no GPU"),
            Line("2,4,53,0,vgg11,120,23", "iterations", "a job that was cancelled before its first iteration"),
            Line("3,4,53,100,vgg11,0,23", "duration", "a run time of 0"),
            Line("4,4,,100,vgg11,120,23", "submit_time", "a job that was never submitted"),
            Line("5,4,53,100,,120,23", "", "a job of no model"),
            Line("6,4,20,100,vgg11,120,", "", "an arrival before that of the row above, and no interval"),
        ],
        gpu_seconds=160 + 480 + 480,
        steps=600 + 400 + 400,
    )
    yield Sample("tiresias/n8g4.csv", CLUSTER, "8 nodes of 4 GPUs behind one switch", "tiresias_cluster",
                 lines_of([CLUSTER_HEADING, "1,8,4,64,256"]), 1, (), {"machines": 8, "gpus": 32})  # fmt: skip
    yield odd(
        "tiresias/mixed.csv",
        CLUSTER,
        "tiresias_cluster",
        heading=CLUSTER_HEADING,
        lines=[
            Line("2,3,8,96,512", "", "six nodes behind two switches"),
            Line("1,2,0,64,256", "", "nodes without a GPU"),
            Line("0,2,4,64,256", "num_switch", "nodes behind no switch"),
            Line("1,2,4,0,256", "num_cpu_p_node", "nodes without a core"),
            Line("1,2,4,64,", "mem_p_node", "no memory"),
        ],
        machines=8,
        gpus=48,
    )


def _pai() -> Iterator[Sample]:
    rng = rng_of(400)
    rows = [(kind, cpus, memory, gpus) for kind, cpus, memory, gpus, count in MACHINES for _ in range(count)]
    names = [f"synthetic{i:015x}" for i in rng.permutation(10**6)[: len(rows)].tolist()]
    lines = [",".join((name, *map(str, row))) for name, row in zip(names, rows, strict=True)]
    facts = {
        "gpus": sum(row[3] for row in rows),
        "gpus_of_types": {kind: sum(row[3] for row in rows if row[0] == kind) for kind in sorted({r[0] for r in rows})},
        "machines_of_types": dict(sorted(Counter(row[0] for row in rows).items())),
        "machines": len(rows),
    }
    about = "120 machines of five GPU types, two of which differ in memory only, and five without a GPU"
    yield Sample("pai2020/machine_spec.csv", PAI, about, "pai", lines_of(lines), len(rows), (), facts)
    yield odd(
        "pai2020/odd_machine_spec.csv",
        PAI,
        "pai",
        lines=[
            Line("machine-1,V100,96,512,8", "", "an ordinary row"),
            Line("machine-1,T4,96,512,2", "machine", "another machine of the same name"),
            Line("machine-2,CPU,96,512,0", "", "a machine without a GPU"),
            Line("machine-3,CPU,96,512,8", "cap_gpu", "GPUs of a machine that has none"),
            Line("machine-4,T4,96,512,0", "cap_gpu", "no GPU of a type of GPU"),
            Line("machine-5,,96,512,2", "gpu_type", "no type"),
            Line("machine-6,T4,96.0,512.0,2.0", "", "counts as decimal numbers"),
            Line("machine-7,T4,96,512.5,2", "cap_mem", "half a GB"),
            Line("machine-8,T4,,512,2", "cap_cpu", "no number of cores"),
            Line("machine-9,T4,96,512", "line", "a cell too few"),
        ],
        machines=3,
        gpus=10,
    )


def _helios() -> Iterator[Sample]:
    rng, heading = rng_of(450), ",".join(("date", *TENANTS, "total"))
    gpus = [int(8 * n) for n in rng.integers(0, 14, len(TENANTS))]
    gpus[1] = 0
    first, rows = date(2020, 4, 1), []
    for day in range(60):
        if day % 7 == 3:
            gpus[int(rng.integers(2, len(TENANTS)))] = int(8 * rng.integers(0, 14))
        rows.append(((first + timedelta(days=day)).isoformat(), list(gpus)))
    lines = [heading, *(",".join((day, *map(str, row), str(sum(row)))) for day, row in rows)]
    facts = {
        "days": len(rows),
        "gpu_days": sum(sum(row) for _, row in rows),
        "gpu_days_of_tenants": {name: sum(row[i] for _, row in rows) for i, name in enumerate(TENANTS)},
        "last_day": rows[-1][0],
        "gpus_of_last_day": sum(rows[-1][1]),
    }
    about = "60 days of seven tenants, one of which has no GPU on any day; about once a week a quota changes"
    records = len(rows) * len(TENANTS)
    yield Sample("helios/gpu_number.csv", HELIOS, about, "helios", lines_of(lines), records, (), facts)
    odd_lines = [
        Line("2020-04-01,8,0,8", "", "a tenant with no GPU that day"),
        Line("2020-04-03,8,8,16", "", "a day is missing before this one"),
        Line("2020-04-03,8,8,16", "date", "the same day again"),
        Line("2020-04-04,8,8,8", "total", "a total that is not the sum"),
        Line("2020-04-31,8,8,16", "date", "a day that no month has"),
        Line("2020-05-01,8,,8", "vcBBB", "no number for a tenant"),
        Line("2020-05-02,8,-8,0", "vcBBB", "fewer GPUs than none"),
        Line("2020-05-03,0,0,0", "", "a day on which nobody has a GPU"),
        Line("2020-05-04,8,8", "line", "a cell too few"),
    ]
    heading = "date,vcAAA,vcBBB,total"
    made = odd("helios/odd_gpu_number.csv", HELIOS, "helios", heading=heading, lines=odd_lines, gpu_days=24)
    yield replace(made, records=2 * made.records)


def _placements(model: str, rng: np.random.Generator) -> Sample:
    rows = [(place, *times) for place in PLACES for times in _steps(model, len(place), sum(map(int, place)), rng)]
    about = "from one GPU to four nodes of four, among them nodes with unequal numbers of GPUs; six batch sizes each"
    lines = [PLACEMENTS_HEADING, *(",".join(map(str, row)) for row in rows)]
    facts = {"gpus": sorted({sum(map(int, place)) for place in PLACES})}
    return Sample(
        f"sia/step_times/{model}/placements.csv", PLACEMENTS, about, "sia", lines_of(lines), len(rows), (), facts
    )


def _scalability(model: str, rng: np.random.Generator) -> Sample:
    places = ((1, 4), (2, 8), (3, 8), (6, 6), (8, 8), (16, 16), (16, 64))
    rows = [(nodes, gpus, *times) for nodes, gpus in places for times in _steps(model, nodes, gpus, rng)]
    about = "up to 16 nodes, one of whose numbers does not divide the GPUs; six batch sizes each"
    lines = ["num_nodes,num_replicas,local_bsz,step_time,sync_time", *(",".join(map(str, row)) for row in rows)]
    facts = {"gpus": sorted({gpus for _, gpus in places})}
    return Sample(
        f"sia/step_times/{model}/scalability.csv", SCALABILITY, about, "sia", lines_of(lines), len(rows), (), facts
    )


def _steps(model: str, nodes: int, gpus: int, rng: np.random.Generator) -> Iterator[tuple[int, float, float]]:
    """Batch, step and, within it, synchronisation: hardly any on one GPU, more on several nodes."""
    smallest, sample_s, base_s, sync_s = STEPS[model]
    for i in range(6):
        batch = round(smallest * 1.4142**i)
        sync = sync_s * (0.01 if gpus == 1 else 0.1 if nodes == 1 else 1 - 0.8 / nodes) * float(rng.uniform(0.95, 1.05))
        compute = (base_s + sample_s * batch) * float(rng.uniform(0.95, 1.05))
        yield batch, round(compute + sync, 9), round(sync, 9)


def _odd_steps() -> Sample:
    return odd(
        "sia/step_times/odd/placements.csv",
        PLACEMENTS,
        "sia",
        heading=PLACEMENTS_HEADING,
        lines=[
            Line("44,4,1.5,0.5", "", "an ordinary row: two nodes of four GPUs"),
            Line("44,4,1.7,0.6", "", "the same configuration measured a second time"),
            Line("1,4,1.5,0", "", "no synchronisation on one GPU"),
            Line("44,4,0.5,0.5", "sync_time", "a step that is synchronisation only"),
            Line("44,4,0,0", "step_time", "a step that takes no time"),
            Line("404,4,1.5,0.5", "placement", "a node without a GPU"),
            Line("44,0,1.5,0.5", "local_bsz", "a batch of no sample"),
            Line("44,4,1.5,", "sync_time", "no synchronisation time"),
            Line("44,4,nan,nan", "step_time", "a measurement that failed"),
        ],
        gpus=[1, 8],
    )


def _not_read() -> Iterator[Sample]:
    """Files that come with these traces and say nothing that a workload needs."""
    rng = rng_of(600)
    at = datetime.fromisoformat("2020-05-01")
    lines = ["time,total_job_num,running_job_num,pending_job_num,total_gpu_num,running_gpu_num"]
    for minute in range(30):
        running, pending = int(rng.integers(5, 15)), int(rng.integers(0, 5))
        lines.append(f"{at + timedelta(minutes=minute)},{running + pending},{running},{pending},64,{4 * running}")
    about = "numbers of jobs and GPUs of one tenant, minute by minute"
    yield Sample("helios/cluster_sequence.csv", "Helios, minutes of a tenant", about, "", lines_of(lines))
    lines = [",worker,gpu,time,batch_time_norm"]
    lines += [f"{10 * step + w},{w},25,{step + 1},{int(rng.integers(430, 900 if w == 6 else 520))}"
              for step in range(10) for w in range(10)]  # fmt: skip
    about = "normalised times of mini-batches of ten workers, the seventh of which is slow"
    yield Sample("pai2020/batch_times.csv", "Alibaba PAI 2020, mini-batch times", about, "", lines_of(lines))
    tables = {
        "job": "synthetic-job-1,inst-1,user-1,Terminated,100.0,700.0",
        "task": "synthetic-job-1,worker,2,Failed,100.0,700.0,600.0,29.3,50.0,T4",
    }
    for name, row in tables.items():
        about = f"a row of the table of {name}s: no heading, other cells than those of machines"
        yield Sample(f"pai2020/{name}_table.csv", f"Alibaba PAI 2020, {name}s", about, "", lines_of([row]))
    lines = ["duration", *map(str, sorted(120 + int(rng.exponential(3000)) for _ in range(60)))]
    about = "GPU times, sorted, with CRLF at the ends of lines"
    yield Sample(
        "tiresias/gpu_times.csv", "Tiresias, distribution of GPU times", about, "", lines_of(lines, end="\r\n")
    )
