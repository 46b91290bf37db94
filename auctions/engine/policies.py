"""The policy that a market decides by. Versions are only added: a decision refers to the version that made it."""

from typing import Final

from django.contrib.auth.models import User

from auctions.domain.lock import MarketTime, locked_market, market_time, record, save_counters
from auctions.domain.standing_rule import RULE
from auctions.engine import planning
from auctions.engine.slots import caught_up
from auctions.kernels import warming
from auctions.models import Event, EventKind, Market, PolicyVersion
from cluster import changes
from scheduling.book.state import Book, Cause
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.standing import rule_for
from scheduling.registry import make_policy

PATIENCE_S: Final = 10.0
"""Seconds to wait for the kernels of the new policy: the change itself plans with them, under the market's lock."""

MOST_NAMED: Final = 10
"""Largest number of jobs that a message names."""


def change_policy(market: Market, *, name: str, parameters: Json, by: User | None) -> PolicyVersion:
    """Let this policy decide from now on; raises UnknownPolicy, InvalidField naming the parameter, or NotReady."""
    policy = make_policy(name, parameters)
    warming.check(policy, patience_s=PATIENCE_S)
    with locked_market(market.pk) as held:
        moment = market_time(held)
        book = caught_up(held, moment)  # slots that began before now had the old policy's prices
        policy.check(book.snapshot.inventory)
        check_line(policy, book.view())
        book.choose(policy)
        planned = planning.plan(book, Cause.CHANGED)
        chosen, event = add_version(held, moment, name=name, parameters=parameters, by=by, planned=planned)
        book.policy_id = chosen.pk
        planning.write(book, planned.moves, moment, version=event.version)
        planning.note_failure(held, book, planned, event, moment)
        save_counters(held)
    return chosen


def check_line(policy: Policy, book: Book) -> None:
    """Refuse a policy under which jobs without a plan would wait for ever; raises InvalidField."""
    jobs = book.jobs
    if policy.queues and any(job.held for job in jobs):
        raise InvalidField("name", f"{policy.name} shares workers that jobs hold; let them end or cancel them first")
    if not policy.queues and any(job.queued_from is not None for job in jobs):
        raise InvalidField("name", f"{policy.name} books slots; jobs are in workers' queues: let them end first")
    waiting = [job for job in jobs if job.completion is None]
    if policy.binding and waiting:
        raise InvalidField("name", f"{policy.name} plans nothing, and {len(waiting)} jobs wait in line for a plan")
    if not policy.keeps_slots and any(job.due is not None for job in waiting):
        text = f"{policy.name} keeps no promised slots, and jobs that were promised one wait in line for a plan"
        raise InvalidField("name", text)
    strange = sorted({str(job.bid.architecture) for job in waiting} - {str(known) for known in policy.architectures})
    if strange:
        raise InvalidField("name", f"{policy.name} does not run {', '.join(strange)} jobs, and some wait in line")
    stuck = policy.never_run(waiting, book)
    if stuck:
        names = ", ".join(job.bid.id for job in stuck[:MOST_NAMED])
        more = "" if len(stuck) <= MOST_NAMED else f" and {len(stuck) - MOST_NAMED} more"
        raise InvalidField("name", f"{policy.name} could never run jobs that wait in line: {names}{more}")


def add_version(
    market: Market,
    moment: MarketTime,
    *,
    name: str,
    parameters: Json,
    by: User | None,
    planned: planning.Planned = planning.NOTHING,
) -> tuple[PolicyVersion, Event]:
    """Record the policy as the market's next version, under its lock. Every parameter is stored, defaults included.

    The event also states the rule of standing bids if another one was in force: no turn may follow that states it.
    """
    policy = make_policy(name, parameters)
    complete = policy.to_json()
    last = PolicyVersion.objects.filter(market=market).order_by("-number").first()
    chosen = PolicyVersion.objects.create(
        market=market,
        number=1 if last is None else last.number + 1,
        name=name,
        parameters=complete,
        created_at=moment.wall,
        created_by=by,
    )
    market.policy_number = chosen.number
    before = {} if last is None else {"policy": last.name, **last.parameters}
    after = {"policy": name, **complete}
    cluster = market.cluster.name
    found = {key: (before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))}
    changes.note(market, "policy changed", found, cluster=cluster, name=f"market {cluster}")
    payload = {"number": chosen.number, "name": name, "parameters": complete} | planned.payload()
    rule = rule_for(policy).to_json()
    if rule != (market.standing_rule or RULE.to_json()):
        payload["rule"] = market.standing_rule = rule
    event = record(market, EventKind.POLICY, moment, payload=payload)
    return chosen, event
