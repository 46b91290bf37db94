"""Profiles and scenarios in REST: instances that are made of measured devices."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from collections.abc import Mapping
from typing import Any, Final

from rest_framework.exceptions import ValidationError
from rest_framework.fields import empty

from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.split_learning.document import LONGEST_NAME
from scheduling.split_learning.instance import MOST_CLIENTS, MOST_HELPERS
from studies.split_learning.scenarios import SLOT_MS
from studies.split_learning.schemas.instance import (
    LONGEST_SLOT_MS,
    MOST_PAIRS,
    check_pairs,
    check_size,
    gigabytes_in,
    name_in,
    slot_ms_in,
)
from web.fields import Choice, Integer, Quantity, Rows, Text
from web.schema import Schema, refused

LEAST_MBPS: Final = 0.001
LARGEST_MBPS: Final = 10**6
MOST_LAYERS: Final = 100


def _rate(text: str) -> Quantity:
    return Quantity(LEAST_MBPS, LARGEST_MBPS, required=False, help_text=f"{text}, Mbit/s.")


def _cuts(text: str) -> Rows:
    return Rows(Integer(1, MOST_LAYERS), least=2, most=2, required=False, help_text=text)


def _model() -> Choice:
    return Choice(sorted(SLOT_MS), help_text="The network whose layers were measured, with batches of 128 images.")


class _Named(Schema):
    # Errors end with the name of the helper or client, which is easier to find in a file than its number.
    named_by = "name"

    def run_validation(self, data: Any = empty) -> Any:
        """Add the name to every error."""
        try:
            return super().run_validation(data)
        except ValidationError as error:
            who = data.get(self.named_by) if isinstance(data, Mapping) else None
            if not isinstance(who, str) or not isinstance(error.detail, dict):
                raise
            raise ValidationError({key: _with_name(rows, who) for key, rows in error.detail.items()}) from None


class _Device(_Named):
    name = name_in("helper or client")
    device = Text(help_text="A measured device: vm or m1 as helper; rpi4, rpi3, jetson-cpu or jetson-gpu as client.")
    other = Text(required=False, help_text="A second device. The times lie between those of both devices.")
    share = Quantity(0, 1, required=False, help_text="Weight of the second device's times, 0 to 1.")

    def validate(self, attrs: Json) -> Json:
        """Check that `other` and `share` are given together."""
        if ("other" in attrs) != ("share" in attrs):
            raise refused(InvalidField("share", "expected other and share together, got one of them"))
        return attrs


def _with_name(detail: Any, who: str) -> Any:
    if isinstance(detail, Mapping):
        return {key: _with_name(inner, who) for key, inner in detail.items()}
    return [f"{message} ({who[:LONGEST_NAME]})" for message in detail]


class ProfiledHelperIn(_Device):
    memory_gb = gigabytes_in("Memory of the helper, GB. With a cluster, the memory of its server if not given.")


class ProfiledClientIn(_Device):
    cuts = _cuts("The client's own cuts, as those of the profile.")
    demand_gb = gigabytes_in("Memory that it takes on its helper, GB; else weights and activations of the part there.")
    mbps = _rate("Rate of the client's links")
    up_mbps, down_mbps = _rate("From clients to helpers, if different"), _rate("From helpers to clients, if different")


class LinkIn(_Named):
    named_by = "client"
    client = Text(help_text="Name of the client.")
    helper = Text(help_text="Name of the helper.")
    mbps = _rate("Rate of this link")
    up_mbps, down_mbps = _rate("From clients to helpers, if different"), _rate("From helpers to clients, if different")


class ProfileIn(Schema):
    model = _model()
    cuts = _cuts("Last layer of the client's first part and of the helper's part; the paper's cuts if not given.")
    slot_ms = slot_ms_in(LONGEST_SLOT_MS, "the paper's")
    mbps = _rate("Rate of all links without a rate of their own")
    up_mbps, down_mbps = _rate("From clients to helpers, if different"), _rate("From helpers to clients, if different")
    helpers = Rows(ProfiledHelperIn(), least=1, most=MOST_HELPERS, help_text="They run the middle part of the network.")
    clients = Rows(ProfiledClientIn(), least=1, most=MOST_CLIENTS, help_text="They run the first and the last part.")
    links = Rows(
        LinkIn(), most=2 * MOST_PAIRS, required=False, help_text="Single links; they take precedence over clients."
    )

    def to_internal_value(self, data: Any) -> Any:
        """Check the sizes of lists before their entries."""
        try:
            check_size(data)
            _check_links(data)
        except InvalidField as error:
            raise refused(error) from None
        return super().to_internal_value(data)


def _check_links(data: Json) -> None:
    """Refuse too many links before they are read."""
    helpers, clients, links = (data.get(name) for name in ("helpers", "clients", "links"))
    if isinstance(helpers, list) and isinstance(clients, list) and isinstance(links, list):
        most = 2 * len(helpers) * len(clients)
        if 0 < most < len(links):
            raise InvalidField("links", f"expected at most two for each client and helper, {most}, got {len(links)}")


class ScenarioIn(Schema):
    number = Integer(
        1,
        2,
        required=False,
        help_text="1 (if not given): the paper's cuts, helpers with 16 GiB; 2: mixed devices, drawn cuts, less memory.",
    )
    model = _model()
    clients = Integer(1, 1000, help_text="Number of clients.")
    helpers = Integer(1, 1000, help_text="Number of helpers.")
    slot_ms = slot_ms_in(LONGEST_SLOT_MS, "the paper's")
    seed = Integer(0, 10**9, required=False, help_text="Seed of devices, cuts, links and memory; 0 if not given.")

    def validate(self, attrs: Json) -> Json:
        """Check the size of the instance."""
        try:
            check_pairs(attrs["helpers"], attrs["clients"], "clients")
        except InvalidField as error:
            raise refused(error) from None
        return attrs
