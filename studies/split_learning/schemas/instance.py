"""The instance of a plan in REST: the format of instance files."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.validation import MOST_NAMED, shown
from scheduling.split_learning.document import LARGEST_GB, LONGEST_NAME, read_split_learning
from scheduling.split_learning.instance import LARGEST_SLOTS, MOST_CLIENTS, MOST_HELPERS, Instance
from web.fields import ByName, Integer, Quantity, Rows, Text, wrong_line
from web.schema import Schema, refused

MOST_PAIRS: Final = 100_000
"""Largest number of helpers times clients of one instance."""
LONGEST_SLOT_MS: Final = 10**6
"""Longest slot of scenarios and profiles, milliseconds."""
_SLOTS: Final = {"type": "integer", "minimum": 0, "maximum": LARGEST_SLOTS}
_TABLE: Final = {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 1, "items": _SLOTS}}


def slots_in(text: str, *, required: bool = True) -> Integer:
    """Return the field for a number of slots in a request."""
    return Integer(0, LARGEST_SLOTS, required=required, help_text=f"{text}, slots.")


def gigabytes_in(text: str) -> Quantity:
    """Return the field for an optional amount of memory, which is read exactly."""
    return Quantity(0, LARGEST_GB, exact=True, required=False, help_text=text)


def name_in(kind: str) -> Text:
    """Return the field for the optional name of a helper or client."""
    return Text(LONGEST_NAME, required=False, line=True, help_text=f"{kind}-1 and so on if not given.")


def slot_ms_in(high: int, otherwise: str) -> Integer:
    """Return the field for the length of a slot, up to `high` milliseconds."""
    return Integer(1, high, required=False, help_text=f"Length of a slot, milliseconds; {otherwise} if not given.")


def check_size(document: object) -> None:
    """Refuse more than MOST_PAIRS helpers x clients before anything is read, since reading takes long.

    Raises
    ------
    InvalidField
        If the document is no object, or names too many helpers and clients.
    """
    if not isinstance(document, dict):
        raise InvalidField("", f"expected an object, got {shown(document)}")
    rows = [document.get(name) for name in ("helpers", "clients")]
    sizes = [len(row) for row in rows if isinstance(row, list)]
    if len(sizes) == 2:
        check_pairs(sizes[0], sizes[1], "clients")


def check_pairs(helpers: int, clients: int, field: str) -> None:
    """Raise InvalidField that names `field` if there are more than MOST_PAIRS helpers x clients."""
    if helpers * clients > MOST_PAIRS:
        raise InvalidField(field, f"expected helpers x clients of at most {MOST_PAIRS}, got {helpers} x {clients}")


def check_names(instance: Instance) -> None:
    """Raise InvalidField if names are no lines, as pages and CSV show them; instances stored earlier may have such."""
    names = (("helpers", instance.helpers), ("clients", instance.clients))
    found = [(f"{field}[{n}].name", wrong_line(name)) for field, some in names for n, name in enumerate(some)]
    refuse_all([InvalidField(field, problem) for field, problem in found if problem][:MOST_NAMED])


@extend_schema_field(_TABLE)
class Matrix(serializers.JSONField):
    """Whole slots: one row for each helper, with one number for each client."""


class HelperIn(Schema):
    name = name_in("helper")
    memory_gb = gigabytes_in("Memory of the helper, GB. With a cluster, the memory of its server if not given.")
    switch = slots_in("Added to a completion by each start and each stop of a pass; 0 if not given", required=False)


class ClientIn(Schema):
    name = name_in("client")
    demand_gb = Quantity(0, LARGEST_GB, exact=True, help_text="Memory that the client takes on its helper, GB.")


class InstanceIn(Schema):
    # The core checks an instance, since files and the command line need the same checks; the fields describe it.
    slot_ms = slot_ms_in(10**9, "1")
    helpers = Rows(HelperIn(), least=1, most=MOST_HELPERS, help_text="They run the middle part of the network.")
    clients = Rows(ClientIn(), least=1, most=MOST_CLIENTS, help_text="They run the first and the last part.")
    release = Matrix(help_text="Until the forward pass arrives at the helper.")
    forward = Matrix(help_text="Duration of the forward pass on the helper.")
    gap = Matrix(
        required=False,
        help_text="From the end of the forward pass to the arrival of the backward pass. Or give both parts of it.",
    )
    tail_forward = Matrix(required=False, help_text="First part of the gap: until the client's last layers are done.")
    head_backward = Matrix(required=False, help_text="Second part of the gap: until the gradients are at the helper.")
    backward = Matrix(help_text="Duration of the backward pass on the helper.")
    tail = Matrix(help_text="From the end of the backward pass to the end of the client's batch.")
    name = Text(required=False, help_text="Name of the instance, for its readers: no plan depends on it.")
    note = Text(required=False, help_text="What is special about it, for its readers.")
    paper = Text(required=False, help_text="The paper it belongs to, for its readers.")
    expected = ByName(serializers.JSONField(), required=False, help_text="Known answers, for those who compare plans.")
    meta = ByName(serializers.JSONField(), required=False, help_text="Where it comes from, for its readers.")

    def to_internal_value(self, data: Any) -> Instance:
        """Return the instance."""
        try:
            check_size(data)
            instance = read_split_learning(data)
            check_names(instance)
            return instance
        except InvalidField as error:
            raise refused(error) from None
