"""Seals of archives: which events and documents of a market left the database, and how to recognise them."""

import json
from typing import Final

from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint

from auctions.models.market import Market
from cluster.database.compact import CompactTextField

OUTCOME: Final = (
    "sequence", "owner_id", "team_id", "label", "arrival_slot", "state", "stands_until", "tried_slot", "tries", "value",
    "payment", "start_slot", "completion_slot", "ended_slot", "end_reason", "refund", "kept_from",
)  # fmt: skip
"""Columns of a bid that stay in the database when it is archived, and that its seal has a digest of."""


class Seal(models.Model):
    """The seal of one archive; those of a market are a chain. It is written after the archive's file is complete."""

    market = models.ForeignKey(Market, models.PROTECT, related_name="seals")
    number = models.PositiveIntegerField(help_text="Place in the chain, from 1.")
    version = models.PositiveBigIntegerField(help_text="Version of the last event in the archive.")
    slot = models.BigIntegerField(help_text="The cut: the first slot that began after that event.")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the manifest; the next manifest names it.")
    manifest = models.TextField(help_text="First line of the archive: its contents and their digests, canonical JSON.")
    end_state = CompactTextField(
        help_text="State after the last event, canonical JSON; empty once a later seal has one."
    )
    file_name = models.CharField(max_length=200)
    file_sha256 = models.CharField(max_length=64)
    file_bytes = models.PositiveBigIntegerField()
    sealed_at = models.DateTimeField()
    cleared_through = models.PositiveBigIntegerField(
        default=0, help_text="Documents of its bids up to this sequence number have left the database."
    )
    cleared_at = models.DateTimeField(null=True, help_text="Time when the last of its rows had left the database.")

    class Meta:
        ordering = ["market", "-number"]
        constraints = [
            UniqueConstraint(fields=["market", "number"], name="seal_number_once"),
            CheckConstraint(condition=Q(number__gte=1), name="seal_number_from_1"),
            CheckConstraint(condition=Q(version__gte=1), name="seal_has_events"),
        ]

    def __str__(self) -> str:
        return f"archive {self.number}"

    @property
    def summary(self) -> str:
        """The contents of the archive, in words."""
        said = json.loads(self.manifest)
        events = "1 event" if said["events"] == 1 else f"{said['events']} events"
        bids = "1 bid that is over" if said["archived"] == 1 else f"{said['archived']} bids that are over"
        return (
            f"{events}, {bids}, {self.file_bytes} bytes,"
            f" versions {said['first_version']} to {said['last_version']}, before slot {self.slot}"
        )
