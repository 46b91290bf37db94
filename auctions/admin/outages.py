"""Outages in the admin: operators take servers out of service and return them."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from auctions.admin.base import ReadOnlyAdmin, operator_of
from auctions.domain.errors import NotReady, WrongState
from auctions.engine.outages import state_of
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.models import Outage, OutageKind
from cluster.models import Server
from scheduling.model.errors import InvalidField


class ServerField(forms.ModelChoiceField):  # type: ignore[type-arg]
    """A server of any market; servers of several markets may have the same name."""

    def label_from_instance(self, obj: Server) -> str:
        """Cluster and server."""
        return f"{obj.cluster.name}: {obj.name}"


class OutageForm(forms.Form):
    """A form that marks a server as lost, or lets it take no new work from a slot on."""

    server = ServerField(
        Server.objects.filter(cluster__market__isnull=False)
        .select_related("cluster")
        .order_by("cluster__name", "position", "pk")
    )
    kind = forms.ChoiceField(choices=OutageKind.choices, initial=OutageKind.DRAIN)
    from_slot = forms.IntegerField(required=False, help_text="Drain: no new work from it on; empty: from now on.")
    deadline_slot = forms.IntegerField(
        required=False, help_text="Drain: jobs that still hold it then are moved or fail. Empty: they may finish."
    )
    reason = forms.CharField(max_length=200, required=False, label="Reason")

    def clean(self) -> dict[str, Any]:
        """Refuse slots of a loss, which is from the next slot on: jobs would lose the server at once."""
        data = super().clean() or {}
        if data.get("kind") == OutageKind.LOST:
            for name in ("from_slot", "deadline_slot"):
                if data.get(name) is not None:
                    self.add_error(name, "Expected nothing: a lost server is lost from the next slot on.")
        return data

    def report(self, by: User | None) -> bool:
        """Record the outage; if it is refused, return False and show an error at the field."""
        data = self.cleaned_data
        server, reason = data["server"], data["reason"]
        try:
            if data["kind"] == OutageKind.LOST:
                lose_server(server, reason=reason, by=by)
            else:
                slots = {"from_slot": data["from_slot"], "deadline": data["deadline_slot"]}
                drain_server(server, **slots, reason=reason, by=by)
        except (WrongState, NotReady) as error:
            self.add_error("server", str(error))
        except InvalidField as error:
            for one in error.all_wrong:
                self.add_error(one.field, one.problem)
        return self.is_valid()


@admin.register(Outage)
class OutageAdmin(ReadOnlyAdmin):
    """Take servers out of service, and return them; earlier outages are history."""

    list_display = [
        "server",
        "cluster",
        "state",
        "from_slot",
        "deadline",
        "out_slot",
        "ended_slot",
        "reason",
        "reported_by",
        "reported_at",
    ]
    list_filter = ["kind", "server__cluster"]
    list_select_related = ["server__cluster", "reported_by"]
    search_fields = ["server__name", "reason"]
    actions = ["return_to_service"]
    change_list_template = "auctions/admin/outages.html"

    def get_urls(self) -> list[URLPattern]:
        """Add the page that takes a server out of service."""
        view = self.admin_site.admin_view(self.report_view)
        return [path("report/", view, name="auctions_outage_report"), *super().get_urls()]

    def report_view(self, request: HttpRequest) -> HttpResponse:
        """Take a server out of service."""
        if not self.has_act_permission(request):
            raise PermissionDenied
        chosen = request.GET.get("server", "")
        form = OutageForm(request.POST or None, initial={"server": chosen} if chosen.isdigit() else {})
        if request.method == "POST" and form.is_valid() and form.report(operator_of(request)):
            self.message_user(request, f"Server {form.cleaned_data['server']} is out of service, or takes no new work.")
            return HttpResponseRedirect(reverse("admin:auctions_outage_changelist"))
        context = {**self.admin_site.each_context(request), "title": "Take a server out of service", "form": form}
        return TemplateResponse(request, "auctions/admin/outage.html", {**context, "opts": self.opts})

    @admin.display(description="cluster")
    def cluster(self, outage: Outage) -> str:
        """Servers of several clusters may have the same name."""
        return outage.server.cluster.name

    @admin.display(description="state")
    def state(self, outage: Outage) -> str:
        """Return the state of an outage in words."""
        return "ended" if outage.ended_version is not None else state_of(outage)

    @admin.action(description="Return to service", permissions=["act"])
    def return_to_service(self, request: HttpRequest, queryset: QuerySet[Outage]) -> None:
        """Return servers to service with the capacity of their rows."""
        for outage in queryset.filter(ended_version=None).select_related("server__cluster"):
            try:
                restore_server(outage.server, reason="", by=operator_of(request))
            except NotReady as error:
                words = f"Server {outage.server.name} is not in service: {error}"
                self.message_user(request, words, messages.WARNING)
            else:
                self.message_user(request, f"Server {outage.server.name} is in service.")
