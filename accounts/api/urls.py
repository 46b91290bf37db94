"""URL paths of accounts, under /api/v1."""

from django.urls import URLPattern, path

from accounts.api import teams, tokens

T = "teams/<slug:team>"

urlpatterns: list[URLPattern] = [
    path("tokens", tokens.Tokens.as_view(), name="api-tokens"),
    path("tokens/<int:token>", tokens.OneToken.as_view(), name="api-token-of-user"),
    path("tokens/<int:token>/rotate", tokens.RotateToken.as_view(), name="api-token-rotate"),
    path("teams", teams.Teams.as_view(), name="api-teams"),
    path(T, teams.OneTeam.as_view(), name="api-team"),
    path(f"{T}/members", teams.Members.as_view(), name="api-members"),
    path(f"{T}/members/<str:user>", teams.OneMember.as_view(), name="api-member"),
    path(f"{T}/invitations", teams.Invitations.as_view(), name="api-invitations"),
    path(f"{T}/invitations/<int:invitation>", teams.OneInvitation.as_view(), name="api-invitation"),
    path("invitations/accept", teams.AcceptInvitation.as_view(), name="api-invitation-accept"),
    path("clusters/<slug:cluster>/teams", teams.TeamsOfCluster.as_view(), name="api-cluster-teams"),
]
