"""Gavel: measured throughputs, jobs as run on a physical cluster, jobs as drawn from Philly; and Shockwave's jobs."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tests.data.make.traces.sample import Line, Sample, lines_of, odd, rng_of

PHYSICAL = "Gavel, jobs of the physical cluster (10 cells, tabs)"
DRAWN = "Gavel, jobs with arrivals and sizes of Philly (7 cells, tabs)"
THROUGHPUTS = "Gavel, throughputs by GPU type (JSON)"
SHOCKWAVE = "Shockwave, jobs (12 cells, tabs)"


@dataclass(frozen=True)
class Model:
    """What a line says of a model, and how many mini-batches of the smallest batch a V100 trains in a second."""

    name: str
    batches: tuple[int, ...]
    """None for a model that has no batch size in its name."""
    per_s: float
    folder: str
    steps: str
    command: str

    def title(self, batch: int) -> str:
        """As lines and tables name it."""
        return f"{self.name} (batch size {batch})" if batch else self.name


MODELS = (
    Model("ResNet-18", (16, 32, 64, 128, 256), 30.0, "image_classification/cifar10", "--num_steps",
          "python3 main.py --data_dir=%s/cifar10 --batch_size {batch}"),
    Model("ResNet-50", (16, 32, 64, 128), 12.0, "image_classification/imagenet", "--num_minibatches",
          "python3 main.py -j 4 -a resnet50 -b {batch} %s/imagenet/"),
    Model("Transformer", (16, 32, 64, 128, 256), 11.0, "translation", "-step",
          "python3 train.py -data %s/translation/multi30k.atok.low.pt -batch_size {batch} -proj_share_weight"),
    Model("LM", (5, 10, 20, 40, 80), 110.0, "language_modeling", "--steps",
          "python main.py --cuda --data %s/wikitext2 --batch_size {batch}"),
    Model("Recommendation", (512, 1024, 2048, 4096, 8192), 250.0, "recommendation", "-n",
          "python3 train.py --data_dir %s/ml-20m/pro_sg/ --batch_size {batch}"),
    Model("A3C", (0,), 7.5, "rl", "--max-steps",
          "python3 main.py --env PongDeterministic-v4 --workers 4 --amsgrad True"),
    Model("CycleGAN", (0,), 4.7, "cyclegan", "--n_steps",
          "python3 cyclegan.py --dataset_path %s/monet2photo --decay_epoch 0"),
)  # fmt: skip
SPEED = {"k80": 0.2, "p100": 0.6, "v100": 1.0}
"""Speed of a GPU type, relative to a V100."""
SCALES = (1, 2, 4, 8)
ALONE = ("Recommendation", "A3C", "CycleGAN")
"""Models that were measured on one GPU only."""
TOO_LARGE = ("k80", "ResNet-50", 128)
"""Does not fit the memory: its throughput is 0."""
MODES = ("static", "accordion", "gns")


@dataclass(frozen=True)
class Row:
    """A job."""

    model: Model
    batch: int
    steps: int
    gpus: int
    arrival_s: int
    duration_s: int = 0
    mode: str = ""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Title, command, folder and name of the option for steps."""
        command = self.model.command.format(batch=self.batch)
        return self.model.title(self.batch), command, self.model.folder, self.model.steps

    @property
    def physical(self) -> str:
        """As Gavel's physical cluster ran it."""
        return "\t".join((*self.cells, "1", str(self.steps), str(self.gpus), "1", "-1.000000", str(self.arrival_s)))

    @property
    def drawn(self) -> str:
        """As Gavel drew it from Philly's sizes."""
        title, command, folder, option = self.cells
        command = f"cd %s/gpusched/workloads/pytorch/{folder} && {command.replace('%s', '%s/data')}"
        return "\t".join((title, command, option, "1", str(self.steps), f"{self.arrival_s:.6f}", str(self.gpus)))

    @property
    def shockwave(self) -> str:
        """As Shockwave's traces have it."""
        size = ("1", str(self.steps), str(self.gpus), self.mode, "1", "-1.000000")
        return "\t".join((*self.cells, *size, str(self.duration_s), str(self.arrival_s)))


def samples() -> Iterator[Sample]:
    """Each file."""
    yield _throughputs()
    few = _rows(rng_of(201), 15, apart_s=0.0, hours=0.3)
    yield _jobs("gavel/few.trace", PHYSICAL, "15 jobs, all submitted at once", few, [row.physical for row in few])
    steady = _rows(rng_of(202), 80, apart_s=480.0, hours=2.0)
    steady = [row if i >= 20 else _at(row, 0) for i, row in enumerate(steady)]
    about = "80 jobs, the first 20 at once, then as a Poisson process"
    yield _jobs("gavel/steady.trace", PHYSICAL, about, steady, [row.physical for row in steady])
    drawn = _rows(rng_of(203), 120, apart_s=40_000.0, hours=20.0)
    about = "120 jobs over two months on up to 8 GPUs, some of which take weeks"
    yield _jobs("gavel/drawn.trace", DRAWN, about, drawn, [row.drawn for row in drawn])
    dynamic = _rows(rng_of(204), 60, apart_s=90.0, hours=1.0)
    about = "60 jobs whose batch size stays or changes in one of two ways; arrivals as a Poisson process"
    yield _jobs("shockwave/dynamic.trace", SHOCKWAVE, about, dynamic, [row.shockwave for row in dynamic])
    yield _odd_gavel()
    yield _odd_shockwave()


def per_s(gpu: str, model: Model, batch: int, gpus: int) -> float:
    """Mini-batches a second, before what a measurement adds: fewer for larger batches, less than twice on two GPUs."""
    smallest = model.batches[0]
    grown = (batch / smallest) ** -0.7 if batch else 1.0
    apart = 0.7 if "_" in gpu and gpus > 1 else 1.0
    rate: float = SPEED[gpu.partition("_")[0]] * model.per_s * grown * apart * gpus**0.8
    return rate


def _throughputs() -> Sample:
    rng = rng_of(200)
    table: dict[str, dict[str, dict[str, float | list[float]]]] = {}
    for gpu in (*SPEED, *(f"{name}_unconsolidated" for name in SPEED)):
        rows = table[gpu] = {}
        for gpus in SCALES:
            for model in MODELS:
                if gpus == 1 or model.name not in ALONE:
                    _measure(rows, gpu, model, gpus, rng)
    # One GPU type was measured for fewer models than the others.
    for model in MODELS[1:2]:
        for batch in model.batches:
            del table["k80_unconsolidated"][str((model.title(batch), 8))]
    zeros = sum(row["null"] == 0 for rows in table.values() for row in rows.values())
    facts = {
        "entries_of_gpu_types": {gpu: len(rows) for gpu, rows in table.items()},
        "zeros": zeros,
        "alone": {
            gpu: {key: row["null"] for key, row in rows.items() if key.startswith("('ResNet-18")}
            for gpu, rows in table.items()
        },
    }
    about = (
        "six tables of GPU types, in three of which workers are on several servers; throughputs alone and beside"
        " another job; 0 for a batch that does not fit the memory; one table has fewer entries than the others"
    )
    records = sum(len(rows) for rows in table.values())
    content = json.dumps(table, indent=4).encode()
    return Sample("gavel/throughputs.json", THROUGHPUTS, about, "gavel_throughputs", content, records, (), facts)


def _measure(
    rows: dict[str, dict[str, float | list[float]]], gpu: str, model: Model, gpus: int, rng: np.random.Generator
) -> None:
    for batch in model.batches:
        if (gpu.partition("_")[0], model.name, batch) == TOO_LARGE:
            rows[str((model.title(batch), gpus))] = {"null": 0.0}
            continue
        rate = _noisy(per_s(gpu, model, batch, gpus), rng)
        beside = str((MODELS[0].title(16), gpus))
        rows[str((model.title(batch), gpus))] = {"null": rate, beside: [_noisy(0.55 * rate, rng), _noisy(2.0, rng)]}


def _noisy(rate: float, rng: np.random.Generator) -> float:
    """Four digits after the point: more would be those of the machine's logarithm."""
    return round(rate * float(rng.uniform(0.95, 1.05)), 4)


def _rows(rng: np.random.Generator, count: int, *, apart_s: float, hours: float) -> list[Row]:
    """Jobs that take so many hours in the mean, and come with so many seconds between two of them in the mean."""
    rows, arrival_s = [], 0.0
    for _ in range(count):
        model = MODELS[int(rng.choice(len(MODELS), p=(0.25, 0.15, 0.25, 0.2, 0.1, 0.03, 0.02)))]
        batch = model.batches[int(rng.integers(len(model.batches)))]
        gpus = 1 if model.name in ALONE else int(rng.choice(SCALES, p=(0.6, 0.2, 0.15, 0.05)))
        duration_s = max(60.0, float(rng.exponential(hours * 3600)))
        steps = max(1, round(duration_s * per_s("v100", model, batch, gpus)))
        mode = "static" if not batch else MODES[int(rng.integers(3))]
        rows.append(Row(model, batch, steps, gpus, int(arrival_s), round(duration_s), mode))
        arrival_s += float(rng.exponential(apart_s))
    return rows


def _at(row: Row, arrival_s: int) -> Row:
    return Row(row.model, row.batch, row.steps, row.gpus, arrival_s, row.duration_s, row.mode)


def _jobs(path: str, imitates: str, about: str, rows: Sequence[Row], lines: Sequence[str]) -> Sample:
    gpus = Counter(row.gpus for row in rows)
    facts: dict[str, object] = {
        "steps": sum(row.steps for row in rows),
        "jobs_of_gpus": {str(count): gpus[count] for count in sorted(gpus)},
        "models": len({row.model.title(row.batch) for row in rows}),
        "last_submitted_s": max(row.arrival_s for row in rows),
    }
    format_ = "shockwave" if imitates is SHOCKWAVE else "gavel"
    if format_ == "shockwave":
        facts["gpu_seconds"] = sum(row.gpus * row.duration_s for row in rows)
        facts["jobs_of_modes"] = dict(sorted(Counter(row.mode for row in rows).items()))
    return Sample(path, imitates, about, format_, lines_of(lines), len(rows), (), facts)


def _odd_gavel() -> Sample:
    good = Row(MODELS[0], 16, 1000, 4, 60)

    def cells(at: int, text: str) -> str:
        row = good.physical.split("\t")
        return "\t".join([*row[:at], text, *row[at + 1 :]])

    return odd(
        "gavel/odd.trace",
        PHYSICAL,
        "gavel",
        lines=[
            Line(good.physical, "", "an ordinary line of 10 cells"),
            Line(good.drawn, "", "a line of 7 cells in the same file"),
            Line(good.physical, "", "the same line again, which is another job"),
            Line(cells(6, "0"), "scale_factor", "a job on no GPU"),
            Line(cells(5, "0"), "total_steps", "a job without a step"),
            Line(cells(5, "1e6"), "", "steps with an exponent"),
            Line(cells(7, "2.5"), "", "a priority weight other than 1"),
            Line(cells(7, "0"), "priority_weight", "a priority weight of 0"),
            Line(cells(8, "1.2"), "", "a deadline of 1.2 run times"),
            Line(cells(8, "-2"), "SLO", "a deadline below -1, which stands for none"),
            Line(cells(9, "-60"), "arrival_time", "an arrival before the beginning"),
            Line(cells(0, ""), "job_type", "a job of no model"),
            Line(cells(0, "GPT-2 (batch size 4)"), "", "a model that no table of throughputs has"),
            Line(good.physical.replace("\t", " "), "line", "blanks for tabs"),
            Line(good.shockwave, "line", "a line of 12 cells, of another format"),
        ],
        steps=1000 * 3 + 10**6 + 1000 * 3,
    )


def _odd_shockwave() -> Sample:
    good = Row(MODELS[3], 10, 134_000, 2, 55, 1418, "gns")

    def cells(at: int, text: str) -> str:
        row = good.shockwave.split("\t")
        return "\t".join([*row[:at], text, *row[at + 1 :]])

    return odd(
        "shockwave/odd.trace",
        SHOCKWAVE,
        "shockwave",
        lines=[
            Line(good.shockwave, "", "an ordinary line"),
            Line(cells(7, "pollux"), "mode", "a way to change the batch size that is not known"),
            Line(cells(10, "0"), "duration", "a run time of 0"),
            Line(cells(10, "0.5"), "", "a run time of half a second"),
            Line(cells(6, "2.0"), "", "GPUs as a decimal number"),
            Line(cells(6, ""), "scale_factor", "no number of GPUs"),
            Line(cells(9, "3"), "", "a deadline of three run times"),
            Line(good.physical, "line", "a line of Gavel's"),
            Line("", "line", "an empty line"),
        ],
        gpu_seconds=2 * 1418 * 3 + 1,
    )
