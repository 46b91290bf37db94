"""Results of reproductions that are kept with the documents: their runs, the command, the inputs' hash and the time."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scheduling.model.types import Json
from studies.papers.figure import Data, Figure, Reproduced, Scale, Series, Task
from studies.papers.registry import PAPERS

COPIED = ("paper", "figure", "scale", "seeds", "inputs_sha256", "verdict", "agreement", "missing", "measured")
"""Keys that a result has in common with the document of a figure."""


@dataclass(frozen=True)
class Result:
    """A reproduced figure, and how it was computed."""

    reproduced: Reproduced
    command: str
    processor_s: float
    """Processor time of all runs, s."""


def file_name(figure: Figure) -> str:
    """Return the figure's file name without suffix, such as `figure-3` or `table-ii`."""
    return figure.name.lower().replace(" ", "-")


def path_of(folder: Path, paper: str, figure: Figure, scale: Scale) -> Path:
    """Return the file of a result."""
    return folder / paper / f"{file_name(figure)}-{scale}.json"


def write_result(result: Result, folder: Path) -> Path:
    """Write a result, one line for each series, and return its path."""
    done = result.reproduced
    whole = done.to_json()
    document: Json = {key: whole[key] for key in COPIED}
    document |= {"command": result.command, "processor_s": round(result.processor_s, 1), "series": []}
    lines = [
        json.dumps({"name": one.name, "x": list(one.x), "samples": one.samples.tolist()}, ensure_ascii=False)
        for one in done.data.series
    ]
    head = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    path = path_of(folder, done.paper.key, done.figure, done.task.scale)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head.replace('"series": []', '"series": [\n  ' + ",\n  ".join(lines) + "\n ]") + "\n")
    return path


def read_result(path: Path) -> Result:
    """Read what `write_result` wrote, and judge the runs again; the agreement is the recorded one."""
    document = json.loads(path.read_text())
    paper = PAPERS[document["paper"]]
    figure = paper.figure(document["figure"])
    data = Data(
        tuple(
            Series(one["name"], tuple(one["x"]), np.array(one["samples"], dtype=np.float64))
            for one in document["series"]
        )
    )
    task = Task(Scale(document["scale"]), tuple(document["seeds"]))
    finding = figure.judge(data)
    done = Reproduced(paper, figure, task, data, finding, document["agreement"], document["inputs_sha256"])
    return Result(done, document["command"], document["processor_s"])


def read_results(folder: Path) -> list[Result]:
    """Read all results of a folder, in the order of papers, figures and scales."""
    paths = [
        path_of(folder, paper.key, figure, scale)
        for paper in PAPERS.values()
        for figure in paper.figures
        for scale in Scale
    ]
    return [read_result(path) for path in paths if path.exists()]
