"""Every registered policy, at every parameter that changes how it decides: who registers one adds a row here."""

import pytest

from scheduling.model.types import Json
from scheduling.policies.base import Objective
from scheduling.registry import POLICIES

SETTINGS: dict[str, list[Json]] = {
    "dps": [
        {"refit_every": 3},
        {
            "refit_every": 1,
            "worker_reserve_factor": 1.0,
            "ps_reserve_factor": 1.0,
            "near_share": 0.5,
            "sooner": 0.02,
        },
        {"price": "paper", "initial_high": 20.0, "refit_every": 2},
        {"price": "fluid", "refit_every": 2, "near_share": 0.7, "sooner": 0.01},
        {"slot_convention": "inclusive", "start_convention": "strict", "refit_every": 2},
    ],
    "oasis": [
        {"refit_every": 3},
        {
            "refit_every": 1,
            "worker_reserve_factor": 4.0,
            "ps_reserve_factor": 1.0,
            "near_share": 0.5,
            "sooner": 0.02,
        },
        {"price": "paper", "initial_high": 20.0, "refit_every": 2},
        {"price": "fluid", "refit_every": 2, "near_share": 0.7, "sooner": 0.01},
        {"model": "chunk", "refit_every": 2, "near_share": 0.4, "sooner": 0.01},
    ],
    "completions": [
        {"refit_every": 3, "later": 0.0},
        {"refit_every": 1, "later": 0.3, "near_share": 0.5, "restart": 1},
    ],
    "competition": [
        {"later": 0.0, "steps": 20, "sooner": 0.0},
        {"later": 0.3, "steps": 0, "restart": 1, "until_closed": False},
    ],
    "weighted_completion": [
        {},
        {"planned": 1, "considered": 2, "searched": 0},
        {"rescaled": 3},
        {"mode": "rolling"},
        {"mode": "rolling", "lambda": 20.0, "order": "weight"},
        {"mode": "interval"},
        {"mode": "interval", "batches": "chained", "order": "arrival"},
        {"mode": "interval", "selection": "jain"},
    ],
    "fifo": [{}, {"blocking": False, "seed": 7}],
    "drf": [{}],
    "antman": [{}, {"patience": 1, "seed": 7}],
    "tiresias": [{}],
    "srtf": [{}],
    "tiresias_l": [{}, {"threshold": 2.0}],
    "batch_sche": [{}, {"batches": "chained"}],
    "dorm": [{"adjustments": 0.5, "considered": 3}],
    "rrh": [{}, {"threshold": 0.2, "risk": 0.9, "seed": 7}],
    "preemptive": [{}, {"cloud": "paper"}, {"cloud": "cloud"}, {"cloud": "edge"}, {"cloud": "edge", "ageing": 0.5}],
}


def _rows(*objectives: Objective, exact: bool = False, binding: bool = False) -> pytest.MarkDecorator:
    rows = [(name, one) for name, many in SETTINGS.items() for one in many if POLICIES[name].objective in objectives]
    if exact:
        rows = [(name, one) for name, one in rows if one.get("model") != "chunk"]
    if binding or exact:
        rows = [(name, one) for name, one in rows if POLICIES[name].binding]
    return pytest.mark.parametrize(("name", "parameters"), rows)


each_policy = _rows(*Objective)
each_auction = _rows(Objective.WELFARE)
each_auction_of_machines = _rows(Objective.WELFARE, binding=True)
"""Those that sell machines, not completions."""
each_exact_auction = _rows(Objective.WELFARE, exact=True)
"""Those whose answer is the best schedule there is. Whole chunks and completions are not: who states other chunks is
rounded better. `test_statements_under_completions.py` says what holds for completions."""
each_auction_in_money = pytest.mark.parametrize(
    ("name", "parameters"),
    [("dps", one) for one in SETTINGS["dps"] if one.get("price") != "paper"]
    + [("oasis", one) for one in SETTINGS["oasis"]],
)
"""Those whose prices are in the currency of the bids. DPS's paper price eta^(share in use) - 1 is a bare number."""
each_planner = _rows(Objective.WEIGHTED_COMPLETION)
each_queuer = _rows(Objective.COMPLETION)
