"""`python -m scheduling decide INSTANCE.json`: decide the jobs of an instance file, print the decisions as JSON."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from scheduling.arrays import Json
from scheduling.decision import Decision
from scheduling.dps import Dps
from scheduling.errors import InvalidField, SchedulingError
from scheduling.instance import DpsInstance, parse_document, read_instance
from scheduling.policy import HISTORY, Book
from scheduling.registry import POLICIES, make_policy
from scheduling.schedule import Role, Schedule

LARGEST_FILE = 100_000_000
"""Bytes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; exit status 2 and one line on standard error for bad input."""
    options = _options().parse_args(arguments)
    try:
        instance = read_instance(parse_document(_read(options.instance)))
        decisions = decide_all(instance, _policy(options, instance))
    except SchedulingError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    print(json.dumps(to_document(instance, decisions), indent=1, allow_nan=False))
    return 0


def decide_all(instance: DpsInstance, policy: Dps) -> list[Decision]:
    """Decide the jobs in order, each against what the earlier ones hold and have taught."""
    ledger = instance.ledger(tail=policy.tail)
    history: list[tuple[float, ...]] = []
    decisions = []
    for bid in instance.bids:
        past = np.array(history[-HISTORY:], dtype=np.float64).reshape(-1, len(instance.inventory.resources))
        decision = policy.decide(bid, Book(now=ledger.start, ledger=ledger, history=past, decided=len(history)))
        if decision.schedule is not None:
            ledger.commit(decision.schedule)
        history.append(decision.density)
        decisions.append(decision)
    return decisions


def to_document(instance: DpsInstance, decisions: Sequence[Decision]) -> Json:
    """Decisions in the result format of instance files."""
    jobs = [
        {
            "id": name,
            "accept": decision.admitted,
            "payoff": decision.payoff,
            "payment": decision.payment,
            "value": decision.value,
            "t_hat": None if decision.schedule is None else decision.schedule.completion,
            "schedule": None if decision.schedule is None else _rigid(decision.schedule),
        }
        for name, decision in zip(instance.ids, decisions, strict=True)
    ]
    return {"jobs": jobs, "welfare": sum(decision.value for decision in decisions)}


def _rigid(schedule: Schedule) -> Json:
    """A schedule whose machines stay the same: types, start, duration, machines on each server."""
    counts: dict[Role, dict[str, int]] = {Role.WORKER: {}, Role.PS: {}}
    types = {p.role: p.type for p in schedule.placements}
    for p in schedule.placements:
        counts[p.role][str(p.server)] = p.count
    return {
        "w": types[Role.WORKER],
        "p": types[Role.PS],
        "a": schedule.start,
        "d": schedule.completion - schedule.start,
        "y": counts[Role.WORKER],
        "z": counts[Role.PS],
    }


def _policy(options: argparse.Namespace, instance: DpsInstance) -> Dps:
    parameters: Json = {
        "price": options.price,
        "window": options.window or instance.conventions.get("window", "half_open"),
        "start": options.start or instance.conventions.get("start", "ge"),
    }
    if options.price == "printed":
        parameters["eta_worker"], parameters["eta_ps"] = instance.etas or _derived(instance, parameters)
    policy = make_policy(options.policy, parameters)
    if not isinstance(policy, Dps):
        raise InvalidField("policy", f"{options.policy} cannot decide this family of instances")
    return policy


def _derived(instance: DpsInstance, parameters: Json) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The printed etas of the instance's own jobs, for a file without prices."""
    return Dps(**parameters).printed_etas(instance.bids, instance.inventory, end=instance.T)


def _read(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise InvalidField("INSTANCE", f"expected at most {LARGEST_FILE} bytes: {name}")
        return content.decode("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidField("INSTANCE", f"cannot be read: {error}") from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as for every other bad input."""
        self.exit(2, f"{' '.join(message.split())}\n")


def _options() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m scheduling", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    decide = commands.add_parser("decide", help="decide the jobs of an instance file")
    decide.add_argument("instance", metavar="INSTANCE", help="a JSON file")
    decide.add_argument("--policy", choices=sorted(POLICIES), default="dps", help="default: dps")
    decide.add_argument("--price", choices=("printed", "learned"), default="printed", help="default: printed")
    decide.add_argument(
        "--window", choices=("half_open", "inclusive"), help="slots held; default: the file's, else half_open"
    )
    decide.add_argument("--start", choices=("ge", "strict"), help="first usable slot; default: the file's, else ge")
    return parser


if __name__ == "__main__":
    sys.exit(main())
