import json
import os
import subprocess
from typing import Any

import pytest
from django.contrib.auth.models import User

from demo.scenarios import DPS, WEIGHTED
from demo.world import market_of
from tests.processes import ROOT

PAGE = (ROOT / "docs/users/rest.md").read_text()
TOUR, WEIGHED, PLANNED, ISSUED = (part.split("```")[0] for part in PAGE.split("```sh\n")[1:5])


@pytest.mark.thorough
@pytest.mark.django_db(transaction=True)
def test_the_tour_runs_as_written(live_server: Any) -> None:
    for scenario in (DPS, WEIGHTED):
        market_of(scenario, seed=7)
    User.objects.create_user("bidder", password="as printed")
    env = {**os.environ, "BASE": f"{live_server.url}/api/v1", "PASSWORD": "as printed", "no_proxy": "*"}
    tour = (TOUR + WEIGHED + PLANNED + ISSUED).replace("wait=5", "wait=1")  # nobody decides here
    done = subprocess.run(["bash", "-ec", tour], env=env, capture_output=True, text=True, timeout=60)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers.pop()["results"]) == 3
    asked = TOUR.count("\nask ")
    plans = answers[asked + WEIGHED.count("\nweigh /") :]
    assert len(plans) == PLANNED.count("\nplan "), done.stdout + done.stderr
    del answers[-len(plans) :]
    assert [("admitted" in a, a.get("state")) for a in answers[2:4]] == [(True, None), (False, "submitted")]
    assert len(answers[4]["results"]) == 2
    quote, bid, *rows = answers[asked:]
    assert (quote["admitted"], quote["payment"], bid["state"]) == (True, 0.0, "submitted")
    assert rows == [{"results": []}, {"results": []}]
    read, tabled, listed, cancelled = plans
    assert (read["clients"], tabled["method"], cancelled["state"]) == (10, "balanced-greedy", "cancelled")
    assert [row["id"] for row in listed["results"]] == [tabled["id"], read["id"]]
