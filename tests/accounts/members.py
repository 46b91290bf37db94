"""A team with a member in each role, and clients of users."""

from django.contrib.auth.models import User
from django.test import Client

from accounts import teams
from accounts.models import Role, Team
from tests.auctions.worlds import make_user

BASE = "/api/v1"


def member(team: Team, name: str, role: Role) -> User:
    user = make_user(name)
    teams.add_member(team, user, role)
    return user


def in_team(*users: User, role: Role = Role.BIDDER) -> Team:
    """A team of these users."""
    team = teams.create_team("vision", "Vision")
    for user in users:
        teams.add_member(team, user, role)
    return team


def again(user: User) -> User:
    """The user as the next request reads it."""
    return User.objects.get(pk=user.pk)


def page_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client
