"""The state of a market at its cut, up to which its events are archived."""

from auctions.models import Market, Seal
from scheduling.model.decision import parse
from scheduling.model.types import Json


def last_seal(market: Market) -> Seal | None:
    """Return the seal of the last archive of a market; None if nothing is archived."""
    return Seal.objects.filter(market=market).order_by("-number").first() if market.sealed_version else None


def state_at_cut(market: Market) -> Json | None:
    """Return the state after the last archived event, as `EventPass.state` wrote it; None if nothing is archived."""
    seal = last_seal(market)
    return None if seal is None else parse(seal.end_state)
