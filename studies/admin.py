"""Background jobs in the admin: their requests and results, read only; running ones can be cancelled."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from auctions.admin.base import ReadOnlyAdmin
from auctions.domain.errors import WrongState
from studies.background import states
from studies.job_tables import PLANS
from studies.models import Plan
from studies.split_learning.plans import readings


@admin.register(Plan)
class PlanAdmin(ReadOnlyAdmin):
    """Plans of split learning; large columns are on their pages."""

    list_display = [
        "id",
        "owner",
        "label",
        "state",
        "method",
        "helpers",
        "clients",
        "makespan",
        "lower_bound",
        "attempts",
        "submitted_at",
        "shown",
    ]
    list_filter = ["state", "method", "comparison"]
    list_select_related = ["owner"]
    search_fields = ["label", "owner__username", "=id"]
    exclude = readings.LARGE
    actions = ["cancel"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Plan]:
        """Return plans without the large columns that only a plan's page needs."""
        return super().get_queryset(request).defer(*readings.LARGE)

    @admin.display(description="page")
    def shown(self, plan: Plan) -> str:
        """A link to its page."""
        return format_html('<a href="{}">Plan {}</a>', reverse("plan", args=[plan.pk]), plan.pk)

    @admin.action(description="Cancel", permissions=["act"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Plan]) -> None:
        """End those that wait or run; the best so far is kept."""
        for plan in queryset.order_by("pk"):
            try:
                states.cancel(PLANS, plan.pk)
            except WrongState as error:
                self.message_user(request, str(error), messages.WARNING)
            else:
                self.message_user(request, f"{plan} is being cancelled.".capitalize())
