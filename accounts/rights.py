"""Rights of users: the one place that says what each may see and do, for pages, REST and the admin.

An operator (`cluster.operators`) sees and operates every cluster. Operators and administrators of a team operate the
clusters that name this team. A restricted cluster does not exist for others than its teams and operators. Members of a
team see the bids of the team; viewers submit none. Where bids need a team, users without one submit none, either.
"""

from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import CharField, F, IntegerField, QuerySet, Value

from accounts.errors import NotAllowed
from accounts.models import ClusterTeams, Membership, Role
from cluster.database.prepared import Prepared
from cluster.models import Cluster
from cluster.operators import held_permissions, operates_nothing, remember
from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown

_MEMBER: Final = "member"
_OPERATOR: Final = "operator"
_OPERATED: Final = "operated"
_OPEN: Final = "open"
_RESTRICTED: Final = "restricted"


@dataclass(frozen=True)
class Rights:
    """The rights of one user."""

    operates_all: bool = False
    team: int | None = None
    role: Role | None = None
    operated: frozenset[str] = frozenset()
    """Names of clusters that the user's team operates, if the user operates them."""
    closed: frozenset[str] = frozenset()
    """Names of clusters that do not exist for the user."""

    def operates(self, cluster: str) -> bool:
        """Return whether the user operates the cluster of this name."""
        return self.operates_all or cluster in self.operated

    def sees(self, cluster: str) -> bool:
        """Return whether the cluster of this name exists for the user."""
        return cluster not in self.closed


def rights_of(user: User | AnonymousUser) -> Rights:
    """Return the user's rights, in one query; the object of a user remembers them, so they hold for one request."""
    known: Rights | None = getattr(user, "_rights", None)
    if known is None:
        known = _read(user)
        user._rights = known  # type: ignore[union-attr]
        if user.pk is not None:
            remember(user, is_operator=known.operates_all)
    return known


def operates(user: User | AnonymousUser, cluster: Cluster) -> bool:
    """Return whether the user operates this cluster: sees and ends all users' work there."""
    return rights_of(user).operates(cluster.name)


def sees(user: User | AnonymousUser, cluster: str) -> bool:
    """Return whether the cluster of this name exists for the user."""
    return rights_of(user).sees(cluster)


def visible_clusters(user: User | AnonymousUser) -> QuerySet[Cluster]:
    """Return the clusters that exist for the user."""
    return Cluster.objects.exclude(name__in=rights_of(user).closed)


def membership_of(user: User) -> Membership | None:
    """Return the user's membership; without a query if it came with the user, as it does with a token."""
    try:
        return user.membership
    except Membership.DoesNotExist:
        return None


def check_may_bid(user: User) -> int | None:
    """Return the key of the team for which a bid of this user is; None without a team.

    Raises
    ------
    NotAllowed
        If the user is a viewer of the team.
    """
    membership = membership_of(user)
    if membership is None:
        return None
    if not Role(membership.role).includes(Role.BIDDER):
        raise NotAllowed("Viewers of a team submit no bids.")
    return membership.team_id


def check_cluster(user: User, cluster: Cluster | str | None, field: str = "cluster") -> None:
    """Raise InvalidField if a request names a cluster that does not exist for the user."""
    name = cluster.name if isinstance(cluster, Cluster) else cluster
    if name is not None and not sees(user, name):
        raise InvalidField(field, f"expected a cluster, got {shown(name)}")


def teams_allowed(cluster: Cluster) -> frozenset[int] | None:
    """Return the keys of the teams that may use a cluster, beside operators; None if all users may."""
    found = ClusterTeams.objects.filter(cluster=cluster, is_restricted=True).first()
    if found is None:
        return None
    listed = found.teams.values_list("pk", flat=True)
    return frozenset([*listed, *([] if found.operated_by_id is None else [found.operated_by_id])])


def needs_team(cluster: Cluster) -> bool:
    """Return whether each bid of a cluster has to be of a team."""
    return ClusterTeams.objects.filter(cluster=cluster, needs_team=True).exists()


def _read(user: User | AnonymousUser) -> Rights:
    if user.pk is None or not user.is_active:
        restricted = ClusterTeams.objects.filter(is_restricted=True)
        return Rights(closed=frozenset(restricted.values_list("cluster__name", flat=True)))
    rows = _ROWS(user.pk)
    names = {kind: frozenset(row[3] for row in rows if row[0] == kind) for kind in (_OPERATED, _OPEN, _RESTRICTED)}
    found = next(((team, Role(role)) for kind, team, role, _ in rows if kind == _MEMBER), None)
    team, role = (None, None) if found is None else found
    nothing = operates_nothing(user)
    everything = not nothing and (user.is_superuser or any(row[0] == _OPERATOR for row in rows))
    runs = not nothing and role is not None and role.includes(Role.OPERATOR)
    return Rights(
        operates_all=everything,
        team=team,
        role=role,
        operated=names[_OPERATED] if runs else frozenset(),
        closed=frozenset() if everything else names[_RESTRICTED] - names[_OPEN] - names[_OPERATED],
    )


def _rows(user: int) -> "QuerySet[Any, tuple[str, int, str, str]]":
    """Return the rights of one user in rows of kind, team, role and name of a cluster."""

    def rows(kind: str, found: "QuerySet[Any]", *, team: Any = None, role: Any = None, name: Any = None) -> Any:
        return found.order_by().values_list(
            Value(kind, CharField()),
            Value(0, IntegerField()) if team is None else F(team),
            Value("", CharField()) if role is None else F(role),
            Value("", CharField()) if name is None else F(name),
        )

    teams = ClusterTeams.objects
    parts = [
        rows(_OPERATOR, held_permissions(user)),
        rows(_MEMBER, Membership.objects.filter(user=user), team="team_id", role="role"),
        rows(_OPERATED, teams.filter(operated_by__memberships__user=user), name="cluster__name"),
        rows(_OPEN, teams.filter(teams__memberships__user=user), name="cluster__name"),
        rows(_RESTRICTED, teams.filter(is_restricted=True), name="cluster__name"),
    ]
    found: QuerySet[Any, tuple[str, int, str, str]] = parts[0].union(*parts[1:], all=True)
    return found


_ROWS = Prepared(_rows, int)
