"""Every registered policy, at every parameter that changes how it decides: who registers one adds a row here."""

import pytest

from scheduling.arrays import Json
from scheduling.policy import Objective
from scheduling.registry import POLICIES

SETTINGS: dict[str, list[Json]] = {
    "dps": [
        {"refit_every": 3},
        {"refit_every": 1, "worker_share": 1.0, "ps_share": 1.0},
        {"price": "printed", "prior_high": 20.0, "refit_every": 2},
        {"window": "inclusive", "start": "strict", "refit_every": 2},
    ],
}

ROWS = [(name, parameters) for name, rows in SETTINGS.items() for parameters in rows]
each_policy = pytest.mark.parametrize(("name", "parameters"), ROWS)
each_auction = pytest.mark.parametrize(
    ("name", "parameters"), [row for row in ROWS if POLICIES[row[0]].objective is Objective.WELFARE]
)
