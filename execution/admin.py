"""Execution in the admin: operators configure it and register programs; what ran is read-only."""

import json
import os
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.db import models
from django.http import HttpRequest

from auctions.admin.base import ReadOnlyAdmin
from cluster.json_field import JsonFormField
from cluster.models import Cluster, Server
from cluster.named_fields import NamesInWords
from execution import archives, overviews, programs
from execution.archives import LARGEST_ARCHIVE
from execution.models import (
    OVER,
    Checkpoint,
    Defect,
    EngineKind,
    Execution,
    Generation,
    Lease,
    Process,
    Program,
    Progress,
    Training,
)
from execution.places import archive_file

JSON_FIELDS: Final[dict[type[Any], dict[str, Any]]] = {models.JSONField: {"form_class": JsonFormField}}
FIRST_UID: Final = 200_000
"""Suggested beginning of the numbers of system users, above those of people and services."""


class ExecutionForm(forms.ModelForm):  # type: ignore[type-arg]
    """The execution of a cluster; each field that is wrong, or that cannot change now, has its own message."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None and os.geteuid() == 0:  # the executor may run as root, too
            self.initial.setdefault("first_uid", FIRST_UID)

    def clean(self) -> dict[str, Any]:
        """Check fields against others, and against what runs."""
        super().clean()
        data = self.cleaned_data
        for field, problem in self._wrong(data):
            self.add_error(field, problem)
        return self.cleaned_data

    def _wrong(self, data: dict[str, Any]) -> list[tuple[str, str]]:
        cluster: Cluster | None = data.get("cluster") or getattr(self.instance, "cluster", None)
        problems: list[tuple[str, str]] = []
        if cluster is not None and isinstance(data.get("addresses"), dict):
            known = set(Server.objects.filter(cluster=cluster).values_list("name", flat=True))
            if strange := sorted(data["addresses"].keys() - known):
                words = f"Expected names of servers of {cluster.name}, got {', '.join(strange)}."
                problems.append(("addresses", words))
        if data.get("own_programs") and not data.get("first_uid") and not data.get("users_trust_each_other"):
            words = (
                "Expected first_uid, or that users trust each other, got neither: programs of all users would run as"
            )
            problems.append(("own_programs", f"{words} one system user, and could read and change each other's files."))
        path = data.get("slurm_configuration", "")
        if path and not path.startswith("/"):
            problems.append(("slurm_configuration", f"Expected a whole path, which begins with /, got {path}."))
        if data.get("engine") == EngineKind.LOCAL:
            problems += [
                (name, "Expected nothing: only the engine Slurm uses it.")
                for name in ("slurm_configuration", "sbatch_options")
                if data.get(name)
            ]
        elif data.get("runs_plans"):
            problems.append(("runs_plans", "Expected the engine local, on which alone plans run, got Slurm."))
        if self.instance.pk is not None:
            problems += self._fixed(self.instance)
        return problems

    def _fixed(self, execution: Execution) -> list[tuple[str, str]]:
        """Return the changes that would lose what runs, or what a later start has to read."""
        problems: list[tuple[str, str]] = []
        changed = set(self.changed_data)
        if overviews.live(execution).exists():
            problems += [
                (name, "It cannot change while processes run: switch execution off, and wait until all have ended.")
                for name in ("engine", "slurm_configuration")
                if name in changed
            ]
        if "first_uid" in changed:
            going = Training.objects.filter(bid__market__cluster=execution.cluster_id).exclude(state__in=OVER)
            if going.exists():
                words = "It cannot change while a training is not over: another user cannot read its checkpoints."
                problems.append(("first_uid", words))
        return problems


@admin.register(Execution)
class ExecutionAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The execution of clusters, and what runs there now."""

    form = ExecutionForm
    formfield_overrides = {models.URLField: {"assume_scheme": "https"}, **JSON_FIELDS}
    list_display = ["cluster", "is_on", "engine", "executor", "trainings", "alive", "late"]
    list_filter = ["is_on", "engine"]
    list_select_related = ["cluster"]
    # Deleting several at once would pass over `has_delete_permission` of each.
    actions = None
    fieldsets = [
        (None, {"fields": ["cluster", "is_on", "engine", "grace_s", "addresses", "service_url"]}),
        ("Users", {"fields": ["first_uid", "allow_root", "own_programs", "users_trust_each_other", "runs_plans"]}),
        ("Limits", {"fields": ["memory_mb", "processes", "open_files", "file_mb", "niceness", "keep_days"]}),
        ("Slurm", {"fields": ["slurm_configuration", "sbatch_options"]}),
        ("Now", {"fields": ["executor", "trainings", "alive", "late"]}),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: Execution | None = None) -> Any:
        """A row never moves to another cluster; what runs is shown."""
        shown = ["executor", "trainings", "alive", "late"]
        return shown if obj is None else ["cluster", *shown]

    def has_delete_permission(self, request: HttpRequest, obj: Execution | None = None) -> bool:
        """Refuse while processes run: without the row no executor would stop them."""
        return super().has_delete_permission(request, obj) and (obj is None or not overviews.live(obj).exists())

    @admin.display(description="executor")
    def executor(self, execution: Execution) -> str:
        """Whether an executor is active; one serves all clusters."""
        return _active(Lease.objects.first())

    @admin.display(description="trainings")
    def trainings(self, execution: Execution) -> str:
        """Numbers of trainings by state."""
        return _counts(overviews.trainings_by_state(execution)) if execution.pk else "-"

    @admin.display(description="processes alive")
    def alive(self, execution: Execution) -> str:
        """Numbers of processes that have not ended, by server."""
        if not execution.pk:
            return "-"
        busy = {one.name: one.running + one.sent for one in overviews.servers(execution) if one.running + one.sent}
        return _counts(busy) or "none"

    @admin.display(description="late")
    def late(self, execution: Execution) -> str:
        """List what should have started or ended by now."""
        return "; ".join(map(str, overviews.late(execution))) or "nothing" if execution.pk else "-"


class ProgramForm(NamesInWords):
    """A program that bids may name."""

    archive = forms.FileField(
        required=False,
        help_text=f"A tar.gz or zip file of at most {LARGEST_ARCHIVE:,} bytes, instead of a working directory; only for"
        " a new program.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is not None:
            del self.fields["archive"]

    def clean_working_directory(self) -> str:
        """Refuse a path that depends on where the executor runs."""
        path: str = self.cleaned_data["working_directory"]
        if path and not path.startswith("/"):
            raise forms.ValidationError(f"Expected a whole path, which begins with /, got {path}.")
        return path

    def clean_archive(self) -> bytes | None:
        """Return the content of the archive, if there is one; it must be one that can be unpacked."""
        file = self.cleaned_data["archive"]
        if file is None:
            return None
        data: bytes = file.read(LARGEST_ARCHIVE + 1)
        try:
            archives.check(data)
        except archives.BadArchive as error:
            raise forms.ValidationError(str(error)) from None
        return data

    def clean_is_open(self) -> bool:
        """Refuse to open a program again whose archive was deleted, since no job needed it."""
        is_open: bool = self.cleaned_data["is_open"]
        sha256 = self.instance.archive_sha256
        if is_open and sha256 and not archive_file(self.instance.cluster.name, sha256).exists():
            raise forms.ValidationError("Expected a program whose archive is kept, got a deleted one.")
        return is_open

    def clean(self) -> dict[str, Any]:
        """Check that there is either a directory or an archive."""
        path, archive = self.cleaned_data.get("working_directory"), self.cleaned_data.get("archive")
        has_archive = bool(archive or self.instance.archive_sha256)
        if not self.errors and bool(path) == has_archive:
            got = "both" if path else "none"
            self.add_error("working_directory", f"Expected a directory or an archive, got {got}.")
        name, cluster = self.cleaned_data.get("name"), self.cleaned_data.get("cluster")
        if name and cluster and programs.is_taken(cluster, None, name):
            self.add_error("name", f"Expected a name that no program of this cluster has, got {name}.")
        if archive and not self.errors:
            self.instance.archive_sha256 = archives.sha256_of(archive)
            self.instance.archive_bytes = len(archive)
        return self.cleaned_data


@admin.register(Program)
class ProgramAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Programs that bids of a cluster may name. Close one instead of deleting it: bids that wait for it would fail."""

    form = ProgramForm
    formfield_overrides = JSON_FIELDS
    fields = ["cluster", "name", "arguments", "working_directory", "archive", "environment", "is_open"]
    list_display = ["name", "owner", "cluster", "command", "directory", "is_open"]
    list_filter = ["cluster", "is_open", "owner"]
    list_select_related = ["cluster", "owner"]
    search_fields = ["name", "owner__username"]

    def get_readonly_fields(self, request: HttpRequest, obj: Program | None = None) -> Any:
        """Bids name it by cluster and name, so these stay."""
        return [] if obj is None else ["cluster", "name", "owner", "archive_sha256", "archive_bytes"]

    def get_fields(self, request: HttpRequest, obj: Program | None = None) -> Any:
        """Show the archive, which stays as it is: bids name what is in it. Register another program for another one."""
        fields = list(super().get_fields(request, obj))
        if obj is None:
            return fields
        own = ["archive_sha256", "archive_bytes"] if obj.archive_sha256 else ["working_directory"]
        shown = [name for one in fields for name in (own if one == "working_directory" else [one]) if name != "archive"]
        return [*shown, "owner"]

    def save_model(self, request: HttpRequest, obj: Program, form: Any, change: bool) -> None:
        """Store the archive before the row that names it."""
        if archive := form.cleaned_data.get("archive"):
            archives.store(archive_file(obj.cluster.name, obj.archive_sha256), archive)
        super().save_model(request, obj, form, change)

    @admin.display(description="directory or archive")
    def directory(self, program: Program) -> str:
        """The directory in which it starts, or the beginning of its archive's hash."""
        return program.working_directory or f"archive {program.archive_sha256[:12]}"

    @admin.display(description="arguments")
    def command(self, program: Program) -> str:
        """The program and its first arguments."""
        return json.dumps(program.arguments, ensure_ascii=False)


@admin.register(Training)
class TrainingAdmin(ReadOnlyAdmin):
    """The trainings of bids, the newest first."""

    list_display = ["bid", "owner", "program", "state", "done", "loss", "retries", "why"]
    list_filter = ["state", "bid__market", "program"]
    list_select_related = ["bid__market__cluster", "bid__owner", "program"]
    search_fields = ["bid__label", "bid__owner__username", "=bid__sequence", "reason"]

    @admin.display(description="owner")
    def owner(self, training: Training) -> str:
        """The user whose bid it is."""
        return str(training.bid.owner)

    @admin.display(description="done")
    def done(self, training: Training) -> str:
        """Steps, of how many if the bid states that."""
        return f"{training.step}" if training.steps is None else f"{training.step} of {training.steps}"

    @admin.display(description="reason")
    def why(self, training: Training) -> str:
        """The first line of the reason."""
        return training.reason.partition("\n")[0]


@admin.register(Generation)
class GenerationAdmin(ReadOnlyAdmin):
    """The starts of jobs, each with one set of machines."""

    list_display = ["training", "number", "state", "ending", "slot", "fence", "created_at", "stopped_at", "ended_at"]
    list_filter = ["state", "ending", "training__bid__market"]
    list_select_related = ["training__bid__market__cluster"]
    search_fields = ["=training__bid__sequence"]
    ordering = ["-pk"]


@admin.register(Process)
class ProcessAdmin(ReadOnlyAdmin):
    """Processes with their exit codes."""

    list_display = [
        "key",
        "role",
        "rank",
        "server",
        "machine_type",
        "state",
        "code",
        "started_at",
        "ended_at",
        "reason",
    ]
    list_filter = ["state", "role", "server", "generation__training__bid__market"]
    list_select_related = ["server"]
    search_fields = ["key", "reason", "server__name", "=generation__training__bid__sequence"]
    ordering = ["-pk"]


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnlyAdmin):
    """Checkpoints from which jobs go on."""

    list_display = ["generation", "step", "path", "found_at", "deleted_at"]
    list_filter = ["generation__training__bid__market"]
    list_select_related = ["generation__training__bid__market__cluster"]
    ordering = ["-pk"]


@admin.register(Progress)
class ProgressAdmin(ReadOnlyAdmin):
    """Steps that programs reported."""

    list_display = ["generation", "step", "loss", "seconds", "at"]
    list_filter = ["generation__training__bid__market"]
    list_select_related = ["generation__training__bid__market__cluster"]
    ordering = ["-pk"]


@admin.register(Defect)
class DefectAdmin(ReadOnlyAdmin):
    """Jobs and clusters on which the executor failed."""

    list_display = ["execution", "bid", "problem", "failures", "since", "at"]
    list_filter = ["execution"]
    list_select_related = ["execution__cluster", "bid__market__cluster"]
    search_fields = ["problem", "=bid__sequence"]


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    """The executor that is active."""

    list_display = ["holder", "fence", "active"]

    @admin.display(description="active", boolean=True)
    def active(self, lease: Lease) -> bool:
        """Whether the lease has not run out."""
        return overviews.is_live(lease)


def _active(lease: Lease | None) -> str:
    """Return whether an executor is active, in words."""
    if lease is None:
        return "none has ever been started: run manage.py execute"
    if not overviews.is_live(lease):
        return f"none is active, the last was {lease.holder}: run manage.py execute"
    return f"{lease.holder} is active, with fence {lease.fence}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name}: {number}" for name, number in counts.items())
