"""Create counterfactuals: check a request and store it for a worker."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields have help texts)
from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib.auth.models import User

from auctions.counterfactual.record import Record
from auctions.models import Market
from cluster.clock import now
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import LARGEST_INTEGER
from scheduling.policies.base import Policy
from studies.background.creating import NO_KEY, IdempotencyKey, creating
from studies.background.shapes import policy_name, policy_of, policy_parameters, wrong_parameters
from studies.job_tables import COUNTERFACTUALS
from studies.models import Counterfactual
from web.fields import Integer
from web.schema import Schema


class CounterfactualIn(Schema):
    policy = policy_name("The policy that decides instead.")
    parameters = policy_parameters()
    since = Integer(1, LARGEST_INTEGER, default=1, help_text="Number of the first bid that it decides; by default 1.")

    def wrong_keys(self, data: Json) -> Mapping[str, str]:
        """Return what is wrong with the parameters, whatever else is wrong."""
        return wrong_parameters(data.get("policy"), data.get("parameters"))

    def validate(self, attrs: Json) -> Json:
        """Return the policy with its parameters."""
        return {"policy": policy_of(attrs["policy"], attrs["parameters"]), "since": attrs["since"]}


@dataclass(frozen=True)
class CounterfactualRequest:
    """The policy to evaluate and the first bid that it decides."""

    policy: Policy
    since: int = 1
    """Sequence number of the first bid that the policy decides."""

    @classmethod
    def from_json(cls, body: Json) -> "CounterfactualRequest":
        """Read the body of a request; raises InvalidField naming the wrong fields, a parameter as `parameters.name`."""
        return cls(**CounterfactualIn.read(body))


def create(owner: User, market: Market, request: CounterfactualRequest, key: IdempotencyKey = NO_KEY) -> Counterfactual:
    """Store the request for a worker. The replay covers all events up to now.

    Raises
    ------
    TooManyOpen
        If the owner has too many open counterfactuals.
    InvalidField
        Naming `since`, if the market has no such bid, or `policy`, if that cannot run on the servers that the market
        had from then on.
    """
    with creating(COUNTERFACTUALS, owner, count=1):
        record = Record.of(market)
        if request.since > max(1, record.submitted):  # a market without bids may be asked from its first one on
            bids = "1 bid" if record.submitted == 1 else f"{record.submitted} bids"
            raise InvalidField("since", f"expected the number of a bid, got {request.since}; the market has {bids}")
        _check_servers(record, request)
        return Counterfactual.objects.create(
            owner=owner,
            market=market,
            policy=request.policy.name,
            parameters=request.policy.to_json(),
            since=request.since,
            version=record.version,
            slot=record.slot,
            submitted=record.submitted,
            submitted_at=now(),
            idempotency_key=key.key,
            body_digest=key.digest,
        )


def _check_servers(record: Record, request: CounterfactualRequest) -> None:
    """Check the policy against every inventory of the period. Conflicts with running jobs are found in the replay."""
    policy, start = request.policy, record.decided_from(request.since)
    for snapshot in record.snapshots_from(record.version + 1 if start is None else start):
        try:
            policy.check(snapshot.inventory)
        except InvalidField as error:
            raise InvalidField(
                "policy", f"expected a policy that can run on this market's servers, got {policy.name}: {error.problem}"
            ) from None
