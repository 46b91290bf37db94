"""The turns of owners in decision queues."""

from django.db import models
from django.db.models import UniqueConstraint

from auctions.models.market import Market


class OwnerTurn(models.Model):
    """The last turn of an owner in a market's decision queue: see `auctions.domain.turns`."""

    market = models.ForeignKey(Market, models.CASCADE, related_name="turns", db_index=False)
    """It has no index of its own: that of the constraint begins with it."""
    owner = models.BigIntegerField(help_text="Key of the user, or minus the key of the team.")
    version = models.PositiveBigIntegerField(help_text="Version of the event that was the owner's last turn.")

    class Meta:
        constraints = [UniqueConstraint(fields=["market", "owner"], name="owner_turn_once")]

    def __str__(self) -> str:
        return f"turn of {self.owner} at version {self.version}"
