"""The loss of a training by its steps, one line for each generation."""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.figures.base import (
    BLUE,
    VERMILION,
    Drawing,
    Json,
    Table,
    axis,
    curve,
    nothing,
    points,
    rounded,
    thinned,
    with_legend,
)


@dataclass(frozen=True)
class Reported:
    """A step that a generation reported."""

    generation: int
    step: int
    loss: float | None
    seconds: float | None
    at: str
    """Date and time, UTC."""


def figure(reported: Sequence[Reported], *, key: str = "loss") -> Drawing:
    """Draw the loss by step, and a mark at the first step of each generation after the first."""
    if not reported:
        return nothing(key, "No step has been reported yet.")
    known = [one for one in reported if one.loss is not None]
    if not known:
        return nothing(key, "The program reports no loss.")
    data: list[Json] = []
    drawn = 0
    for number in sorted({one.generation for one in known}):
        mine = [one for one in known if one.generation == number]
        kept = [mine[i] for i in thinned(len(mine))]
        drawn += len(kept)
        data.append(
            curve(
                "loss",
                [one.step for one in kept],
                [rounded(one.loss) for one in kept if one.loss is not None],
                BLUE,
                hover=f"generation {number}<br>step %{{x}}<br>loss %{{y:.4~g}}",
                mode="lines" if len(kept) > 1 else "markers",
                marker={"color": BLUE},
                legendgroup="loss",
                showlegend=not data,
            )
        )
    begun = [next(one for one in known if one.generation == n) for n in sorted({one.generation for one in known})][1:]
    if begun:
        steps, losses = [one.step for one in begun], [rounded(one.loss) for one in begun if one.loss is not None]
        data.append(points("resumed", steps, losses, VERMILION, hover="resumed<br>step %{x}", marker={"size": 8}))
    note = "" if drawn == len(known) else f"{drawn} of {len(known)} steps are drawn; the CSV file has all."
    axes = {"xaxis": axis("step"), "yaxis": axis("loss")}
    return Drawing(data, with_legend(height=300, key=key, **axes), note=note)


def table(reported: Sequence[Reported]) -> Table:
    """Return all reported steps as a table."""
    rows = ((one.generation, one.step, one.loss, one.seconds, one.at) for one in reported)
    return Table(("generation", "step", "loss", "seconds", "reported_utc"), rows)
