"""Which policy a market decides by. Versions are only added: decisions keep the one they were made under."""

from django.contrib.auth.models import User

from auctions.lock import Happening, Moment, locked_market, moment_of, record, save_counters
from auctions.models import EventKind, Market, PolicyVersion
from auctions.slots import caught_up
from scheduling.arrays import Json
from scheduling.registry import make_policy


def change_policy(market: Market, *, name: str, parameters: Json, by: User | None) -> PolicyVersion:
    """Decide by this policy from now on; raises UnknownPolicy, or InvalidField naming the parameter."""
    make_policy(name, parameters)
    with locked_market(market.pk) as held:
        moment = moment_of(held)
        caught_up(held, moment)  # slots that began had the old policy's prices
        chosen = add_version(held, moment, name=name, parameters=parameters, by=by)
        save_counters(held)
    return chosen


def add_version(market: Market, moment: Moment, *, name: str, parameters: Json, by: User | None) -> PolicyVersion:
    """Record the policy as the market's next version, under its lock. What is stored names every parameter."""
    complete = make_policy(name, parameters).to_json()
    last = PolicyVersion.objects.filter(market=market).order_by("-number").first()
    chosen = PolicyVersion.objects.create(
        market=market,
        number=1 if last is None else last.number + 1,
        name=name,
        parameters=complete,
        created_at=moment.wall,
        created_by=by,
    )
    payload = {"number": chosen.number, "name": name, "parameters": complete}
    record(market, Happening(EventKind.POLICY, at=moment.wall, slot=moment.now, payload=payload))
    return chosen
