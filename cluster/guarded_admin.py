"""Save in the admin under the guards: each save is checked once; a refusal is a form error and stores nothing."""

from typing import Any, cast

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import ForeignKey, Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict

from cluster import guards
from cluster.models import Cluster, MachineType, ModelProfile, Resource, Server
from cluster.named_fields import NamedDates, NamedRows, NamesInWords

REFUSED = "_shadowprice_refused"
"""Attribute of a request that holds why its change was refused."""


class GuardedForm(NamedDates, NamesInWords):
    """A form that shows why its change was refused after it had been tried."""

    refused: tuple[str, ...] = ()

    def clean(self) -> dict[str, Any]:
        """Add the guards' messages, and let rows that have to be unique be checked."""
        super().clean()
        for problem in self.refused:
            self.add_error(None, problem)
        return self.cleaned_data


def cluster_of(row: Model) -> Cluster:
    """The cluster a row is, or belongs to."""
    return row if isinstance(row, Cluster) else cast(Resource | MachineType | Server | ModelProfile, row).cluster


def chosen_cluster(request: HttpRequest) -> int | None:
    """The cluster of a new row: the one given, or that of the list from which the page was opened."""
    filters = QueryDict(request.GET.get("_changelist_filters", ""))
    given = request.POST.get("cluster") or request.GET.get("cluster") or filters.get("cluster__id__exact") or ""
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None


class GuardedAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Admin of a cluster, or of rows of one; the guards must allow every change."""

    form = GuardedForm
    list_per_page = 100

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """A row never moves to another cluster."""
        fixed = [] if obj is None or isinstance(obj, Cluster) else ["cluster"]
        return [*super().get_readonly_fields(request, obj), *fixed]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Fill in the cluster of the list from which the page was opened."""
        cluster = chosen_cluster(request)
        return {**({} if cluster is None else {"cluster": cluster}), **super().get_changeform_initial_data(request)}

    def get_form(self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: Any) -> Any:
        """The form, knowing why this request was refused if it was."""
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"refused": getattr(request, REFUSED, ())})

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Save; if the guards refuse, everything is rolled back and the form shown again with their reasons."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except guards.ChangeRefused as refusal:
            setattr(request, REFUSED, tuple(refusal.problems))
            return super().changeform_view(request, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Remember the cluster before the change, because some checks compare both."""
        form.before = Cluster.objects.filter(pk=cluster_of(obj).pk).first()
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """After the row and its inlines are saved: ask the guards, in the same transaction."""
        super().save_related(request, form, formsets, change)
        cluster = Cluster.objects.get(pk=cluster_of(form.instance).pk)
        guards.consult(cluster, before=form.before)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Delete one row, if the guards allow."""
        self._delete([obj], obj.delete)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete rows, if the guards allow; all or none."""
        self._delete(list(queryset), queryset.delete)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Delete; a refusal leads back to the row with a message."""
        try:
            return super().delete_view(request, object_id, extra_context)
        except guards.ChangeRefused as refusal:
            return self._say(request, refusal, to=request.path.replace("/delete/", "/change/"))

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list and run its actions; a refusal leads back to the list with a message."""
        try:
            return super().changelist_view(request, extra_context)
        except guards.ChangeRefused as refusal:
            return self._say(request, refusal, to=request.get_full_path())

    def _delete(self, rows: list[Model], delete: Any) -> None:
        clusters = {cluster_of(row) for row in rows}
        with transaction.atomic():
            delete()
            for cluster in Cluster.objects.filter(pk__in=[cluster.pk for cluster in clusters]).order_by("pk"):
                guards.consult(cluster, before=cluster)

    def _say(self, request: HttpRequest, refusal: guards.ChangeRefused, *, to: str) -> HttpResponse:
        for problem in refusal.problems:
            self.message_user(request, problem, messages.ERROR)
        return HttpResponseRedirect(to)


class PartFormSet(NamedRows):
    """Rows of one machine type, server or profile, which name parts of the same cluster only."""

    part = ""

    def clean(self) -> None:
        """Refuse a part of another cluster, in words; a stale page could name one."""
        super().clean()
        for form in self.forms:
            chosen = form.cleaned_data.get(self.part) if hasattr(form, "cleaned_data") else None
            # Without a cluster the form of the row itself is refused.
            if chosen is not None and self.instance.cluster_id not in (None, chosen.cluster_id):
                form.add_error(self.part, f"{chosen} belongs to another cluster.")


class PartInline(admin.TabularInline):  # type: ignore[type-arg]
    """Amounts of the parts of the same cluster: one query for the choices, however many rows."""

    part = ""
    extra = 1

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Read the parts in the same query: each row shows a name."""
        return super().get_queryset(request).select_related(self.part)

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        """A formset that checks its part."""
        checked = type("PartFormSet", (PartFormSet,), {"part": self.part})
        return super().get_formset(request, obj, formset=checked, **kwargs)

    def formfield_for_foreignkey(self, db_field: ForeignKey[Any, Any], request: HttpRequest, **kwargs: Any) -> Any:
        """Offer the parts of the cluster this page is about; before one is chosen, those of all, with its name."""
        if db_field.name != self.part:
            return super().formfield_for_foreignkey(db_field, request, **kwargs)
        rows: QuerySet[Any] = db_field.related_model._default_manager.select_related("cluster")
        cluster = self._cluster_id(request)
        if cluster is not None:
            rows = rows.filter(cluster_id=cluster)
        field = super().formfield_for_foreignkey(db_field, request, queryset=rows, **kwargs)
        if field is not None:
            named = [(row.pk, self.label(row) if cluster else f"{row.cluster.name}: {self.label(row)}") for row in rows]
            field.choices = [("", "---------"), *named]
        return field

    def label(self, part: Any) -> str:
        """Return the label of a choice."""
        return str(part)

    def _cluster_id(self, request: HttpRequest) -> int | None:
        match = request.resolver_match
        key = match.kwargs.get("object_id") if match else None
        if key is not None:
            found: int | None = (
                self.parent_model._default_manager.filter(pk=key).values_list("cluster", flat=True).first()
            )
            return found
        return chosen_cluster(request)
