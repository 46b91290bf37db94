"""Tables of accounts."""

from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import Q

from cluster.models import Cluster

LONGEST_NAME: Final = 60
HINT: Final = 8
"""Characters of a token that lists show, so that its owner recognises it."""


class Scope(models.TextChoices):
    """The largest right of a token; each includes those before it."""

    READ = "read", "Read"
    BID = "bid", "Read and bid"
    OPERATE = "operate", "All that its user may do"


class Token(models.Model):
    """A token of a user, of which only a digest is stored."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=LONGEST_NAME)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    """SHA-256 of the token, hex. A token has 256 random bits, so nobody can guess what has this digest."""
    hint = models.CharField(max_length=HINT, editable=False)
    scope = models.CharField(max_length=10, choices=Scope)
    cluster = models.ForeignKey(Cluster, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    """The only cluster that it is for; None for all."""
    by_password = models.BooleanField(default=False, editable=False)
    """Whether it was issued for a password; of these only those that were used last are kept."""
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    """The last use, up to some minutes late: see `accounts.authentication`."""

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=~Q(name=""), name="token_has_a_name"),
            models.CheckConstraint(condition=Q(scope__in=Scope.values), name="token_scope_is_known"),
            models.CheckConstraint(
                condition=Q(expires_at=None) | Q(expires_at__gte=models.F("created_at")),
                name="token_expires_after_its_creation",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"
