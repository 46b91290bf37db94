"""A figure of a paper: its axes, the computation of its numbers, its claim, and the judgement of that claim."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import numpy as np

from scheduling.model.types import Floats, Json

Point = str | int | float
"""A place on the x axis: a number, or the name of a bar."""
Some = TypeVar("Some")
Where = TypeVar("Where", bound=Point)


class Scale(StrEnum):
    """The size of the runs of a figure."""

    SMALL = "small"
    """Seconds: a few jobs, two seeds."""
    MIDDLE = "middle"
    """Minutes."""
    FULL = "full"
    """The paper's own numbers of jobs, servers and slots: up to hours."""


SEEDS: Mapping[Scale, int] = {Scale.SMALL: 2, Scale.MIDDLE: 5, Scale.FULL: 5}
"""Workloads drawn for each point; the papers do not say how many they drew."""


class Verdict(StrEnum):
    """Whether what a paper claims of a figure came out."""

    REPRODUCED = "reproduced"
    """Direction and size."""
    DIRECTION = "direction only"
    """The order or the growth agrees with the claim, but not the size."""
    NOT = "not reproduced"


@dataclass(frozen=True)
class Finding:
    """A verdict with the numbers it rests on, in words."""

    verdict: Verdict
    measured: str


def found(measured: str, *, direction: bool, size: bool) -> Finding:
    """The verdict on a claim of a direction and a size; a size in the wrong direction does not count."""
    if not direction:
        return Finding(Verdict.NOT, measured)
    return Finding(Verdict.REPRODUCED if size else Verdict.DIRECTION, measured)


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


@dataclass(frozen=True)
class Task:
    """The scale and the seeds of a figure."""

    scale: Scale = Scale.SMALL
    seeds: tuple[int, ...] = (1, 2)
    progress: Callable[[int, int], None] = field(default=lambda done, total: None, compare=False)
    """Called with the number of completed runs and the number of all runs."""

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
                rows.append(measure(point, seed))
                self.progress(len(rows), total)
        names = list(rows[0])
        if any(list(row) != names for row in rows):
            raise ValueError(f"expected the series {names} from every run")
        samples = np.array([[row[name] for name in names] for row in rows], dtype=np.float64)
        if not np.isfinite(samples).all():
            raise ValueError("expected finite numbers")
        shaped = samples.reshape(len(points), len(self.seeds), len(names))
        return Data(tuple(Series(name, tuple(points), shaped[:, :, i]) for i, name in enumerate(names)))


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
            "measured": self.finding.measured,
            "series": [
                {
                    "name": one.name,
                    "x": list(one.x),
                    "mean": one.mean.tolist(),
                    "samples": one.samples.tolist(),
                }
                for one in self.data.series
            ],
        }


def reproduce(paper: Paper, figure: Figure, task: Task) -> Reproduced:
    """Compute a figure and judge it."""
    data = figure.compute(task)
    return Reproduced(paper, figure, task, data, figure.judge(data))
