"""Operations on teams: members, roles, invitations, and the teams of a cluster."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)
from typing import Any, Final

from django.contrib.auth.models import User
from django.urls import reverse
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import invitations, teams
from accounts.models import LONGEST_NAME, ClusterTeams, Membership, Role, Scope, Team, Token
from accounts.permissions import check_scope
from accounts.rights import rights_of
from cluster.models import SLUG_IN_WORDS, Cluster
from scheduling.model.validation import shown
from web.fields import Choice, Flag, Integer, Rows, Text
from web.headers import submitted
from web.openapi import PAGES, READ, WRITE, describe, examples, location
from web.pagination import Page, page_of
from web.schema import Schema
from web.views import ApiView, one_of, user_of
from web.writing import Answer

LONGEST_TITLE: Final = 120
LONGEST_LINK: Final = 200


class NewTeamIn(Schema):
    name = Text(LONGEST_NAME, line=True, help_text="Name in addresses: letters, digits, dashes and underscores.")
    title = Text(LONGEST_TITLE, line=True, help_text="Title for people.")
    administrator = Text(150, help_text="User name of its first administrator, who must be in no team.")

    def validate_name(self, name: str) -> str:
        """Return a name that an address may have."""
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise ValidationError(f"expected {SLUG_IN_WORDS}, got {shown(name)}")
        return name

    def validate_administrator(self, name: str) -> User:
        """Return the user."""
        user = User.objects.filter(username=name).first()
        if user is None:
            raise ValidationError(f"expected the name of a user, got {shown(name)}")
        return user


class MemberIn(Schema):
    role = Choice(Role.values, help_text="The role; each may do what those before it may.")


class InvitationIn(MemberIn):
    days = Integer(1, invitations.LONGEST_DAYS, required=False, default=7, help_text="Days until it expires.")


class AcceptIn(Schema):
    invitation = Text(LONGEST_LINK, help_text="The last part of the link.")


class ClusterTeamsIn(Schema):
    operated_by = Text(
        LONGEST_NAME,
        allow_null=True,
        help_text="Team whose operators and administrators operate the cluster; null for none.",
    )
    is_restricted = Flag(help_text="Whether the cluster exists only for these teams and operators.")
    needs_team = Flag(
        required=False, default=False, help_text="Whether users without a team, operators included, submit no bids."
    )
    teams = Rows(Text(LONGEST_NAME), most=1_000, help_text="Names of the teams that may use it if it is restricted.")

    def validate_operated_by(self, name: str | None) -> Team | None:
        """Return the team."""
        found = None if name is None else Team.objects.filter(name=name).first()
        if name is not None and found is None:
            raise ValidationError(_no_team(name))
        return found

    def validate_teams(self, names: list[str]) -> list[Team]:
        """Return the teams."""
        known = {team.name: team for team in Team.objects.filter(name__in=set(names))}
        unknown: Any = {i: [_no_team(name)] for i, name in enumerate(names) if name not in known}
        if unknown:
            raise ValidationError(unknown)
        return [known[name] for name in names]


class TeamOut(Answer):
    name = serializers.CharField(help_text="Name in addresses.")
    title = serializers.CharField(help_text="Title for people.")
    created_at = serializers.DateTimeField(help_text="Time of its creation, wall clock, ISO 8601.")


class TeamPage(Page):
    results = TeamOut(many=True, help_text="Your team, or all teams for operators.")


class MemberOut(Answer):
    user = serializers.CharField(source="user.username", help_text="User name.")
    role = serializers.ChoiceField(Role.values, help_text="The role.")


class MembersOut(Answer):
    results = MemberOut(many=True, help_text="Members, by name.")


class InvitationOut(Answer):
    id = serializers.IntegerField(source="pk", help_text="Number of the invitation.")
    role = serializers.ChoiceField(Role.values, help_text="The role that it gives.")
    invitation = serializers.CharField(
        source="link_text", help_text="The last part of the link, with which one user joins the team."
    )
    expires_at = serializers.DateTimeField(help_text="Time until which it can be accepted, wall clock, ISO 8601.")


class InvitationPage(Page):
    results = InvitationOut(many=True, help_text="Invitations that can be accepted, newest first.")


class ClusterTeamsOut(Answer):
    operated_by = serializers.CharField(allow_null=True, help_text="Team that operates the cluster; null for none.")
    is_restricted = serializers.BooleanField(help_text="Whether it exists only for these teams and operators.")
    needs_team = serializers.BooleanField(help_text="Whether each bid has to be of a team.")
    teams = serializers.ListField(child=serializers.CharField(), help_text="Teams that may use it if it is restricted.")


def _new_team(request: Request) -> dict[str, Any]:
    """Return a team as an operator states it. Errors of the body say which users there are, so others read none."""
    if not rights_of(request.user).operates_all:
        raise PermissionDenied("This is for operators.")
    return NewTeamIn.read(request.data)


def _change_of_teams(request: Request, cluster: str) -> dict[str, Any]:
    """Return the teams of a cluster as an operator states them. Errors of the body say which teams there are."""
    if not rights_of(request.user).operates_all:
        raise PermissionDenied("This is for operators of all clusters.")
    return ClusterTeamsIn.read(request.data)


class Teams(ApiView):
    """List and create teams."""

    scope_of_changes = Scope.OPERATE

    @describe("List teams", {200: TeamPage}, READ, parameters=PAGES, operation_id="teams_list")
    def get(self, request: Request) -> Response:
        """Your team, or all teams for operators."""
        return page_of(self, request, teams.visible_teams(user_of(request)), TeamPage)

    @describe(
        "Create a team",
        {201: TeamOut},
        WRITE,
        request=NewTeamIn,
        reads=_new_team,
        parameters=[location("team", [201])],
        examples=examples({"A team": {"name": "vision", "title": "Vision", "administrator": "bidder"}}),
        operation_id="teams_create",
    )
    def post(self, request: Request) -> Response:
        """For operators. 409 if the administrator is in another team."""
        body = _new_team(request)
        team = teams.create_team(body["name"], body["title"], administrator=body["administrator"])
        return submitted(TeamOut.write(team), status=201, location=reverse("api-team", args=[team.name]))


class OneTeam(ApiView):
    """One team."""

    @describe("Read a team", {200: TeamOut}, READ, operation_id="teams_read")
    def get(self, request: Request, team: str) -> Response:
        """Your team, or any for operators."""
        return Response(TeamOut.write(team_named(request, team)))


class Members(ApiView):
    """The members of a team."""

    @describe("List members", {200: MembersOut}, READ, operation_id="teams_members")
    def get(self, request: Request, team: str) -> Response:
        """Members with their roles, for members and operators."""
        rows = team_named(request, team).memberships.select_related("user")
        return Response(MembersOut.write({"results": rows}))


class OneMember(ApiView):
    """One member of a team."""

    scope_of_changes = Scope.OPERATE

    @describe(
        "Change a role",
        {200: MemberOut},
        WRITE,
        request=MemberIn,
        examples=examples({"A viewer": {"role": "viewer"}}),
        operation_id="teams_members_change",
    )
    def put(self, request: Request, team: str, user: str) -> Response:
        """For administrators of the team and operators. 409 for the last administrator."""
        body, found = MemberIn.read(request.data), _administered(request, team)
        return Response(MemberOut.write(teams.change_role(found, _member(found, user), Role(body["role"]))))

    @describe("Remove a member", {204: None}, WRITE, operation_id="teams_members_remove")
    def delete(self, request: Request, team: str, user: str) -> Response:
        """For administrators of the team and operators, and for yourself. 409 for the last administrator."""
        found = team_named(request, team) if user == user_of(request).get_username() else _administered(request, team)
        teams.remove_member(found, _member(found, user))
        return Response(status=204)


class Invitations(ApiView):
    """Invitations to a team."""

    scope_of_changes = Scope.OPERATE

    @describe("List invitations", {200: InvitationPage}, READ, parameters=PAGES, operation_id="teams_invitations")
    def get(self, request: Request, team: str) -> Response:
        """Invitations that can be accepted, for administrators of the team and operators. A token needs scope operate,
        because each user who reads an invitation can join.
        """
        if isinstance(request.auth, Token):
            check_scope(request.auth, Scope.OPERATE)
        return page_of(self, request, invitations.open_invitations(_administered(request, team)), InvitationPage)

    @describe(
        "Invite a user",
        {201: InvitationOut},
        WRITE,
        request=InvitationIn,
        examples=examples({"For a week": {"role": "bidder", "days": 7}}),
        operation_id="teams_invite",
    )
    def post(self, request: Request, team: str) -> Response:
        """For administrators of the team and operators. One user can accept it, once. 409 if 100 are open."""
        body, found = InvitationIn.read(request.data), _administered(request, team)
        made = invitations.invite(found, Role(body["role"]), days=body["days"], by=user_of(request))
        return Response(InvitationOut.write(made), status=201)


class OneInvitation(ApiView):
    """One invitation."""

    scope_of_changes = Scope.OPERATE

    @describe("Withdraw an invitation", {204: None}, WRITE, operation_id="teams_invitations_withdraw")
    def delete(self, request: Request, team: str, invitation: int) -> Response:
        """For administrators of the team and operators. Its link is worth nothing from now on."""
        rows = invitations.open_invitations(_administered(request, team))
        invitations.withdraw(one_of(rows, f"There is no open invitation {invitation}.", pk=invitation))
        return Response(status=204)


class AcceptInvitation(ApiView):
    """Join a team."""

    scope_of_changes = Scope.OPERATE

    @describe(
        "Join a team",
        {200: TeamOut},
        WRITE,
        request=AcceptIn,
        operation_id="invitations_accept",
        examples=examples({"The last part of a link": {"invitation": "1:signature"}}),
    )
    def post(self, request: Request) -> Response:
        """Accept an invitation. 404 if it was withdrawn, accepted or has expired; 409 if you are in a team."""
        text = AcceptIn.read(request.data)["invitation"]
        return Response(TeamOut.write(invitations.accept(text, user_of(request))))


class TeamsOfCluster(ApiView):
    """The teams of a cluster."""

    scope_of_changes = Scope.OPERATE

    @describe("Read a cluster's teams", {200: ClusterTeamsOut}, READ, operation_id="clusters_teams")
    def get(self, request: Request, cluster: str) -> Response:
        """For operators of the cluster: the team that operates it, and those that may use it."""
        if not rights_of(request.user).operates(cluster):
            raise PermissionDenied("This is for operators.")
        return Response(_teams_of(_cluster(cluster)))

    @describe(
        "Change a cluster's teams",
        {200: ClusterTeamsOut},
        WRITE,
        request=ClusterTeamsIn,
        reads=_change_of_teams,
        examples=examples({"Open to all": {"operated_by": None, "is_restricted": False, "teams": []}}),
        operation_id="clusters_teams_change",
    )
    def put(self, request: Request, cluster: str) -> Response:
        """For operators of all clusters. It holds for the next request."""
        body, found = _change_of_teams(request, cluster), _cluster(cluster)
        teams.change_cluster_teams(found, **body)
        return Response(_teams_of(found))


def _teams_of(cluster: Cluster) -> dict[str, Any]:
    row = ClusterTeams.objects.select_related("operated_by").filter(cluster=cluster).first()
    if row is None:
        return ClusterTeamsOut.write({"operated_by": None, "is_restricted": False, "needs_team": False, "teams": []})
    operating = None if row.operated_by is None else row.operated_by.name
    names = list(row.teams.values_list("name", flat=True))
    flags = {"is_restricted": row.is_restricted, "needs_team": row.needs_team}
    return ClusterTeamsOut.write({"operated_by": operating, "teams": names} | flags)


def _cluster(name: str) -> Cluster:
    return one_of(Cluster.objects.all(), f"There is no cluster {name[:60]}.", name=name)


def _no_team(name: str) -> str:
    return f"expected the name of a team, got {shown(name)}"


def team_named(request: Request, name: str) -> Team:
    """Return the team of this name to its members and operators; 404 for others."""
    return one_of(teams.visible_teams(user_of(request)), f"There is no team {name[:60]} that you may read.", name=name)


def _administered(request: Request, name: str) -> Team:
    team = team_named(request, name)
    if not teams.may_administer(user_of(request), team):
        raise PermissionDenied("This is for administrators of the team.")
    return team


def _member(team: Team, name: str) -> Membership:
    rows = team.memberships.select_related("user")
    return one_of(rows, f"{name[:60]} is no member of {team}.", user__username=name)
