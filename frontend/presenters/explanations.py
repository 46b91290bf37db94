"""Explanations of decisions, as pages show them."""

import re
from typing import Protocol

from web.numbers import money

AMOUNT = re.compile(r"(?:\b(worth|costs|pays|offered) )?(?<![\d.,])(\d+\.\d\d)(?!\d)")
"""An amount with two decimals, and what it is if the word before says so."""


class Explained(Protocol):
    """What has an explanation."""

    @property
    def explanation(self) -> str:
        """The words, as they are stored."""

    @property
    def value(self) -> float:
        """Value of the granted completion."""

    @property
    def payment(self) -> float:
        """What the job pays."""


def explanation(decision: Explained, offered: float | None = None) -> str:
    """Return an explanation with its amounts as they are written elsewhere on pages.

    The core writes them with two decimals, so that a small one is "0.00". Its words are part of receipts, which replays
    have to give again: only pages show them otherwise. `offered` is the stated value, None if it is not known.
    """
    exact = {"worth": decision.value, "costs": decision.payment, "pays": decision.payment, "offered": offered}

    def written(found: re.Match[str]) -> str:
        amount = exact.get(found[1])
        if amount is None or f"{amount:.2f}" != found[2]:
            amount = float(found[2])
        return f"{found[1]} {money(amount)}" if found[1] else money(amount)

    return AMOUNT.sub(written, decision.explanation)
