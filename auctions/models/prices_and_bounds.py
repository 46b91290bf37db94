"""Stored prices, published figures and bounds of a market."""

from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint

from auctions.models.market import Market
from web.numbers import money


class SlotPrice(models.Model):
    """Posted prices of a slot when it began, and the units in use: past data of the charts.

    Under a policy that queues, a worker counts as in use if it is busy in some part of the slot. See
    `PsAssignment` for the parameter servers.
    """

    market = models.ForeignKey(Market, models.PROTECT, related_name="slot_prices")
    slot = models.BigIntegerField()
    inventory_version = models.PositiveBigIntegerField(help_text="Version of the inventory to which positions refer.")
    prices = models.JSONField(help_text="Prices by server and resource, S x R, money per unit and slot.")
    used = models.JSONField(help_text="Units in use by server and resource, S x R.")

    class Meta:
        ordering = ["slot"]
        constraints = [UniqueConstraint(fields=["market", "slot"], name="slot_price_once")]

    def __str__(self) -> str:
        return f"prices of slot {self.slot}"


class Publication(models.Model):
    """Figures of a market that bidders read from one slot on: written when that slot began, and never changed."""

    market = models.ForeignKey(Market, models.PROTECT, related_name="publications")
    version = models.PositiveBigIntegerField(help_text="Version of the market at which the figures were read.")
    slot = models.BigIntegerField(help_text="Slot that had just begun.")
    figures = models.JSONField(help_text="Counts, money and times, by their names in a summary.")

    class Meta:
        ordering = ["version"]
        constraints = [UniqueConstraint(fields=["market", "version"], name="publication_once")]

    def __str__(self) -> str:
        return f"figures of slot {self.slot}"


class BoundKind(models.TextChoices):
    """The proof of an upper bound on welfare."""

    ZERO_PRICE = "zero_price", "Zero-price bound"
    POSTED_PRICE = "posted_price", "Posted-price bound (weak duality)"


class CompetitiveRatio(models.Model):
    """Competitive ratios of a market that queues: its latest complete jobs compared with a lower bound, from rows.

    `findings` is `Findings` of `auctions.readings.competitive_ratio` as JSON.
    """

    market = models.OneToOneField(Market, models.CASCADE, related_name="competitive_ratio")
    basis = models.CharField(max_length=80, help_text="Fingerprint of the input: complete jobs, servers and policy.")
    findings = models.JSONField()
    duration_ms = models.FloatField()
    computed_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "competitive ratios"

    def __str__(self) -> str:
        return f"competitive ratio of {self.market}"


class Certificate(models.Model):
    """A proved upper bound on the welfare that any scheduler could have had from the bids decided so far.

    Both bounds are stored; `kind` and `value` are those of the smaller one. Bids that are not decided count in neither
    the bound nor the welfare. Parts that can no longer change are stored as sums: the terms of bids whose whole window
    has passed, and price x capacity of processed slots.
    """

    market = models.OneToOneField(Market, models.CASCADE, related_name="certificate")
    version = models.PositiveBigIntegerField(help_text="Version of the market at which the bound was computed.")
    kind = models.CharField(max_length=12, choices=BoundKind)
    value = models.FloatField()
    zero_price = models.FloatField()
    posted_price = models.FloatField()
    welfare = models.FloatField(help_text="Welfare of the same bids at that version.")
    gap = models.FloatField(help_text="(bound - welfare) / bound; 0 if the bound is 0.")
    decided = models.PositiveBigIntegerField(help_text="Number of decided bids that the bound covers.")
    loose = models.PositiveBigIntegerField(
        default=0,
        help_text="Number of bids that count with their zero-price term, for lack of time or after a new inventory or "
        "policy.",
    )
    duration_ms = models.FloatField()
    computed_at = models.DateTimeField()
    settled_bids = models.PositiveBigIntegerField(default=0, editable=False)
    settled_loose = models.PositiveBigIntegerField(default=0, editable=False)
    settled_terms = models.FloatField(default=0.0, editable=False)
    settled_standalone_values = models.FloatField(default=0.0, editable=False)
    settled_through = models.BigIntegerField(
        null=True, editable=False, help_text="Slots before this one are part of the stored sum."
    )
    settled_capacity = models.FloatField(default=0.0, editable=False)

    class Meta:
        constraints = [CheckConstraint(condition=Q(kind__in=BoundKind.values), name="certificate_kind_known")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {money(self.value)}"
