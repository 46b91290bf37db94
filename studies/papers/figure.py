"""A figure of a paper: its axes, the computation of its numbers, its claim, and the judgement of that claim."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import process_time
from typing import Final, TypeVar

import numpy as np

from scheduling.model.types import Floats, Ints, Json
from studies.experiments.intervals import half_width
from studies.papers.inputs import note, noted, whole
from studies.papers.run_file import Measured, RunFile

Point = str | int | float
"""A place on the x axis: a number, or the name of a bar."""
Some = TypeVar("Some")
Where = TypeVar("Where", bound=Point)


class Scale(StrEnum):
    """The size of the runs of a figure."""

    SMALL = "small"
    """Seconds: a few jobs."""
    MIDDLE = "middle"
    """Minutes."""
    FULL = "full"
    """The paper's own numbers of jobs, servers and slots: up to hours."""


SEEDS: Final = 10
"""Workloads drawn for each point; the papers do not say how many they drew."""
RESAMPLES: Final = 1000
"""Number of bootstrap samples of the seeds that are judged to see how firm a verdict is."""


class Verdict(StrEnum):
    """Whether what a paper claims of a figure came out."""

    REPRODUCED = "reproduced"
    """Every part of the claim."""
    DIRECTION = "direction only"
    """The parts about who is ahead or what grows, at every point that the paper names; but not all about how much."""
    NOT = "not reproduced"
    UNJUDGED = "not judged"
    """The runs lack the conditions that the claim is about."""


@dataclass(frozen=True)
class Finding:
    """A verdict with the numbers it rests on, in words."""

    verdict: Verdict
    measured: str
    missing: tuple[str, ...] = ()
    """The parts of the claim that did not come out, in words."""


def found(measured: str, *, direction: Mapping[str, bool], size: Mapping[str, bool]) -> Finding:
    """The verdict on the parts of a claim, by their words; a size in the wrong direction does not count."""
    missing = tuple(part for parts in (direction, size) for part, holds in parts.items() if not holds)
    if not all(direction.values()):
        return Finding(Verdict.NOT, measured, missing)
    return Finding(Verdict.DIRECTION if missing else Verdict.REPRODUCED, measured, missing)


@dataclass(frozen=True)
class Series:
    """One line, or one colour of bars."""

    name: str
    x: tuple[Point, ...]
    samples: Floats
    """Points x seeds; finite."""

    @property
    def mean(self) -> Floats:
        """Mean over seeds, one for each point."""
        mean: Floats = self.samples.mean(axis=1)
        return mean

    @property
    def half_width(self) -> Floats | None:
        """Half the width of the 95 % interval of the mean over seeds, one for each point; None with one seed."""
        return half_width(self.samples)

    @property
    def total(self) -> float:
        """Mean over points and seeds."""
        return float(self.samples.mean())


@dataclass(frozen=True)
class Data:
    """The computed data of a figure."""

    series: tuple[Series, ...]

    def __getitem__(self, name: str) -> Series:
        """The series of that name; KeyError lists those that exist."""
        for one in self.series:
            if one.name == name:
                return one
        raise KeyError(f"no series {name!r}; there are {', '.join(one.name for one in self.series)}")

    def names(self, *without: str) -> list[str]:
        """Names of all series but these."""
        return [one.name for one in self.series if one.name not in without]

    @property
    def seeds(self) -> int:
        """Number of seeds."""
        return int(self.series[0].samples.shape[1])

    def resampled(self, seeds: Ints) -> "Data":
        """Return the series of these seeds, by their places; a seed may come several times."""
        return Data(tuple(replace(one, samples=one.samples[:, seeds]) for one in self.series))


@dataclass(frozen=True)
class Task:
    """The scale and the seeds of a figure."""

    scale: Scale = Scale.SMALL
    seeds: tuple[int, ...] = (1, 2)
    progress: Callable[[int, int], None] = field(default=lambda done, total: None, compare=False)
    """Called with the number of completed runs and the number of all runs."""
    runs: RunFile | None = field(default=None, compare=False)
    """The file in which runs are kept; None to keep none."""

    def pick(self, small: Some, middle: Some, full: Some) -> Some:
        """Return the value for this scale."""
        return {Scale.SMALL: small, Scale.MIDDLE: middle, Scale.FULL: full}[self.scale]

    def sweep(self, points: Sequence[Where], measure: Callable[[Where, int], Mapping[str, float]]) -> Data:
        """A series for each name that `measure(point, seed)` gives, over points and seeds.

        Raises
        ------
        ValueError
            If a number is not finite, or names differ from run to run.
        """
        rows: list[Mapping[str, float]] = []
        total = len(points) * len(self.seeds)
        for point in points:
            for seed in self.seeds:
                rows.append(self._measured(point, seed, measure))
                self.progress(len(rows), total)
        names = list(rows[0])
        if any(list(row) != names for row in rows):
            raise ValueError(f"expected the series {names} from every run")
        samples = np.array([[row[name] for name in names] for row in rows], dtype=np.float64)
        if not np.isfinite(samples).all():
            raise ValueError("expected finite numbers")
        shaped = samples.reshape(len(points), len(self.seeds), len(names))
        return Data(tuple(Series(name, tuple(points), shaped[:, :, i]) for i, name in enumerate(names)))

    def _measured(
        self, point: Where, seed: int, measure: Callable[[Where, int], Mapping[str, float]]
    ) -> Mapping[str, float]:
        """The numbers of one run: those of the file if they are there."""
        known = None if self.runs is None else self.runs.get(point, seed)
        if known is None:
            began = process_time()
            with noted() as digests:
                values = measure(point, seed)
            known = Measured(values, frozenset(digests), process_time() - began)
            if self.runs is not None:
                self.runs.add(point, seed, known)
        note(known.inputs)
        return known.values


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, or a table."""

    number: str
    """Number in the paper: `3`, or `II` for Table II."""
    title: str
    x: str
    y: str
    """Quantity on the y axis, with its unit."""
    claim: str
    """The paper's claim in our words, with its numbers if the text has any."""
    compute: Callable[[Task], Data]
    judge: Callable[[Data], Finding]
    bars: bool = False
    """Bars side by side; else lines."""
    timed: bool = False
    """It shows how long things took, so its numbers differ from run to run."""
    log: bool = False
    """A logarithmic y axis."""

    @property
    def name(self) -> str:
        """`Figure 3`, or `Table II`."""
        return f"{'Figure' if self.number.isdecimal() else 'Table'} {self.number}"


@dataclass(frozen=True)
class Paper:
    """A paper and all of its figures that show simulations."""

    key: str
    """Name of the paper in commands."""
    title: str
    section: str
    """Section of the paper with the simulations."""
    figures: tuple[Figure, ...]

    def figure(self, number: str) -> Figure:
        """The figure of that number; KeyError lists those that exist."""
        for one in self.figures:
            if one.number == number:
                return one
        raise KeyError(f"expected one of {', '.join(f.number for f in self.figures)} of {self.key}, got {number!r}")


@dataclass(frozen=True)
class Reproduced:
    """A figure with what was computed for it and the verdict."""

    paper: Paper
    figure: Figure
    task: Task
    data: Data
    finding: Finding
    agreement: float | None
    """Share of RESAMPLES bootstrap samples of the seeds with the same verdict; None with one seed."""
    inputs: str
    """SHA-256 of all workloads that were drawn for it."""

    def to_json(self) -> Json:
        """A document of finite numbers; but for figures that are `timed`, the same bytes for the same seeds."""
        return {
            "paper": self.paper.key,
            "figure": self.figure.number,
            "title": self.figure.title,
            "x": self.figure.x,
            "y": self.figure.y,
            "scale": str(self.task.scale),
            "seeds": list(self.task.seeds),
            "timed": self.figure.timed,
            "claim": self.figure.claim,
            "verdict": str(self.finding.verdict),
            "agreement": self.agreement,
            "inputs_sha256": self.inputs,
            "missing": list(self.finding.missing),
            "measured": self.finding.measured,
            "series": [_series_to_json(one) for one in self.data.series],
        }


def _series_to_json(one: Series) -> Json:
    half = one.half_width
    return {
        "name": one.name,
        "x": list(one.x),
        "mean": one.mean.tolist(),
        "half_width": None if half is None else half.tolist(),
        "samples": one.samples.tolist(),
    }


def reproduce(paper: Paper, figure: Figure, task: Task) -> Reproduced:
    """Compute a figure and judge it."""
    with noted() as digests:
        data = figure.compute(task)
    finding = figure.judge(data)
    agreement = _agreement(figure, data, finding.verdict)
    return Reproduced(paper, figure, task, data, finding, agreement, whole(digests))


def _agreement(figure: Figure, data: Data, verdict: Verdict) -> float | None:
    """Judge RESAMPLES bootstrap samples of the seeds; the same ones for the same number of seeds."""
    if data.seeds < 2:
        return None
    rng = np.random.default_rng(data.seeds)
    places = rng.integers(0, data.seeds, (RESAMPLES, data.seeds))
    with np.errstate(divide="ignore", invalid="ignore"):
        same = sum(figure.judge(data.resampled(row)).verdict is verdict for row in places)
    return same / RESAMPLES
