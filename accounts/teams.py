"""Teams: members, their roles, and the teams of clusters."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from accounts.errors import NotPossible
from accounts.models import ClusterTeams, Invitation, Membership, Role, Team
from accounts.rights import rights_of
from cluster.models import Cluster
from cluster.operators import operators
from scheduling.model.errors import InvalidField


def visible_teams(viewer: User) -> QuerySet[Team]:
    """Return the viewer's team; all teams for an operator."""
    rights = rights_of(viewer)
    return (
        Team.objects.all() if rights.operates_all else Team.objects.filter(pk__in=[rights.team] if rights.team else [])
    )


def may_administer(user: User, team: Team) -> bool:
    """Return whether a user may change members and invitations: an administrator of the team, and operators."""
    rights = rights_of(user)
    return rights.operates_all or (rights.team == team.pk and rights.role == Role.ADMINISTRATOR)


def administrators_of(team: Team) -> QuerySet[User]:
    """Return the users who may administer a team, as `may_administer` says of one."""
    own = Q(membership__team=team, membership__role=Role.ADMINISTRATOR)
    return User.objects.filter(own | Q(pk__in=operators()), is_active=True)


def acting_administrators(team: Team) -> QuerySet[Membership]:
    """Return the memberships of administrators whose accounts are open: one of them stays in the team."""
    return Membership.objects.filter(team=team, role=Role.ADMINISTRATOR, user__is_active=True)


def create_team(name: str, title: str, *, administrator: User | None = None) -> Team:
    """Store a team; raises InvalidField if the name is taken, NotPossible if the administrator is in another team."""
    with transaction.atomic():
        try:
            with transaction.atomic():
                team = Team.objects.create(name=name, title=title)
        except IntegrityError:
            raise InvalidField("name", f"expected a name that no team has, got {name}") from None
        if administrator is not None:
            add_member(team, administrator, Role.ADMINISTRATOR)
    return team


def add_member(team: Team, user: User, role: Role) -> Membership:
    """Store a membership; raises NotPossible if the user is in a team."""
    try:
        with transaction.atomic():
            return Membership.objects.create(team=team, user=user, role=role)
    except IntegrityError:
        raise NotPossible(f"{user.get_username()} is a member of a team already.") from None


def change_role(team: Team, member: Membership, role: Role) -> Membership:
    """Give a member another role; raises NotPossible for the last administrator, or who is no member any more.

    Open invitations of who is no administrator any more are withdrawn.
    """
    with _locked(team, member):
        if role != Role.ADMINISTRATOR:
            _check_another_administrator(team, member)
            _withdraw_invitations(team, member)
        member.role = role
        member.save(update_fields=["role"])
    return member


def remove_member(team: Team, member: Membership) -> None:
    """End a membership; the member's bids stay those of the team. The member's open invitations are withdrawn.

    Raises
    ------
    NotPossible
        For the last administrator, or who is no member any more.
    """
    with _locked(team, member):
        _check_another_administrator(team, member)
        _withdraw_invitations(team, member)
        member.delete()


def change_cluster_teams(
    cluster: Cluster, *, operated_by: Team | None, is_restricted: bool, teams: Iterable[Team], needs_team: bool = False
) -> ClusterTeams:
    """Say which teams a cluster has; bids that are being submitted are checked again."""
    with transaction.atomic():
        fields = {"operated_by": operated_by, "is_restricted": is_restricted, "needs_team": needs_team}
        found, _ = ClusterTeams.objects.update_or_create(cluster=cluster, defaults=fields)
        found.teams.set(teams)
        noted(cluster)
    return found


def noted(cluster: Cluster) -> None:
    """Let processes read again what they know of a cluster."""
    Cluster.objects.filter(pk=cluster.pk).update(revision=uuid4())


@contextmanager
def _locked(team: Team, member: Membership) -> Iterator[None]:
    """Let nobody else change members in the block; the role of this one is read again."""
    with transaction.atomic():
        Team.objects.select_for_update(no_key=True).filter(pk=team.pk).first()
        role = Membership.objects.filter(pk=member.pk).values_list("role", flat=True).first()
        if role is None:
            raise NotPossible(f"{member.user.get_username()} is no member of {team} any more.")
        member.role = role
        yield


def _withdraw_invitations(team: Team, member: Membership) -> None:
    """Delete the member's open invitations, by whose links the member could come back."""
    Invitation.objects.filter(team=team, created_by=member.user, accepted_at=None).delete()


def _check_another_administrator(team: Team, member: Membership) -> None:
    others = acting_administrators(team).exclude(pk=member.pk)
    if member.role == Role.ADMINISTRATOR and not others.exists():
        raise NotPossible(f"{member.user.get_username()} is the last administrator of {team}.")
