"""Outcomes of jobs that fit in the head."""

from typing import Any

from studies.testbed.calibration import Measured, Profile
from studies.testbed.jobs import Job
from studies.testbed.records import Generation, Outcome, PolicyRun
from studies.testbed.results import Result


def job(**changes: Any) -> Job:
    """60 mini-batches that arrive at slot 1, with a target of 3 slots; worth 10 (OASiS) or about 50 (DPS)."""
    facts = {"name": "job 0", "owner": "ada", "arrival": 1.0, "epochs": 10, "chunks": 2, "seed": 7}
    values = {"weight": 20, "decay": 1.0, "target": 3, "kappa": 1}
    return Job(**{**facts, **values, **changes})


def generation(start: float, end: float, **changes: Any) -> Generation:
    """Two workers and a parameter server that train all the time but for a quarter of a slot."""
    facts = {"worker_slots": 2 * (end - start), "ps_slots": end - start, "training": end - start - 0.25}
    return Generation(
        **{"start": start, "end": end, **facts, "resumed": 0, "done": 60, "ending": "finished", **changes}
    )


def outcome(completed: float | None = 4.0, **changes: Any) -> Outcome:
    """A job that was planned to complete in slot 5."""
    facts = {"admitted": True, "planned": 5, "planned_last": 5, "done": 60, "failed": False}
    ran = (generation(2.0, 4.0 if completed is None else completed),)
    return Outcome(**{"job": job(), **facts, "completed": completed, "generations": ran, **changes})


def result(*runs: PolicyRun, seed: int = 1) -> Result:
    """A result with these runs."""
    calibration = (Measured("large", 1, True, 0.2, 1.0), Measured("large", 2, False, 0.3, 1.1))
    return Result(
        command=f"make testbed SEED={seed}",
        seed=seed,
        servers="control groups of version 1",
        load=(1.0, 2.0),
        cores=2,
        minutes=18.5,
        slot_s=4,
        deadline=10,
        allowance=1.5,
        calibration=calibration,
        profile=Profile({"large": 0.2}, 0.01, 0.02),
        runs=runs,
    )
