"""Explanations of decisions, as pages and REST show them."""

import re
from typing import Protocol

from web.numbers import money

KIND = r"(?P<value>worth)|(?P<payment>costs|pays)|(?P<offered>offered)"
AMOUNT = re.compile(rf"(?:\b(?:{KIND}) )?(?<![\d.,])(?P<number>\d+\.\d\d)(?!\d)")
"""An amount with two decimals, and what it is if the word before says so."""


class Explained(Protocol):
    """A decision, or an outcome of a replay."""

    @property
    def explanation(self) -> str:
        """The words, as they are stored."""

    @property
    def value(self) -> float:
        """Value of the granted completion."""

    @property
    def payment(self) -> float:
        """Payment of the job."""


def explanation(decision: Explained, offered: float | None = None) -> str:
    """Return an explanation with its amounts as `web.numbers.money` writes them.

    The core writes them with two decimals, so that a small one is "0.00". Its words are part of receipts, which replays
    have to give again: only pages and REST show them otherwise. `offered` is the stated value, None if it is not known.
    """
    exact = {"value": decision.value, "payment": decision.payment, "offered": offered}

    def written(found: re.Match[str]) -> str:
        number = found["number"]
        amount = next((exact[kind] for kind in exact if found[kind]), None)
        if amount is None or f"{amount:.2f}" != number:
            amount = float(number)
        return found[0].removesuffix(number) + money(amount)

    return AMOUNT.sub(written, decision.explanation)
