"""Clusters and their parts in the admin."""

from typing import Any

from auditlog.models import LogEntry
from axes.models import AccessAttempt
from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html_join

from cluster import clock
from cluster.documents import document_text, import_cluster, read_document
from cluster.guarded_admin import GuardedAdmin, PartInline, cluster_of
from cluster.guards import ChangeRefused
from cluster.models import (
    Capacity,
    ClockKind,
    Cluster,
    Demand,
    MachineType,
    ModelProfile,
    Resource,
    Server,
    StepTime,
)
from cluster.named_fields import NamedRows, NamesInWords
from scheduling.model.errors import InvalidField

LARGEST_FILE = 5_000_000

admin.site.unregister(LogEntry)  # the page of changes shows them


class DocumentForm(forms.Form):
    """A cluster's document, to be uploaded; imported when the form is valid."""

    document = forms.FileField(help_text="JSON, as exported here or by manage.py cluster_export.")
    imported: Cluster

    def clean_document(self) -> Any:
        """Import it; what is wrong with it is an error of the field."""
        file: Any = self.cleaned_data["document"]
        if (file.size or 0) > LARGEST_FILE:
            raise forms.ValidationError(f"Expected at most {LARGEST_FILE:,} bytes, got {file.size:,}.")
        try:
            self.imported = import_cluster(read_document(file.read()))
        except InvalidField as error:
            raise forms.ValidationError([str(one) for one in error.all_wrong]) from None
        except ChangeRefused as refusal:
            raise forms.ValidationError(refusal.problems) from None
        return file


class ResourceInline(admin.TabularInline):  # type: ignore[type-arg]
    """Resources have no page of their own."""

    model = Resource
    form = NamesInWords
    formset = NamedRows
    extra = 1


@admin.register(Cluster)
class ClusterAdmin(GuardedAdmin):
    """Time line, clock and resources of a cluster; its documents in and out."""

    list_display = ["title", "name", "slot_seconds", "horizon_slots", "clock_kind", "clock_running", "clock_speed"]
    list_filter = ["clock_kind", "clock_running"]
    search_fields = ["name", "title"]
    inlines = [ResourceInline]
    actions = ["export_json", "start_clock", "stop_clock", "run_faster", "run_slower"]
    fieldsets = [
        (None, {"fields": ["name", "title", "note", "parts"]}),
        ("Time line", {"fields": ["epoch", "slot_seconds", "horizon_slots"]}),
        ("Bids", {"fields": ["standing_by_default"]}),
        ("Clock", {"fields": ["clock_kind", "clock_speed", "clock_running", "reading"]}),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """The name stays: addresses, files of jobs and recorded changes have it. Actions of the list set clocks."""
        shown = ["parts", "clock_running", "reading"]
        return shown if obj is None else [*shown, "name", "clock_speed"]

    def get_urls(self) -> list[URLPattern]:
        """Add the import page."""
        page = path("import/", self.admin_site.admin_view(self.import_view), name="cluster_cluster_import")
        return [page, *super().get_urls()]

    def save_model(self, request: HttpRequest, obj: Cluster, form: Any, change: bool) -> None:
        """Start a new kind of clock from its beginning: a virtual one stands at the epoch until it is started."""
        if "clock_kind" in form.changed_data or not change:
            obj.clock_running = obj.clock_kind == ClockKind.REAL
            obj.clock_offset_s, obj.clock_origin = 0.0, None
        super().save_model(request, obj, form, change)

    @admin.display(description="parts")
    def parts(self, cluster: Cluster) -> str:
        """Links to the rows that are too many for this page."""
        if cluster.pk is None:
            return "Save first, then add machine types, servers and model profiles."
        links = (
            (reverse(f"admin:cluster_{model._meta.model_name}_changelist"), cluster.pk, rows.count(), words)
            for model, rows, words in (
                (MachineType, cluster.machine_types, "machine types"),
                (Server, cluster.servers, "servers"),
                (ModelProfile, cluster.profiles, "model profiles"),
            )
        )
        return format_html_join(" · ", '<a href="{}?cluster__id__exact={}">{} {}</a>', links)

    @admin.display(description="reads")
    def reading(self, cluster: Cluster) -> str:
        """Return the present reading of the clock."""
        if cluster.pk is None:
            return "-"
        now = clock.read(cluster)
        return f"{now.seconds:.0f} s after the epoch, in slot {now.slot}"

    @admin.action(description="Export as JSON (one cluster)", permissions=["view"])
    def export_json(self, request: HttpRequest, queryset: QuerySet[Cluster]) -> HttpResponse | None:
        """Download the document."""
        clusters = list(queryset[:2])
        if len(clusters) != 1:
            self.message_user(request, "Choose one cluster: a document holds one.", messages.ERROR)
            return None
        disposition = f'attachment; filename="{clusters[0].name}.json"'
        return HttpResponse(
            document_text(clusters[0]),
            content_type="application/json",
            headers={"Content-Disposition": disposition},
        )

    @admin.action(description="Start the virtual clock", permissions=["change"])
    def start_clock(self, request: HttpRequest, queryset: QuerySet[Cluster]) -> None:
        """Start the clock."""
        self._set_clocks(request, queryset, running=True)

    @admin.action(description="Stop the virtual clock", permissions=["change"])
    def stop_clock(self, request: HttpRequest, queryset: QuerySet[Cluster]) -> None:
        """Stop the clock."""
        self._set_clocks(request, queryset, running=False)

    @admin.action(description="Run the virtual clock twice as fast", permissions=["change"])
    def run_faster(self, request: HttpRequest, queryset: QuerySet[Cluster]) -> None:
        """Double the speed."""
        self._set_clocks(request, queryset, factor=2.0)

    @admin.action(description="Run the virtual clock half as fast", permissions=["change"])
    def run_slower(self, request: HttpRequest, queryset: QuerySet[Cluster]) -> None:
        """Halve the speed."""
        self._set_clocks(request, queryset, factor=0.5)

    def import_view(self, request: HttpRequest) -> HttpResponse:
        """Upload a document: a new cluster, or a change of the one of that name."""
        if not (self.has_add_permission(request) and self.has_change_permission(request)):
            raise PermissionDenied
        form = DocumentForm(request.POST or None, request.FILES or None)
        if request.method == "POST" and form.is_valid():
            self.message_user(request, f"Imported {form.imported}.", messages.SUCCESS)
            return HttpResponseRedirect(reverse("admin:cluster_cluster_change", args=[form.imported.pk]))
        context = {
            **self.admin_site.each_context(request),
            "title": "Import a cluster",
            "opts": self.opts,
            "form": form,
        }
        return TemplateResponse(request, "admin/cluster/cluster/import.html", context)

    def _set_clocks(
        self, request: HttpRequest, queryset: QuerySet[Cluster], *, running: bool | None = None, factor: float = 1.0
    ) -> None:
        for cluster in queryset:
            try:
                clock.set_clock(cluster, running=running, speed=cluster.clock_speed * factor)
            except ValueError as error:
                self.message_user(request, f"{error}.", messages.ERROR)
                continue
            pace = f"runs at {cluster.clock_speed:g} x" if cluster.clock_running else "stands"
            self.log_change(request, cluster, f"Clock {pace}.")
            self.message_user(request, f"The clock of {cluster} {pace}, in slot {clock.read(cluster).slot}.")


class PositionedAdmin(GuardedAdmin):
    """Rows in an order: a new one comes last unless a place is given."""

    list_select_related = ["cluster"]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Put a new row behind the others of its cluster."""
        if not change and "position" not in form.changed_data:
            last = type(obj).objects.filter(cluster=cluster_of(obj)).order_by("-position").first()
            obj.position = last.position + 1 if last else 0
        super().save_model(request, obj, form, change)


class DemandInline(PartInline):
    """Demands of a machine of the type."""

    model = Demand
    part = "resource"


@admin.register(MachineType)
class MachineTypeAdmin(PositionedAdmin):
    """Worker and parameter-server types with their demands."""

    list_display = ["name", "role", "cluster", "bandwidth_mbps", "takes", "position"]
    list_filter = ["cluster", "role"]
    search_fields = ["name"]
    inlines = [DemandInline]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """A type keeps its role: workers that jobs hold would become parameter servers."""
        fixed = super().get_readonly_fields(request, obj)
        return fixed if obj is None else [*fixed, "role"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[MachineType]:
        """Read demands in one query for a whole page."""
        return super().get_queryset(request).prefetch_related("demands__resource")

    @admin.display(description="takes")
    def takes(self, machine: MachineType) -> str:
        """Demands in words."""
        return ", ".join(map(str, machine.demands.all()))


class CapacityInline(PartInline):
    """Capacities of the server."""

    model = Capacity
    part = "resource"


@admin.register(Server)
class ServerAdmin(PositionedAdmin):
    """Servers with their capacities."""

    list_display = ["name", "kind", "cluster", "upload_delay_s", "storage_mb", "has", "position"]
    list_filter = ["cluster", "kind"]
    search_fields = ["name"]
    inlines = [CapacityInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Server]:
        """Read capacities in one query for a whole page."""
        return super().get_queryset(request).prefetch_related("capacities__resource")

    @admin.display(description="has")
    def has(self, server: Server) -> str:
        """Capacities in words."""
        return ", ".join(map(str, server.capacities.all())) or "nothing"

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Allowed, but worth saying: a server that has nothing."""
        super().save_related(request, form, formsets, change)
        if not Capacity.objects.filter(server=form.instance, amount__gt=0).exists():
            self.message_user(
                request, f"Server {form.instance} has no capacity: nothing can run there.", messages.WARNING
            )


class StepTimeInline(PartInline):
    """Seconds on each machine type."""

    model = StepTime
    part = "machine_type"

    def label(self, part: MachineType) -> str:
        """Workers and parameter servers may share names."""
        return f"{part.get_role_display()} {part.name}"


@admin.register(ModelProfile)
class ModelProfileAdmin(GuardedAdmin):
    """Named models with their step times."""

    list_display = ["name", "cluster", "gradient_mb", "chunks", "minibatches"]
    list_filter = ["cluster"]
    list_select_related = ["cluster"]
    search_fields = ["name"]
    inlines = [StepTimeInline]


@admin.register(AccessAttempt)
class FailedLoginAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Failed logins that still count. A locked user may log in again once these rows are deleted."""

    list_display = ["attempt_time", "username", "ip_address", "failures_since_start", "path_info"]
    list_display_links = None
    search_fields = ["username", "ip_address"]
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse to add."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to change."""
        return False
