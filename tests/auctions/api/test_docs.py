import os
import subprocess
from typing import Any

import pytest
from rest_framework.authtoken.models import Token

from tests.auctions.worlds import make_market, make_user
from tests.processes import ROOT

TOUR = (ROOT / "docs/api.md").read_text().split("```sh\n")[1].split("```")[0].splitlines()


@pytest.mark.django_db(transaction=True)
def test_the_tour_runs_as_written(live_server: Any) -> None:
    make_market()
    token = Token.objects.create(user=make_user("tourist")).key
    env = {**os.environ, "BASE": f"{live_server.url}/api/v1/clusters/lab", "TOKEN": token, "no_proxy": "*"}
    for command in TOUR:
        done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert done.stdout.startswith("{")
