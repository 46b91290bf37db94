"""Alice asks, Olga operates, Charlie must see nothing; instances of two helpers and three clients."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User

from studies.models import Plan
from studies.split_learning.api.examples import TINY
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from tests.rest import alice, api, charlie, client_of, nobody_asked_before
from tests.studies.plans.here import compute_here

__all__ = ["alice", "api", "charlie", "client_of", "nobody_asked_before"]  # fixtures of all who speak REST
URL = "/api/v1/plans"


def large(helpers: int = 20, clients: int = 200) -> Any:
    """The body of a request that the exact method takes far longer for than a test may: nothing is alike."""
    rng = np.random.default_rng(5)
    ranges = {"release": 100, "forward": 30, "gap": 60, "backward": 60, "tail": 100}
    demand = rng.integers(1, 10, clients)
    memory = int(demand.sum() * 1.15 / helpers)
    instance = {
        "helpers": [{"memory_gb": memory} for _ in range(helpers)],
        "clients": [{"demand_gb": amount} for amount in demand.tolist()],
        **{name: rng.integers(1, most, (helpers, clients)).tolist() for name, most in ranges.items()},
    }
    return {"instance": instance, "seconds": 300}


def tiny(**more: Any) -> Any:
    """The body of a request; optimal plans of it take 27 slots, and are proven in far less than a minute."""
    return {"instance": deepcopy(TINY), "seconds": 60, **more}


def submitted(owner: User, body: Any = None) -> Plan:
    """A plan that waits."""
    return submit_plan(owner, PlanRequest.from_json(body or tiny()))


@pytest.fixture
def done(alice: User) -> Plan:
    """A plan that is there."""
    plan = submitted(alice)
    assert compute_here()
    plan.refresh_from_db()
    return plan
