"""A market whose policy this version does not have, since it was removed from the registry."""

import pytest
from django.core.management import CommandError, call_command

from auctions.engine.markets import open_market
from auctions.management.commands.serve import Command
from auctions.models import Market
from auctions.runtime import supervisor
from scheduling.registry import POLICIES
from tests.auctions.faulty import FaultyDps, register
from tests.auctions.worlds import make_cluster


@pytest.fixture
def removed(db: None, monkeypatch: pytest.MonkeyPatch) -> Market:
    register(monkeypatch)
    market = open_market(make_cluster(), policy=FaultyDps.name)
    monkeypatch.delitem(POLICIES, FaultyDps.name)
    return market


def test_the_server_does_not_start_and_names_the_market(removed: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "run", lambda *_: None)
    monkeypatch.setattr(Command, "_serve", lambda *_: None)
    with pytest.raises(CommandError, match=f"^markets: expected .*, got '{FaultyDps.name}' in {removed.cluster.name}$"):
        call_command("serve")


def test_a_replay_names_the_policy(removed: Market) -> None:
    with pytest.raises(CommandError, match=f"^the record names an unknown policy '{FaultyDps.name}'; known: antman"):
        call_command("replay_market", removed.cluster.name)
