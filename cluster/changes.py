"""The record of who changed what, when and from where, with the values before and after.

Entries are rows of django-auditlog. Rows of the models in `record` are compared whenever they are saved. Changes that
no single row shows (a cluster's document, a bid's end, a policy, a server out of service) are noted where they are
made, in the same transaction. What a market decides by itself is not in here: its events are a record of their own.
Submissions and decisions add no entry and no query.
"""

import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from auditlog.models import LogEntry
from auditlog.registry import auditlog
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.db.models.signals import pre_save
from django.http import HttpRequest, HttpResponseBase

from cluster.addresses import address_of
from cluster.documents import export_cluster
from cluster.models import Cluster
from scheduling.model.types import Json

Pair = tuple[object, object]
"""The value before and the value after."""

CLOCK: Final = ("clock_kind", "clock_running", "clock_speed", "clock_offset_s")
"""Fields of a cluster that are no part of its document, or change without the guards."""
VIA: Final = (("/api/", "REST"), ("/admin/", "admin"))
LONGEST: Final = 300
"""Characters of a value; a longer one is cut."""
VERBS: Final = {LogEntry.Action.CREATE: "created", LogEntry.Action.UPDATE: "changed", LogEntry.Action.DELETE: "deleted"}

_request: ContextVar[HttpRequest | None] = ContextVar("request of a change", default=None)


def record(model: type[Model], *, fields: tuple[str, ...] = (), hidden: tuple[str, ...] = (), **options: Any) -> None:
    """Record every row of this model that is created, saved or deleted: these fields, all if none is named.

    Values of `hidden` fields are not shown; that they changed is. If the model has a method `get_additional_data`, its
    `cluster` and `team` say whose change it is, as those of `note`.
    """
    if not auditlog.contains(model):
        auditlog.register(
            model,
            include_fields=list(fields or (field.name for field in model._meta.concrete_fields)),
            mask_fields=list(hidden),
            mask_callable="cluster.changes.hide",
            **options,
        )


def hide(_value: str) -> str:
    """Return what is shown instead of a secret."""
    return "hidden"


def note(
    row: Model, what: str, changes: Mapping[str, Pair], *, cluster: str = "", team: int | None = None, name: str = ""
) -> None:
    """Record a change that was made in the open transaction. Nothing is recorded if no value has changed.

    `cluster` and `team` (its key) say whose change it is, so that operators of the cluster and administrators of the
    team may read it; `name` says which row it is, if its text does not.
    """
    changed = {key: [_text(before), _text(after)] for key, (before, after) in changes.items() if before != after}
    if changed:
        names = {"object_repr": name} if name else {}
        of_team = {} if team is None else {"team": team}
        LogEntry.objects.log_create(
            row,
            action=LogEntry.Action.UPDATE,
            changes=changed,
            additional_data={"what": what, "cluster": cluster, **of_team},
            **names,
        )


def note_document(cluster: Cluster) -> None:
    """Record how a cluster's document differs from the one that was recorded last."""
    entries = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(Cluster), object_id=cluster.pk)
    known = entries.exclude(serialized_data=None).order_by("-pk").values_list("serialized_data", flat=True).first()
    document = export_cluster(cluster)
    before, after = _flat(known or {}), _flat(document)
    changed = {
        key: [_text(before.get(key)), _text(after.get(key))]
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    }
    if changed:
        LogEntry.objects.log_create(
            cluster,
            action=LogEntry.Action.UPDATE if known else LogEntry.Action.CREATE,
            changes=changed,
            serialized_data=document,
            additional_data={"what": "cluster changed" if known else "cluster described", "cluster": cluster.name},
        )


def in_request() -> bool:
    """Whether this thread answers a request; what workers and executors do is in the events of markets."""
    return _request.get() is not None


def name_actors(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: changes in a request are those of its user, which REST finds out only in its view."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        token = _request.set(request)
        try:
            return get_response(request)
        finally:
            _request.reset(token)

    return middleware


def complete(sender: object, instance: LogEntry, **_: object) -> None:
    """Add to an entry who made the change and from where; connected to the saving of entries."""
    if instance.pk is not None:
        return
    request = _request.get()
    data = dict(instance.additional_data or {})
    data.setdefault("what", f"{instance.content_type.model_class()._meta.verbose_name} {VERBS[instance.action]}")
    if request is None:
        data["via"] = Path(sys.argv[0]).name if len(sys.argv) < 2 else f"{Path(sys.argv[0]).name} {sys.argv[1]}"
    else:
        user = getattr(request, "user", None)
        instance.actor = user if user is not None and user.is_authenticated else None
        instance.remote_addr = address_of(request)
        instance.cid = getattr(request, "request_id", None)
        data["via"] = next((via for prefix, via in VIA if request.path.startswith(prefix)), "page")
    data["who"] = instance.actor.get_username() if instance.actor else ""
    instance.additional_data = data


def connect() -> None:
    """Complete every entry before it is saved."""
    pre_save.connect(complete, sender=LogEntry, dispatch_uid="actors of changes")


def _flat(value: Json | Any, path: str = "") -> dict[str, object]:
    """Return the leaves of a document by their paths; rows of lists are named by their names."""
    if isinstance(value, dict):
        rows = ((f"{path}.{key}" if path else str(key), one) for key, one in value.items())
    elif isinstance(value, list) and all(isinstance(one, dict) and "name" in one for one in value):
        rows = (
            (f"{path}.{one['name']}", {k: v for k, v in one.items() if k != "name"} or one["name"]) for one in value
        )
    else:
        return {path: value}
    return {key: leaf for below, one in rows for key, leaf in _flat(one, below).items()}


def _text(value: object) -> str | None:
    if value is None:
        return None
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
