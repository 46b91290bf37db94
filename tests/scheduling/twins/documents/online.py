"""Jobs decided one after the other, and what all ways to break ties between equal schedules have in common."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from tests.scheduling.twins.documents.numbers import TIE, Document, shown

State = TypeVar("State", bound=Hashable)
MOST_STATES = 30
"""More ways to break ties than this are not followed."""


@dataclass(frozen=True)
class Choice:
    """One schedule of greatest payoff."""

    payoff: Decimal
    value: Decimal
    t_hat: int
    after: Any
    """What is in use once it is committed."""


class TooManyTies(Exception):
    """There are more ways to break ties than are followed."""


def best_of(choices: Iterable[Choice]) -> list[Choice]:
    """All that are equal to the best, the earliest complete first; the first of those that use the same."""
    found = list(choices)
    most = max((choice.payoff for choice in found), default=Decimal(0))
    kept: dict[tuple[int, Any], Choice] = {}
    for choice in found:
        if choice.payoff >= most - TIE:
            kept.setdefault((choice.t_hat, choice.after), choice)
    return sorted(kept.values(), key=lambda choice: choice.t_hat)


def decide_in_order(
    jobs: Sequence[Document], first: State, respond: Callable[[Document, State], list[Choice]]
) -> Document:
    """Admit each job at its best payoff, if that is above 0, and follow every way to break ties.

    Returns
    -------
    dict
        `jobs`: what becomes of each where every tie goes to the earliest completion found first; `welfare`;
        `tie_robust`: whether payoffs and slots of completion are the same whatever way ties are broken.
    """
    states: list[State] = [first]
    rows: list[Document] = []
    welfare = Decimal(0)
    robust = {"payoffs": True, "t_hat": True}
    for job in jobs:
        after: dict[State, None] = {}
        seen: list[tuple[Decimal, int | None]] = []
        for k, state in enumerate(states):
            best = respond(job, state)
            admitted = bool(best) and best[0].payoff > TIE
            seen += [(c.payoff, c.t_hat) for c in best] if admitted else [(Decimal(0), None)]
            after |= {choice.after: None for choice in best} if admitted else {state: None}
            if k == 0:
                rows.append(_row(job, best[0] if admitted else None))
                welfare += best[0].value if admitted else 0
        robust["payoffs"] &= all(abs(payoff - seen[0][0]) <= TIE for payoff, _ in seen)
        robust["t_hat"] &= len({t_hat for _, t_hat in seen}) == 1
        states = list(after)
        if len(states) > MOST_STATES:
            raise TooManyTies
    return {"jobs": rows, "welfare": shown(welfare), "tie_robust": robust}


def _row(job: Document, choice: Choice | None) -> Document:
    payoff = Decimal(0) if choice is None else choice.payoff
    t_hat = None if choice is None else choice.t_hat
    return {"id": job["id"], "accept": choice is not None, "payoff": shown(payoff), "t_hat": t_hat}
