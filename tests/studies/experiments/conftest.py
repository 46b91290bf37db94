"""Alice asks, Olga operates, Charlie must see nothing; workloads of a few jobs."""

from typing import Any

from django.contrib.auth.models import User

from studies.experiments import readings
from studies.experiments.request import ExperimentRequest
from studies.experiments.requests import create
from studies.models import Experiment, Trace
from studies.workloads.traces.upload import keep
from tests.rest import alice, api, charlie, client_of, nobody_asked_before
from tests.traces import OWN

__all__ = ["alice", "api", "charlie", "client_of", "nobody_asked_before"]  # fixtures of all who speak REST
TINY = {"generator": "dps", "setting": {"servers": 3, "slots": 30, "jobs": 6, "types": 2, "chunks": [2, 6]}}
PHILLY_HEAD = "".join(OWN.philly_day.read_text().splitlines(keepends=True)[:41])
"""Forty jobs of the sample of a day."""


def matrix(**more: Any) -> Any:
    """The body of a request: two policies, two seeds and the bounds, six runs."""
    return {"workloads": [TINY], "policies": [{"name": "dps"}, {"name": "fifo"}], "seeds": [1, 2], **more}


def submitted(owner: User, body: Any = None) -> Experiment:
    """An experiment that waits."""
    return create(owner, ExperimentRequest.from_json(body or matrix(), readings.visible_traces(owner)))


def uploaded(owner: User, text: str = PHILLY_HEAD) -> Trace:
    """A trace of forty jobs."""
    return keep(owner, text, label="forty jobs", source="philly.csv")[0]
