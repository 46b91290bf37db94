"""Exceptions of the core. A rejected bid is no exception: a rejection is a return value."""

from collections.abc import Iterable, Sequence


class SchedulingError(Exception):
    """Base class of every exception that the core raises on purpose."""


class InvalidField(SchedulingError):
    """A field of an input is missing, of the wrong type or out of range."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem
        self.also: tuple[InvalidField, ...] = ()
        """Other wrong fields of the same input, where they were checked."""

    @property
    def all_wrong(self) -> "tuple[InvalidField, ...]":
        """This error, and those of the other wrong fields."""
        return (self, *self.also)

    def at(self, field: str) -> "InvalidField":
        """Return the same error under the name that the field has in the enclosing document."""
        return InvalidField(field, self.problem)

    def inside(self, where: str) -> "InvalidField":
        """Return the same error, and those beside it, under the names that the fields have in a document around."""
        found = self.at(f"{where}.{self.field}")
        found.also = tuple(one.inside(where) for one in self.also)
        return found


def in_words(error: Exception) -> str:
    """Return the message of an error; that of a wrong field with those of the other wrong fields, on the same line."""
    return "; ".join(map(str, error.all_wrong)) if isinstance(error, InvalidField) else str(error)


def refuse_all(wrong: Sequence[InvalidField]) -> None:
    """Raise one error that names all of these wrong fields, if there are any."""
    if wrong:
        wrong[0].also = tuple(wrong[1:])
        raise wrong[0]


class OutOfRange(InvalidField):
    """A number below or above the allowed range of its field; `limit` is in the unit of the field."""

    def __init__(self, field: str, problem: str, *, limit: float, above: bool) -> None:
        super().__init__(field, problem)
        self.limit = limit
        self.above = above
        """True if the number was above the limit, False if it was below."""

    def at(self, field: str) -> "OutOfRange":
        """Return the same error under the name that the field has in the enclosing document."""
        return OutOfRange(field, self.problem, limit=self.limit, above=self.above)


class OverCapacity(SchedulingError):
    """A schedule asks for more than a server has left in some slot."""


class OutsideHorizon(SchedulingError):
    """A schedule uses slots the ledger does not hold."""


class PolicyMissing(SchedulingError):
    """This version does not have a policy that was recorded."""


class UnknownPolicy(PolicyMissing):
    """A policy name that the registry does not list."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown policy {name!r}; known: {', '.join(sorted(known))}")
        self.name = name
