"""Answers to instances of parallel split learning."""

from collections.abc import Callable

from scheduling.instances.families import Options
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import check_fraction
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.document import plan_document, read_split_learning
from scheduling.split_learning.methods import answer_of, method_of
from scheduling.split_learning.warming import warm_up

SECONDS = 10
MOST_SECONDS = 86_400
Clock = Callable[[], float]
"""Seconds since some moment."""


def answering(clock: Clock) -> Callable[[object, Options], Json]:
    """Return a function that answers instances with this clock; the core itself reads no clock."""

    def answer(document: object, options: Options) -> Json:
        """Plan one batch; raises InvalidField naming a field or an option, and NoPlan."""
        options.only("split learning", "method", "seconds", "seed")
        name = options.method or "exact"
        method_of(name, "--method")
        seconds = check_fraction(
            "--seconds", SECONDS if options.seconds is None else options.seconds, high=MOST_SECONDS
        )
        instance = read_split_learning(document)
        warm_up()
        found = answer_of(instance, name, left=_left(clock, float(seconds)), seed=_seed(options.seed))
        return plan_document(found.plan, found.lower_bound)

    return answer


def _left(clock: Clock, seconds: float) -> Left:
    until = clock() + seconds
    return lambda: until - clock()


def _seed(text: str | None) -> int:
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidField("--seed", f"expected a whole number of at most 18 digits, got {text[:30]!r}")
    return int(text)
