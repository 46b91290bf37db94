"""Check every field of a cluster's document; an error names all that are wrong."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
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
    NAME_IN_WORDS,
    SLUG_IN_WORDS,
    YEARS,
    ClockKind,
    MachineRole,
    ServerKind,
)
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Json
from scheduling.model.validation import (
    MOST_NAMED,
    check_each,
    check_flag,
    check_integer,
    check_list,
    check_named,
    check_number,
    check_object,
    shown,
)

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
        If fields are missing, unknown or wrong; it names them all, those of one object once none is missing or unknown.
    """
    facts = check_object("", document, required=REQUIRED, optional=OPTIONAL)
    resources = _stated_names(facts["resources"])
    by_step = {STEP_KEYS[role]: _stated_names(facts.get(TYPE_KEYS[role])) for role in TYPE_KEYS}
    checks: dict[str, Callable[[], object]] = {
        "name": partial(_slug, "name", facts["name"]),
        "title": partial(_text, "title", facts["title"], least=1, most=120),
        "note": partial(_text, "note", facts.get("note", ""), least=0, most=10_000),
        "epoch": partial(_epoch, "epoch", facts["epoch"]),
        "slot_seconds": partial(check_integer, "slot_seconds", facts["slot_seconds"], low=1),
        "horizon_slots": partial(check_integer, "horizon_slots", facts["horizon_slots"], low=1, high=LARGEST_HORIZON),
        "standing_by_default": partial(check_flag, "standing_by_default", facts.get("standing_by_default", True)),
        "clock": partial(_clock, "clock", facts.get("clock", {"kind": "real"})),
        "resources": partial(_rows, "resources", facts["resources"], _resource),
    }
    for key in TYPE_KEYS.values():
        checks[key] = partial(_rows, key, facts.get(key, []), partial(_machine_type, resources=resources))
    checks["servers"] = partial(_rows, "servers", facts["servers"], partial(_server, resources=resources))
    checks["models"] = partial(_rows, "models", facts.get("models", []), partial(_model, types=by_step))
    return check_named(checks)


def _stated_names(rows: object) -> list[str]:
    """Return the names of rows that are not checked yet, so that what refers to them can be checked beside them."""
    names = [row.get("name") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [name for name in names if isinstance(name, str)]


def _rows(field: str, value: object, check: Callable[[str, object], Json]) -> list[Json]:
    rows = check_list(field, value)
    if len(rows) > LARGEST_ROWS:
        raise InvalidField(field, f"expected at most {LARGEST_ROWS} entries, got {len(rows)}")
    checked_rows = check_each(partial(check, f"{field}[{i}]", row) for i, row in enumerate(rows))
    first: dict[str, int] = {}
    wrong = [
        InvalidField(
            f"{field}[{i}].name", f"expected a unique name, got {row['name']}, as {field}[{first[row['name']]}]"
        )
        for i, row in enumerate(checked_rows)
        if first.setdefault(row["name"], i) != i
    ]
    refuse_all(wrong[:MOST_NAMED])
    return checked_rows


def _resource(field: str, value: object) -> Json:
    row = check_object(field, value, required=["name"], optional=["unit"])
    return check_named(
        {
            "name": partial(_name, f"{field}.name", row["name"]),
            "unit": partial(_text, f"{field}.unit", row.get("unit", "unit"), least=1, most=20),
        }
    )


def _machine_type(field: str, value: object, resources: list[str]) -> Json:
    row = check_object(field, value, required=["name", "bandwidth_mbps", "demand"])
    checks: dict[str, Callable[[], object]] = {
        "name": partial(_name, f"{field}.name", row["name"]),
        "bandwidth_mbps": partial(_bandwidth, f"{field}.bandwidth_mbps", row["bandwidth_mbps"]),
        "demand": partial(_demand, f"{field}.demand", row["demand"], resources),
    }
    return check_named(checks)


def _demand(field: str, value: object, resources: list[str]) -> dict[str, int]:
    demand = _amounts(field, value, resources, low=1)
    if not demand:
        raise InvalidField(
            field, "expected at least one resource, got none; a machine that takes nothing would be free"
        )
    return demand


def _server(field: str, value: object, resources: list[str]) -> Json:
    row = check_object(field, value, required=["name", "capacity"], optional=["kind", "upload_delay_s", "storage_mb"])
    delay = row.get("upload_delay_s", 0)
    checks: dict[str, Callable[[], object]] = {
        "name": partial(_name, f"{field}.name", row["name"]),
        "kind": partial(_choice, f"{field}.kind", row.get("kind", "edge"), ServerKind.values),
        "upload_delay_s": partial(_number, f"{field}.upload_delay_s", delay, high=LARGEST_SECONDS),
        "capacity": partial(_amounts, f"{field}.capacity", row["capacity"], resources, low=0),
    }
    if "storage_mb" in row:
        checks["storage_mb"] = partial(_number, f"{field}.storage_mb", row["storage_mb"], high=LARGEST_MB)
    return {"storage_mb": None} | check_named(checks)


def _model(field: str, value: object, types: dict[str, list[str]]) -> Json:
    row = check_object(field, value, required=["name", "gradient_mb", "chunks", "minibatches"], optional=types)
    whole = partial(check_integer, low=1)
    checks: dict[str, Callable[[], object]] = {
        "name": partial(_name, f"{field}.name", row["name"]),
        "gradient_mb": partial(_number, f"{field}.gradient_mb", row["gradient_mb"], high=LARGEST_MB),
        "chunks": partial(whole, f"{field}.chunks", row["chunks"], high=LARGEST_CHUNKS),
        "minibatches": partial(whole, f"{field}.minibatches", row["minibatches"], high=LARGEST_MINIBATCHES),
    }
    for key, names in types.items():
        checks[key] = partial(_step_times, f"{field}.{key}", row.get(key, {}), names)
    return check_named(checks)


def _step_times(field: str, value: object, names: list[str]) -> dict[str, float]:
    row = check_object(field, value, required=[], optional=names)
    return check_named(
        {name: partial(_number, f"{field}.{name}", seconds, high=LARGEST_SECONDS) for name, seconds in row.items()}
    )


def _clock(field: str, value: object) -> Json:
    row = check_object(field, value, required=["kind"], optional=["speed"])
    checks: dict[str, Callable[[], object]] = {
        "kind": partial(_choice, f"{field}.kind", row["kind"], ClockKind.values),
        "speed": partial(_speed, f"{field}.speed", row.get("speed", 1)),
    }
    return check_named(checks)


def _speed(field: str, value: object) -> float:
    speed = _number(field, value, high=LARGEST_SPEED)
    if speed <= 0:
        raise InvalidField(field, f"expected more than 0, got {shown(value)}")
    return speed


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
    amount_of = partial(check_integer, low=low, high=LARGEST_AMOUNT)
    return check_named({name: partial(amount_of, f"{field}.{name}", amount) for name, amount in row.items()})


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
        raise InvalidField(field, f"expected {NAME_IN_WORDS}, got {shown(value)}") from None
    return name


def _slug(field: str, value: object) -> str:
    name = _text(field, value, least=1, most=60)
    try:
        validate_slug(name)
    except ValidationError:
        raise InvalidField(field, f"expected {SLUG_IN_WORDS}, got {shown(value)}") from None
    return name
