"""Families of instance files: how each is recognised and answered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.instances.fields import inner_document
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import shown
from scheduling.policies.base import Policy


@dataclass(frozen=True)
class Options:
    """Options of the command line; None if not given."""

    policy: str | None = None
    price: str | None = None
    slot_convention: str | None = None
    start_convention: str | None = None
    model: str | None = None
    mode: str | None = None
    cloud: str | None = None
    storage: str | None = None
    ageing: str | None = None
    method: str | None = None
    seconds: str | None = None
    seed: str | None = None

    def only(self, family: str, *names: str) -> None:
        """Raise InvalidField if an option was given that is not one of these."""
        for one in fields(self):
            if one.name not in names and getattr(self, one.name) is not None:
                raise InvalidField(
                    f"--{one.name.replace('_', '-')}", f"expected no such option for {family} instances, got one"
                )


@dataclass(frozen=True)
class Family:
    """Files that one reader reads; `key` is the field that identifies them."""

    name: str
    key: str
    answer: Callable[[object, Options], Json]


def family_of(document: object, families: Sequence[Family]) -> Family:
    """The family of an instance, bare or under `instance`; raises InvalidField for a document that is of none."""
    root = inner_document(document)
    if not isinstance(root, dict):
        raise InvalidField("document", f"expected an object, got {shown(root)}")
    found = next((family for family in families if family.key in root), None)
    if found is None:
        keys = ", ".join(f"{family.key} ({family.name})" for family in families)
        raise InvalidField("document", f"expected one of {keys}, got none of them")
    return found


def decide_in_order(policy: Policy, bids: Sequence[Bid], ledger: Ledger) -> list[Decision]:
    """Decide bids one after another against the same slots, each on the state that earlier decisions left."""
    book, decisions = RunningBook(ledger), []
    for bid in bids:
        decisions.append(policy.decide(bid, book.view()))
        book.apply_decision(bid, decisions[-1], bound=policy.binding)
    return decisions
