"""The result of a run of the testbed: what was recorded, and under which conditions."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from scheduling.model.types import Json
from studies.papers.inputs import digest
from studies.testbed.calibration import Measured, Profile
from studies.testbed.records import PolicyRun


@dataclass(frozen=True)
class Result:
    """Everything that a page or a judge needs."""

    command: str
    seed: int
    servers: str
    """Description of the servers, in words."""
    load: tuple[float, float]
    """Number of processes of the whole machine that ran or waited for a core, one-minute mean, at the start and end."""
    cores: int
    minutes: float
    slot_s: int
    deadline: int
    allowance: float
    calibration: tuple[Measured, ...]
    profile: Profile
    """The measured profile, without the allowance."""
    runs: tuple[PolicyRun, ...]

    @property
    def inputs(self) -> str:
        """SHA-256 of the jobs."""
        return digest([one.job for one in self.runs[0].outcomes])

    def to_json(self) -> Json:
        """Return a document."""
        document = {key: getattr(self, key) for key in FACTS}
        return {
            **document,
            "inputs_sha256": self.inputs,
            "profile": self.profile.to_json(),
            "calibration": [_rounded(asdict(one)) for one in self.calibration],
            "runs": [one.to_json() for one in self.runs],
        }

    @classmethod
    def from_json(cls, document: Json) -> Self:
        """Read what `to_json` wrote."""
        facts = {key: document[key] for key in FACTS}
        return cls(
            **facts | {"load": tuple(facts["load"])},
            calibration=tuple(Measured(**one) for one in document["calibration"]),
            profile=Profile(**document["profile"]),
            runs=tuple(map(PolicyRun.from_json, document["runs"])),
        )


FACTS = ("command", "seed", "servers", "load", "cores", "minutes", "slot_s", "deadline", "allowance")


def _rounded(row: Json) -> Json:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}


def write(result: Result, path: Path) -> None:
    """Write a result, a line for each job of each run."""
    document = result.to_json()
    runs = document.pop("runs")
    head = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    parts = []
    for one in runs:
        jobs = ",\n   ".join(json.dumps(job, ensure_ascii=False, allow_nan=False) for job in one["jobs"])
        names = json.dumps({key: value for key, value in one.items() if key != "jobs"}, ensure_ascii=False)
        parts.append(f'{names[:-1]}, "jobs": [\n   {jobs}\n  ]}}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head.removesuffix("\n}") + ',\n "runs": [\n  ' + ",\n  ".join(parts) + "\n ]\n}\n")


def read(path: Path) -> Result:
    """Read a result."""
    return Result.from_json(json.loads(path.read_text()))


def read_all(folder: Path) -> Sequence[Result]:
    """Read all results of a folder, by seed."""
    return sorted(map(read, folder.glob("*.json")), key=lambda result: (result.seed, result.command))
