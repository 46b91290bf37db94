"""A cluster as one JSON document, out and in. Exporting what was imported gives the same bytes."""

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import ProtectedError

from cluster import guards
from cluster.clock import set_clock
from cluster.document_fields import STEP_KEYS, TYPE_KEYS, checked
from cluster.models import (
    Capacity,
    ClockKind,
    Cluster,
    Demand,
    MachineRole,
    MachineType,
    ModelProfile,
    Resource,
    Server,
    StepTime,
)
from scheduling.model.errors import InvalidField
from scheduling.model.json_text import read_json
from scheduling.model.types import Json

Row = TypeVar("Row", Resource, MachineType, Server, ModelProfile)


def export_cluster(cluster: Cluster) -> Json:
    """The cluster's document: plain JSON values, lists in the order of their positions."""
    types = list(cluster.machine_types.prefetch_related("demands__resource"))
    return {
        "name": cluster.name,
        "title": cluster.title,
        "note": cluster.note,
        "epoch": cluster.epoch.isoformat(),
        "slot_seconds": cluster.slot_seconds,
        "horizon_slots": cluster.horizon_slots,
        **({} if cluster.standing_by_default else {"standing_by_default": False}),
        "clock": {"kind": str(cluster.clock_kind), "speed": cluster.clock_speed},
        "resources": [{"name": r.name, "unit": r.unit} for r in cluster.resources.all()],
        **{key: [_export_type(m) for m in types if m.role == role] for role, key in TYPE_KEYS.items()},
        "servers": [
            {
                "name": server.name,
                "kind": str(server.kind),
                "upload_delay_s": server.upload_delay_s,
                **({} if server.storage_mb is None else {"storage_mb": server.storage_mb}),
                "capacity": _amounts(server.capacities.all()),
            }
            for server in cluster.servers.prefetch_related("capacities__resource")
        ],
        # Not the database's order: collations differ.
        "models": [
            _export_profile(profile)
            for profile in sorted(
                cluster.profiles.prefetch_related("step_times__machine_type"), key=lambda profile: profile.name
            )
        ],
    }


def document_text(cluster: Cluster) -> str:
    """The cluster's document as text; the same facts give the same bytes."""
    return json.dumps(export_cluster(cluster), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_document(text: str | bytes) -> object:
    """The JSON value in a file; raises InvalidField if it is not JSON."""
    try:
        document: object = read_json(text)
    except ValueError as error:
        raise InvalidField("document", f"expected JSON in UTF-8, got an invalid document: {error}") from None
    return document


def import_cluster(document: object) -> Cluster:
    """Create the cluster a document describes, or make the cluster of that name so.

    Rows are matched by name, so that what a market has committed stays attached to its servers and types.

    Raises
    ------
    InvalidField
        If a field is missing, unknown or wrong; nothing is stored.
    cluster.guards.ChangeRefused
        If the change would break what a market has promised; nothing is stored.
    """
    facts = checked(document)
    with transaction.atomic():
        before = Cluster.objects.select_for_update().filter(name=facts["name"]).first()
        cluster = Cluster.objects.get(pk=before.pk) if before else Cluster(name=facts["name"])
        for key in ("title", "note", "epoch", "slot_seconds", "horizon_slots", "standing_by_default"):
            setattr(cluster, key, facts[key])
        _apply_clock(cluster, **facts["clock"])
        try:
            _store_rows(cluster, facts)
        except ProtectedError as error:
            names = ", ".join(sorted({str(row) for row in error.protected_objects})[:5])
            raise guards.ChangeRefused([f"Removed from the document, but recorded jobs hold it: {names}."]) from error
        guards.consult(cluster, before=before)
    return cluster


def _amounts(rows: Iterable[Demand | Capacity]) -> dict[str, int]:
    ordered = sorted(rows, key=lambda row: (row.resource.position, row.resource_id))
    return {row.resource.name: row.amount for row in ordered}


def _export_type(machine: MachineType) -> Json:
    bandwidth = Decimal(machine.bandwidth_mbps)
    return {
        "name": machine.name,
        "bandwidth_mbps": int(bandwidth) if bandwidth == int(bandwidth) else float(bandwidth),
        "demand": _amounts(machine.demands.all()),
    }


def _export_profile(profile: ModelProfile) -> Json:
    steps: dict[str, dict[str, float]] = {key: {} for key in STEP_KEYS.values()}
    for step in sorted(profile.step_times.all(), key=lambda s: (s.machine_type.position, s.machine_type_id)):
        steps[STEP_KEYS[MachineRole(step.machine_type.role)]][step.machine_type.name] = step.seconds
    return {
        "name": profile.name,
        "gradient_mb": profile.gradient_mb,
        "chunks": profile.chunks,
        "minibatches": profile.minibatches,
        **steps,
    }


def _apply_clock(cluster: Cluster, *, kind: str, speed: float) -> None:
    """Save the cluster with this clock; one that goes on being virtual is not set back."""
    if cluster.pk is None or cluster.clock_kind != kind:
        cluster.clock_kind = kind
        cluster.clock_speed = speed
        cluster.clock_offset_s, cluster.clock_origin = 0.0, None
        cluster.clock_running = kind == ClockKind.REAL
    cluster.save()
    if kind == ClockKind.VIRTUAL and cluster.clock_speed != speed:
        set_clock(cluster, speed=speed)


def _store_rows(cluster: Cluster, facts: Json) -> None:
    resources = _match(Resource, {"cluster": cluster}, _placed(facts["resources"], ["unit"]))
    types: dict[MachineRole, dict[str, MachineType]] = {}
    for role, key in TYPE_KEYS.items():
        rows = _placed(facts[key], ["bandwidth_mbps"])
        types[role] = _match(MachineType, {"cluster": cluster, "role": role}, rows)
    Demand.objects.filter(machine_type__cluster=cluster).delete()
    Demand.objects.bulk_create(
        Demand(machine_type=types[role][row["name"]], resource=resources[name], amount=amount)
        for role, key in TYPE_KEYS.items()
        for row in facts[key]
        for name, amount in row["demand"].items()
    )
    servers = _match(Server, {"cluster": cluster}, _placed(facts["servers"], ["kind", "upload_delay_s", "storage_mb"]))
    Capacity.objects.filter(server__cluster=cluster).delete()
    Capacity.objects.bulk_create(
        Capacity(server=servers[row["name"]], resource=resources[name], amount=amount)
        for row in facts["servers"]
        for name, amount in row["capacity"].items()
    )
    fields = ("gradient_mb", "chunks", "minibatches")
    profiles = _match(
        ModelProfile, {"cluster": cluster}, {row["name"]: {key: row[key] for key in fields} for row in facts["models"]}
    )
    StepTime.objects.filter(profile__cluster=cluster).delete()
    StepTime.objects.bulk_create(
        StepTime(profile=profiles[row["name"]], machine_type=types[role][name], seconds=seconds)
        for row in facts["models"]
        for role, key in STEP_KEYS.items()
        for name, seconds in row[key].items()
    )


def _placed(rows: list[Json], fields: list[str]) -> dict[str, Json]:
    return {row["name"]: {"position": i, **{key: row[key] for key in fields}} for i, row in enumerate(rows)}


def _match(model: type[Row], among: dict[str, Any], wanted: dict[str, Json]) -> dict[str, Row]:
    """Make the rows `among` which we look those wanted, by name; a row whose name stays keeps its key."""
    objects = model._default_manager.filter(**among)
    objects.exclude(name__in=list(wanted)).delete()
    kept = {row.name: row for row in objects}
    for name, row in kept.items():
        for key, value in wanted[name].items():
            setattr(row, key, value)
    fields = list(next(iter(wanted.values()), {}))
    if kept:
        model._default_manager.bulk_update(list(kept.values()), fields, batch_size=200)
    new = [model(**among, name=name, **values) for name, values in wanted.items() if name not in kept]
    model._default_manager.bulk_create(new)
    return kept | {row.name: row for row in new}
