"""The demo's markets: one row each, with the cluster, the policy and the stream of bids."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from demo import jobs
from demo.clusters import (
    edge_cloud_document,
    gpu_servers_document,
    mixed_servers_here,
    queues_document,
    two_pools_document,
    two_pools_here,
)
from demo.jobs import Draw, Machines, Offer
from scheduling.model.types import Json


@dataclass(frozen=True)
class Scenario:
    """One market of the demo, with enough bids for jobs to compete, and few enough for fast pages."""

    name: str
    """Name of the cluster."""
    title: str
    note: str
    policy: str
    document: Callable[[np.random.Generator], Json]
    """The cluster, drawn from a seed."""
    body: Draw
    bids_per_slot: float
    """Poisson arrivals."""
    value: Json
    """Value of completion in a bid that is entered by hand."""
    slot_takes_s: float | None = None
    """Seconds of the wall clock that a slot takes; None if that is chosen when the demo starts."""
    executes: bool = False
    """Whether its jobs run on this machine."""
    parameters: Json = field(default_factory=dict)
    """Parameters of the policy that are not its defaults."""

    def offers(self, machines: Machines, *, seed: int, number: int, from_s: float) -> Iterator[Offer]:
        """The stream from offer `number` on, arriving after `from_s`; endless."""
        rate = self.bids_per_slot
        return jobs.drawn(self.body, machines, bids_per_slot=rate, seed=seed, number=number, from_s=from_s)


DPS: Final = Scenario(
    name="demo",
    title="Edge and cloud",
    note="Jobs and values synthetic: drawn from a seed by the settings of the DPS paper.",
    policy="dps",
    document=edge_cloud_document,
    body=jobs.edge_cloud_body,
    bids_per_slot=1.5,
    value={"utility": {"form": "constant", "value": 500}},
)
OASIS: Final = Scenario(
    name="demo-oasis",
    title="Elastic jobs on GPU servers",
    note="Jobs and values synthetic: drawn from a seed by the settings of the OASiS paper.",
    policy="oasis",
    document=two_pools_document,
    body=jobs.elastic_body,
    bids_per_slot=0.6,
    value={"utility": {"form": "constant", "value": 50}},
)
WEIGHTED: Final = Scenario(
    name="demo-weighted",
    title="Weighted jobs, parameter servers and rings",
    note="Jobs and weights synthetic: drawn from a seed by the settings of the weighted-completion paper.",
    policy="weighted_completion",
    document=gpu_servers_document,
    body=jobs.weighted_body,
    bids_per_slot=0.8,
    value={"weight": 500},
)
QUEUES: Final = Scenario(
    name="demo-preemptive",
    title="Queues at the edge, and a cloud",
    note="Jobs synthetic: drawn from a seed, shorter than in the preemptive edge-cloud paper.",
    policy="preemptive",
    document=queues_document,
    body=jobs.queued_body,
    bids_per_slot=1.2,
    value={},
)
COMPETITION: Final = Scenario(
    name="demo-competition",
    title="Bids that compete for GPU servers",
    note="Jobs and values synthetic: drawn from a seed, jobs by the settings of the weighted-completion paper.",
    policy="competition",
    document=gpu_servers_document,
    body=jobs.competing_body,
    bids_per_slot=1.4,
    value={"utility": {"form": "constant", "value": 50}, "standing": True},
)
SCENARIOS: Final = (DPS, OASIS, WEIGHTED, QUEUES, COMPETITION)


def _training(
    name: str,
    title: str,
    policy: str,
    body: Draw,
    value: Json,
    *,
    pools: bool = False,
    parameters: Json | None = None,
) -> Scenario:
    """Return a market whose jobs run on this machine."""
    return Scenario(
        name=name,
        title=title,
        note=NOTE_ON_TRAINING,
        policy=policy,
        document=two_pools_here if pools else mixed_servers_here,
        body=body,
        bids_per_slot=0.5,
        value={**value, "program": {"name": "train", "steps": 30}},
        slot_takes_s=10.0,
        executes=True,
        parameters=parameters or {},
    )


NOTE_ON_TRAINING: Final = "Jobs train for real, on synthetic data; what they are worth is synthetic, drawn from a seed."
WORTH: Final[Json] = {"utility": {"form": "constant", "value": 50}}
RESTARTS: Final[Json] = {"restart": 1}
"""Jobs start again within a slot of 10 seconds. OASiS has no such parameter."""
TRAINING: Final = (
    _training(
        "demo-training", "Elastic jobs that really train", "oasis", jobs.elastic_training_body, WORTH, pools=True
    ),
    _training("demo-training-dps", "Jobs that really train, for prices", "dps", jobs.training_body, WORTH),
    _training(
        "demo-training-completions",
        "Jobs that really train by a promised slot",
        "completions",
        jobs.training_body,
        WORTH,
        parameters=RESTARTS,
    ),
    _training("demo-training-ring", "Rings that really train", "weighted_completion", jobs.ring_body, {"weight": 5}),
    _training("demo-training-queues", "Queued jobs that really train", "preemptive", jobs.long_chunks_body, {}),
)
"""Markets that need time to pass, so they are part of the live demo only."""
