"""A market, its users, and clients that speak REST."""

import pytest
from django.contrib.auth.models import User

from accounts import teams
from accounts.models import Role, Team
from auctions.models import Market
from tests.accounts.members import member
from tests.auctions.worlds import make_market
from tests.rest import alice, charlie, client_of, nobody_asked_before

__all__ = ["alice", "charlie", "client_of", "nobody_asked_before"]


@pytest.fixture
def market(db: None) -> Market:
    """An open market of the cluster lab."""
    return make_market()


@pytest.fixture
def team(db: None) -> Team:
    """A team without members."""
    return teams.create_team("vision", "Vision")


@pytest.fixture
def members(team: Team) -> dict[Role, User]:
    """A member of the team in each role."""
    return {role: member(team, role.value, role) for role in Role}
