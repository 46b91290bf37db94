"""Check every field of a cluster's document; an error names its field."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug

from cluster.models import (
    LARGEST_AMOUNT,
    LARGEST_CHUNKS,
    LARGEST_HORIZON,
    LARGEST_MB,
    LARGEST_MBPS,
    LARGEST_MINIBATCHES,
    LARGEST_SECONDS,
    LARGEST_SPEED,
    NAME,
    YEARS,
    ClockKind,
    MachineRole,
    ServerKind,
)
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import check_integer, check_list, check_number, check_object, shown

LARGEST_ROWS: Final = 10_000
TYPE_KEYS: Final = {MachineRole.WORKER: "worker_types", MachineRole.PS: "ps_types"}
STEP_KEYS: Final = {MachineRole.WORKER: "worker_step_s", MachineRole.PS: "ps_step_s"}
OPTIONAL: Final = ("note", "standing_by_default", "clock", "models", *TYPE_KEYS.values())
REQUIRED: Final = ("name", "title", "epoch", "slot_seconds", "horizon_slots", "resources", "servers")


def checked(document: object) -> Json:
    """The document with defaults filled in, the epoch a datetime in UTC and bandwidths decimals.

    Raises
    ------
    InvalidField
        If a field is missing, unknown or wrong.
    """
    facts = check_object("", document, required=REQUIRED, optional=OPTIONAL)
    resources = _rows("resources", facts["resources"], _resource)
    known = [resource["name"] for resource in resources]
    types = {
        key: _rows(key, facts.get(key, []), lambda field, value: _machine_type(field, value, known))
        for key in TYPE_KEYS.values()
    }
    by_step = {STEP_KEYS[role]: [machine["name"] for machine in types[TYPE_KEYS[role]]] for role in TYPE_KEYS}
    return {
        "name": _slug("name", facts["name"]),
        "title": _text("title", facts["title"], least=1, most=120),
        "note": _text("note", facts.get("note", ""), least=0, most=10_000),
        "epoch": _epoch("epoch", facts["epoch"]),
        "slot_seconds": check_integer("slot_seconds", facts["slot_seconds"], low=1),
        "horizon_slots": check_integer("horizon_slots", facts["horizon_slots"], low=1, high=LARGEST_HORIZON),
        "standing_by_default": _flag("standing_by_default", facts.get("standing_by_default", True)),
        "clock": _clock("clock", facts.get("clock", {"kind": "real"})),
        "resources": resources,
        **types,
        "servers": _rows("servers", facts["servers"], lambda field, value: _server(field, value, known)),
        "models": _rows("models", facts.get("models", []), lambda field, value: _model(field, value, by_step)),
    }


def _rows(field: str, value: object, check: Callable[[str, object], Json]) -> list[Json]:
    rows = check_list(field, value)
    if len(rows) > LARGEST_ROWS:
        raise InvalidField(field, f"expected at most {LARGEST_ROWS} entries, got {len(rows)}")
    checked_rows = [check(f"{field}[{i}]", row) for i, row in enumerate(rows)]
    first: dict[str, int] = {}
    for i, row in enumerate(checked_rows):
        if first.setdefault(row["name"], i) != i:
            raise InvalidField(
                f"{field}[{i}].name", f"expected a unique name, got {row['name']}, as {field}[{first[row['name']]}]"
            )
    return checked_rows


def _resource(field: str, value: object) -> Json:
    row = check_object(field, value, required=["name"], optional=["unit"])
    return {
        "name": _name(f"{field}.name", row["name"]),
        "unit": _text(f"{field}.unit", row.get("unit", "unit"), least=1, most=20),
    }


def _machine_type(field: str, value: object, resources: list[str]) -> Json:
    row = check_object(field, value, required=["name", "bandwidth_mbps", "demand"])
    demand = _amounts(f"{field}.demand", row["demand"], resources, low=1)
    if not demand:
        raise InvalidField(
            f"{field}.demand", "expected at least one resource, got none; a machine that takes nothing would be free"
        )
    return {
        "name": _name(f"{field}.name", row["name"]),
        "bandwidth_mbps": _bandwidth(f"{field}.bandwidth_mbps", row["bandwidth_mbps"]),
        "demand": demand,
    }


def _server(field: str, value: object, resources: list[str]) -> Json:
    row = check_object(field, value, required=["name", "capacity"], optional=["kind", "upload_delay_s", "storage_mb"])
    return {
        "name": _name(f"{field}.name", row["name"]),
        "kind": _choice(f"{field}.kind", row.get("kind", "edge"), ServerKind.values),
        "upload_delay_s": _number(f"{field}.upload_delay_s", row.get("upload_delay_s", 0), high=LARGEST_SECONDS),
        "storage_mb": _number(f"{field}.storage_mb", row["storage_mb"], high=LARGEST_MB)
        if "storage_mb" in row
        else None,
        "capacity": _amounts(f"{field}.capacity", row["capacity"], resources, low=0),
    }


def _model(field: str, value: object, types: dict[str, list[str]]) -> Json:
    row = check_object(field, value, required=["name", "gradient_mb", "chunks", "minibatches"], optional=types)
    return {
        "name": _name(f"{field}.name", row["name"]),
        "gradient_mb": _number(f"{field}.gradient_mb", row["gradient_mb"], high=LARGEST_MB),
        "chunks": check_integer(f"{field}.chunks", row["chunks"], low=1, high=LARGEST_CHUNKS),
        "minibatches": check_integer(f"{field}.minibatches", row["minibatches"], low=1, high=LARGEST_MINIBATCHES),
        **{
            key: {
                name: _number(f"{field}.{key}.{name}", seconds, high=LARGEST_SECONDS)
                for name, seconds in check_object(
                    f"{field}.{key}", row.get(key, {}), required=[], optional=names
                ).items()
            }
            for key, names in types.items()
        },
    }


def _clock(field: str, value: object) -> Json:
    row = check_object(field, value, required=["kind"], optional=["speed"])
    speed = _number(f"{field}.speed", row.get("speed", 1), high=LARGEST_SPEED)
    if speed <= 0:
        raise InvalidField(f"{field}.speed", f"expected more than 0, got {shown(row['speed'])}")
    return {"kind": _choice(f"{field}.kind", row["kind"], ClockKind.values), "speed": speed}


def _epoch(field: str, value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not YEARS[0] <= moment.year < YEARS[1]:
        wanted = f'a time with its zone, {YEARS[0]} to {YEARS[1]}, such as "2026-01-05T00:00:00+00:00"'
        raise InvalidField(field, f"expected {wanted}, got {shown(value)}")
    return moment.astimezone(UTC)


def _bandwidth(field: str, value: object) -> Decimal:
    exact = Decimal(str(_number(field, value, high=LARGEST_MBPS)))
    if exact <= 0 or exact != round(exact, 4):
        raise InvalidField(field, f"expected more than 0, with at most 4 decimals, got {shown(value)}")
    return round(exact, 4)


def _number(field: str, value: object, *, high: float) -> float:
    if isinstance(value, str):
        raise InvalidField(field, f"expected a number, got {shown(value)}")
    # SQLite keeps no negative zero: what is stored must read back as it was exported.
    return check_number(field, value, high=high) + 0.0


def _amounts(field: str, value: object, resources: list[str], *, low: int) -> dict[str, int]:
    row = check_object(field, value, required=[], optional=resources)
    return {
        name: check_integer(f"{field}.{name}", amount, low=low, high=LARGEST_AMOUNT) for name, amount in row.items()
    }


def _flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidField(field, f"expected true or false, got {shown(value)}")
    return value


def _choice(field: str, value: object, known: Iterable[str]) -> str:
    if not isinstance(value, str) or value not in known:
        raise InvalidField(field, f"expected {' or '.join(known)}, got {shown(value)}")
    return value


def _text(field: str, value: object, *, least: int, most: int) -> str:
    if not isinstance(value, str) or not least <= len(value) <= most:
        raise InvalidField(field, f"expected a string of {least} to {most} characters, got {shown(value)}")
    # Half a surrogate pair cannot be encoded, and PostgreSQL stores no NUL.
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidField(field, f"expected a string without NUL and lone surrogates, got {value[:60]!a}")
    return value


def _name(field: str, value: object) -> str:
    name = _text(field, value, least=1, most=60)
    try:
        NAME(name)
    except ValidationError:
        raise InvalidField(
            field, f"expected letters, digits, dots, dashes and underscores, got {shown(value)}"
        ) from None
    return name


def _slug(field: str, value: object) -> str:
    name = _text(field, value, least=1, most=60)
    try:
        validate_slug(name)
    except ValidationError:
        raise InvalidField(field, f"expected letters, digits, dashes and underscores, got {shown(value)}") from None
    return name
