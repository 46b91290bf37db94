"""Tables of accounts."""

from typing import Final

from django.conf import settings
from django.core import signing
from django.db import models
from django.db.models import Q

from cluster import clock
from cluster.models import Cluster

LONGEST_NAME: Final = 60
INVITATION_SALT: Final = "shadowprice.invitation"
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
    """Whether it was issued for a password, or replaces one that was. Of these only those that were used last are kept,
    and they end when the password is changed.
    """
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    """The last use, up to a minute late: see `accounts.authentication`."""

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


class Identity(models.Model):
    """A person as a provider of single sign-on knows them, and the account of this person."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)
    """The provider's key of the person, which it never gives to another one."""
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "identities"
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_once"),
            models.CheckConstraint(condition=~Q(issuer="") & ~Q(subject=""), name="identity_is_not_empty"),
        ]

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"


class Role(models.TextChoices):
    """The role of a member of a team; each may do what those before it may."""

    VIEWER = "viewer", "Viewer"
    BIDDER = "bidder", "Bidder"
    OPERATOR = "operator", "Operator"
    ADMINISTRATOR = "administrator", "Administrator"

    def includes(self, other: "Role") -> bool:
        """Return whether this role may do what `other` may."""
        order = list(Role)
        return order.index(self) >= order.index(other)


ROLES: Final = [(role.value, role.value) for role in Role]
"""Roles as REST names them."""


class Team(models.Model):
    """Users who bid together: they see the bids of the team, and its budgets pay for them."""

    name = models.SlugField(max_length=LONGEST_NAME, unique=True, help_text="Name of the team in addresses.")
    title = models.CharField(max_length=120)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [models.CheckConstraint(condition=~Q(title=""), name="team_has_a_title")]

    def __str__(self) -> str:
        return self.title

    def get_additional_data(self) -> dict[str, object]:
        """Return whose change an entry of the record about this row is."""
        return {"team": self.pk}


class Membership(models.Model):
    """A user in a team; a user is in one team at most, so that it is clear who pays for a bid."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="membership")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role, default=Role.BIDDER)

    class Meta:
        ordering = ["user__username"]
        constraints = [models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_is_known")]

    def __str__(self) -> str:
        return f"{self.user.get_username()} in {self.team}"

    def get_additional_data(self) -> dict[str, object]:
        """Return whose change an entry of the record about this row is."""
        return {"team": self.team_id}


class Invitation(models.Model):
    """A link by which one person joins a team, once."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=20, choices=Role, default=Role.BIDDER)
    email = models.EmailField(blank=True)
    """The address to which the link was sent; empty if it was not."""
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    accepted_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [models.CheckConstraint(condition=Q(role__in=Role.values), name="invitation_role_is_known")]

    def __str__(self) -> str:
        return f"Invitation to {self.team}"

    def get_additional_data(self) -> dict[str, object]:
        """Return whose change an entry of the record about this row is."""
        return {"team": self.team_id}

    @property
    def link_text(self) -> str:
        """The last part of its link."""
        return signing.Signer(salt=INVITATION_SALT).sign(str(self.pk))


class ClusterTeams(models.Model):
    """The teams of a cluster. A cluster without this row is open to all users, and all operators operate it."""

    cluster = models.OneToOneField(Cluster, on_delete=models.CASCADE, related_name="cluster_teams")
    operated_by = models.ForeignKey(
        Team,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="operated",
        help_text="Its operators and administrators operate this cluster.",
    )
    is_restricted = models.BooleanField(
        default=False, help_text="Whether only the teams below, the operating team and operators see the cluster."
    )
    needs_team = models.BooleanField(
        default=False,
        help_text="Whether each bid has to be of a team: users without a team submit none, so budgets limit all bids.",
    )
    teams = models.ManyToManyField(Team, blank=True, related_name="clusters")

    class Meta:
        verbose_name = verbose_name_plural = "teams of clusters"

    def __str__(self) -> str:
        return f"Teams of {self.cluster}"

    def get_additional_data(self) -> dict[str, object]:
        """Return whose change an entry of the record about this row is."""
        return {"cluster": self.cluster.name}
