"""Records of each job of a run; all times are slots of the cluster's clock."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Self

from scheduling.model.types import Json
from studies.testbed.jobs import Job


@dataclass(frozen=True)
class Generation:
    """One start of a job with one set of machines."""

    start: float
    """Start of the first of its processes."""
    end: float
    """End of the last of them."""
    worker_slots: float
    """Slots that its workers lived, all together."""
    ps_slots: float
    training: float
    """Slots in which it made steps."""
    resumed: int
    """Mini-batches in the checkpoint from which it went on."""
    done: int
    """Mini-batches in its last step."""
    ending: str


@dataclass(frozen=True)
class Outcome:
    """One job under one policy."""

    job: Job
    admitted: bool
    planned: int | None
    """Completion in its first plan; None if it never had one."""
    planned_last: int | None
    """Completion in its plan when it ended."""
    completed: float | None
    """Actual completion; None if its machines were taken back before."""
    done: int
    """Mini-batches at its end."""
    failed: bool
    generations: tuple[Generation, ...]

    def to_json(self) -> Json:
        """Return a document with rounded times."""
        document = asdict(self)
        document["generations"] = [
            {key: round(value, 4) if isinstance(value, float) else value for key, value in one.items()}
            for one in document["generations"]
        ]
        document["completed"] = None if self.completed is None else round(self.completed, 4)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Self:
        """Read what `to_json` wrote."""
        facts: Json = dict(document)
        generations = tuple(Generation(**one) for one in facts.pop("generations"))
        return cls(job=Job(**facts.pop("job")), generations=generations, **facts)

    @property
    def completion(self) -> float | None:
        """The actual completion, or if the job was stopped before it was done, when it would have been at its rate.

        None if it was rejected, failed, or never did anything.
        """
        if self.completed is not None or self.failed or not self.generations or self.done == 0:
            return self.completed
        lived = sum(one.end - one.start for one in self.generations)
        rest = (self.job.steps - self.done) * lived / self.done
        return self.generations[-1].end + rest

    @property
    def late(self) -> float | None:
        """Slots from the planned to the actual completion."""
        if self.planned_last is None or self.completion is None:
            return None
        return self.completion - self.planned_last


@dataclass(frozen=True)
class PolicyRun:
    """All jobs under one policy."""

    policy: str
    """The name by which the page calls it."""
    outcomes: tuple[Outcome, ...]
    findings: int
    """Findings of the audit of its market."""

    def to_json(self) -> Json:
        """Return a document."""
        return {
            "policy": self.policy,
            "findings": self.findings,
            "jobs": [one.to_json() for one in self.outcomes],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Self:
        """Read what `to_json` wrote."""
        facts: Json = dict(document)
        return cls(facts["policy"], tuple(map(Outcome.from_json, facts["jobs"])), facts["findings"])
