"""Recorded rows in the admin: receipts, events, commitments, payments, stored prices and bounds."""

from django.contrib import admin

from auctions.admin.base import ReadOnlyAdmin
from auctions.models import (
    Certificate,
    Commitment,
    CompetitiveRatio,
    DecisionRecord,
    Event,
    FirstDecision,
    Payment,
    PolicyError,
    PolicyVersion,
    Publication,
    Seal,
    SlotPrice,
)


@admin.register(PolicyError)
class PolicyErrorAdmin(ReadOnlyAdmin):
    """Bids and plans on which a policy failed, the latest first."""

    list_display = ["market", "version", "bid", "policy", "error", "at"]
    list_filter = ["market", ("bid", admin.EmptyFieldListFilter), "bid__state"]
    list_select_related = ["market__cluster", "bid", "policy"]
    search_fields = ["error"]


@admin.register(DecisionRecord)
class DecisionRecordAdmin(ReadOnlyAdmin):
    """Receipts."""

    list_display = ["bid", "policy", "slot", "ledger_version", "decided_at", "latency_ms"]
    list_filter = ["bid__market", "bid__state"]
    list_select_related = ["bid", "policy"]


@admin.register(FirstDecision)
class FirstDecisionAdmin(ReadOnlyAdmin):
    """Rejections after which bids stood."""

    list_display = ["bid", "policy", "slot", "ledger_version", "decided_at", "latency_ms"]
    list_filter = ["bid__market", "bid__state"]
    list_select_related = ["bid", "policy"]


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """The steps of each market."""

    list_display = ["version", "market", "kind", "detail", "slot", "at", "bid"]
    list_filter = ["kind", "market"]
    list_select_related = ["market__cluster", "bid"]

    @admin.display(description="what")
    def detail(self, event: Event) -> str:
        """Return the operator's statement about a server, or why a job failed."""
        service = event.payload.get("service")
        if service is not None:
            return f"Server {service['server']}: {service['state'].replace('_', ' ')}"
        return str(event.payload.get("reason", ""))


@admin.register(Commitment)
class CommitmentAdmin(ReadOnlyAdmin):
    """Machines that jobs hold."""

    list_display = ["bid", "server", "machine_type", "count", "start", "end"]
    list_filter = ["bid__market", "machine_type"]
    list_select_related = ["bid", "server", "machine_type"]


@admin.register(Payment)
class PaymentAdmin(ReadOnlyAdmin):
    """Payments."""

    list_display = ["bid", "amount", "created_at"]
    list_filter = ["bid__market"]
    list_select_related = ["bid"]


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    """Policies, past and present."""

    list_display = ["market", "number", "name", "created_at", "created_by"]
    list_filter = ["market", "name"]
    list_select_related = ["market__cluster", "created_by"]


@admin.register(SlotPrice)
class SlotPriceAdmin(ReadOnlyAdmin):
    """Prices that slots began with."""

    list_display = ["market", "slot"]
    list_filter = ["market"]
    list_select_related = ["market__cluster"]


@admin.register(Publication)
class PublicationAdmin(ReadOnlyAdmin):
    """Money figures published to bidders."""

    list_display = ["market", "slot", "version"]
    list_filter = ["market"]
    list_select_related = ["market__cluster"]


@admin.register(Certificate)
class CertificateAdmin(ReadOnlyAdmin):
    """Proved bounds on welfare."""

    list_display = ["market", "kind", "value", "welfare", "gap", "decided", "loose", "duration_ms", "computed_at"]
    list_select_related = ["market__cluster"]


@admin.register(CompetitiveRatio)
class CompetitiveRatioAdmin(ReadOnlyAdmin):
    """Competitive ratios of markets that queue."""

    list_display = ["market", "basis", "duration_ms", "computed_at"]
    list_select_related = ["market__cluster"]


@admin.register(Seal)
class SealAdmin(ReadOnlyAdmin):
    """Seals of archives."""

    list_display = ["market", "number", "version", "slot", "digest", "file_name", "file_bytes", "sealed_at"]
    list_filter = ["market"]
    list_select_related = ["market__cluster"]
    exclude = ["end_state"]
