"""One run: the stream of jobs is sent to a market under one policy, and its jobs train until all have ended."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from django.contrib.auth.models import User
from django.db.models import Sum

from auctions.engine import decision_queue, slots
from auctions.engine.markets import open_market
from auctions.engine.submission import submit_bid
from auctions.history.audit import audit_market
from auctions.kernels import warming
from auctions.models import Bid, BidState, Market
from cluster import clock
from execution.engines.base import Phase
from execution.executor import Executor
from execution.models import OVER, Execution, GenerationState, Process, ProcessRole, Progress, Training, TrainingState
from execution.models import Generation as GenerationRow
from execution.places import engine_root
from execution.wanted import GOING
from scheduling.model.types import Json
from scheduling.policies.base import Objective
from scheduling.registry import POLICIES
from studies.testbed import cluster as clusters
from studies.testbed.calibration import Profile
from studies.testbed.engine import ConfinedEngine
from studies.testbed.jobs import Job
from studies.testbed.records import Generation, Outcome, PolicyRun
from studies.testbed.servers import Servers

EVERY_S: Final = 0.15
"""Time between two loops."""
LEAD_S: Final = 1.0
"""Time from the opening of the market to its first slot."""
LONGEST: Final = 24
"""Slots after which everything that still runs is stopped."""
STOP_S: Final = 10.0


@dataclass(frozen=True)
class Setting:
    """One policy of the comparison."""

    name: str
    policy: str
    ring: bool = False
    utility: str = "oasis"
    """The paper whose utility bids state, if the policy's bids state one."""


@dataclass(frozen=True)
class Conditions:
    """Conditions that all runs have in common."""

    servers: Servers
    profile: Profile
    jobs: tuple[Job, ...]
    slot_s: int
    deadline: int
    """Slot by which a job has to be complete to count for the DPS paper."""
    root: Path
    """The project's directory, where the trainer is."""


def run(setting: Setting, conditions: Conditions) -> PolicyRun:
    """Run all jobs under a policy; afterwards nothing of them runs."""
    epoch = clock.now() + timedelta(seconds=LEAD_S)
    name = f"testbed-{setting.name.lower().replace(' ', '-').replace(',', '')}"
    facts = clusters.document(
        name, policy=setting.policy, profile=conditions.profile, slot_s=conditions.slot_s, epoch=epoch
    )
    made = clusters.make(facts, conditions.servers, conditions.root)
    market = open_market(made, policy=setting.policy, parameters={})
    warming.load(market.pk)
    engine = ConfinedEngine(engine_root(made.name), conditions.servers)
    running = _Running(setting, conditions, market, Executor(name, lambda _: engine), epoch.timestamp())
    try:
        running.go()
    finally:
        end_all(engine)
        running.executor.close()
    Execution.objects.filter(cluster=made).delete()  # the next executor has nothing to do for this cluster
    findings = sum(bool(finding.rows) for finding in audit_market(market))
    return PolicyRun(setting.name, tuple(running.outcome(job) for job in conditions.jobs), findings)


def end_all(engine: ConfinedEngine) -> None:
    """Kill everything that an engine knows, and forget it."""
    for key, seen in engine.list().items():
        if seen.phase in (Phase.STARTING, Phase.RUNNING):
            engine.kill(key)
        engine.retire(key)


def value_of(job: Job, setting: Setting, *, slot_s: int, deadline: int) -> Json:
    """Return what a bid states of its value, by the objective of the policy."""
    objective = POLICIES[setting.policy].objective
    if objective is Objective.WEIGHTED_COMPLETION:
        return {"weight": job.weight}
    if objective is not Objective.WELFARE:
        return {}
    if setting.utility == "oasis":
        sigmoid = {"steepness_per_s": job.decay / slot_s, "midpoint_s": job.target * slot_s}
        return {"utility": {"form": "sigmoid", "value": job.weight, **sigmoid}}
    first, left = job.dps_utility(job.arrival), deadline - job.arrival
    last = job.dps_utility(deadline) / first
    points = [[0, 1], [left * slot_s, last], [left * slot_s + 0.01, 0]]
    return {"utility": {"form": "piecewise_linear", "value": first, "points": points}}


@dataclass
class _Running:
    setting: Setting
    conditions: Conditions
    market: Market
    executor: Executor
    epoch: float
    bids: dict[str, Bid] = field(default_factory=dict)
    plans: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Planned completions of each job, one after another."""

    def now(self) -> float:
        """Return the present, slots."""
        return (clock.now().timestamp() - self.epoch) / self.conditions.slot_s

    def go(self) -> None:
        """Send bids as they are due, until all jobs have ended."""
        while not self._is_over():
            began = time.monotonic()
            slots.pass_slots(self.market.pk)
            self._submit()
            decision_queue.process_pending(self.market.pk)
            self.executor.once()
            self._note_plans()
            if self.now() > LONGEST:
                self._stop()
                return
            time.sleep(max(0.01, EVERY_S - (time.monotonic() - began)))

    def _submit(self) -> None:
        """Submit what is due."""
        for job in self.conditions.jobs:
            if job.name not in self.bids and job.arrival <= self.now():
                owner, _ = User.objects.get_or_create(username=job.owner)
                given = value_of(job, self.setting, slot_s=self.conditions.slot_s, deadline=self.conditions.deadline)
                ring = self.conditions.profile.reduce_step_s if self.setting.ring else None
                body = job.body(given, ring_step_s=ring)
                self.bids[job.name] = submit_bid(cluster=self.market.cluster, owner=owner, body=body).bid

    def _note_plans(self) -> None:
        rows = Bid.objects.filter(market=self.market, state__in=GOING)
        over = set(Training.objects.filter(bid__market=self.market, state__in=OVER).values_list("bid_id", flat=True))
        for pk, label, completion in rows.values_list("pk", "label", "completion_slot"):
            plans = self.plans[label]
            if completion is not None and pk not in over and (not plans or plans[-1] != completion):
                plans.append(completion)

    def _is_over(self) -> bool:
        if len(self.bids) < len(self.conditions.jobs):
            return False
        waits = Bid.objects.filter(market=self.market, state__in=(*GOING, BidState.SUBMITTED)).exists()
        return not waits and not _live(self.market)

    def _stop(self) -> None:
        """Let everything that still runs write a checkpoint and end."""
        Execution.objects.filter(cluster=self.market.cluster).update(is_on=False)
        deadline = time.monotonic() + STOP_S
        while _live(self.market) and time.monotonic() < deadline:
            self.executor.once()
            time.sleep(EVERY_S)

    def outcome(self, job: Job) -> Outcome:
        """Read what became of a job."""
        bid = Bid.objects.get(pk=self.bids[job.name].pk)
        training = Training.objects.filter(bid=bid).first()
        plans = self.plans.get(job.name, [])
        generations = () if training is None else tuple(_generations(training, self.conditions.slot_s))
        finished = training is not None and training.state == TrainingState.FINISHED
        return Outcome(
            job=job,
            admitted=bid.state not in (BidState.REJECTED, BidState.SUBMITTED),
            planned=plans[0] if plans else None,
            planned_last=plans[-1] if plans else None,
            completed=generations[-1].end if finished else None,
            done=0 if training is None else training.step,
            failed=training is not None and training.state == TrainingState.FAILED,
            generations=generations,
        )


def _live(market: Market) -> bool:
    rows = GenerationRow.objects.filter(training__bid__market=market)
    return rows.exclude(state=GenerationState.ENDED).exists()


def _generations(training: Training, slot_s: int) -> Sequence[Generation]:
    """Read the generations of a training of which a process ran."""
    rows = GenerationRow.objects.filter(training=training).select_related("resumed_from").order_by("number")
    reported: Mapping[int, float] = dict(
        Progress.objects.filter(generation__in=rows).order_by().values_list("generation").annotate(Sum("seconds"))
    )
    found = []
    for row in rows:
        lives = [
            (one.role, one.started_slot, one.ended_slot)
            for one in Process.objects.filter(generation=row)
            if one.started_slot is not None and one.ended_slot is not None
        ]
        if not lives:
            continue
        last = Progress.objects.filter(generation=row).order_by("-step").first()
        resumed = 0 if row.resumed_from is None else row.resumed_from.step
        found.append(
            Generation(
                start=min(start for _, start, _ in lives),
                end=max(end for _, _, end in lives),
                worker_slots=sum(end - start for role, start, end in lives if role == ProcessRole.WORKER),
                ps_slots=sum(end - start for role, start, end in lives if role == ProcessRole.PS),
                training=reported.get(row.pk, 0.0) / slot_s,
                resumed=resumed,
                done=resumed if last is None else last.step,
                ending=row.ending,
            )
        )
    return found
