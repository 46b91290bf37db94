"""Half a minute of the demo with its viewers; `python -m tests.soak_demo` is the long run."""

from pathlib import Path

import pytest

from tests import soak_demo
from tests.soak_demo import Answer, Soak

SECONDS = 30.0


@pytest.mark.slow
def test_viewers_and_bids_at_once_meet_no_failure_of_the_server(tmp_path: Path) -> None:
    found = soak_demo.run(tmp_path, seconds=SECONDS)
    assert found.problems() == []
    asked = {answer.what for answer in found.answers}
    assert {"/", "/healthz", "/markets/M/", "/markets/M/tiles.json", "/markets/M/figures/schedule.json"} <= asked
    assert found.bids >= soak_demo.BULK
    assert found.memory


def test_a_failure_of_the_server_is_a_problem_and_a_busy_database_is_none() -> None:
    fine, busy = Answer("/", 200, 0.1, 1.0), Answer("/", 503, 0.1, 1.0)
    assert Soak(1.0, [fine, busy]).problems() == []
    assert len(Soak(1.0, [fine, Answer("/", 500, 0.1, 1.0), Answer("/", 0, 60.0, 1.0)]).problems()) == 2
    assert Soak(1.0, [busy]).problems() == ["no page was answered"]
    assert len(Soak(1.0, [fine], undecided=1).problems()) == 1


def test_a_late_hundredth_of_the_answers_is_a_problem_of_a_long_run() -> None:
    fine, late = Answer("/", 200, 0.1, 1.0), Answer("/", 200, 0.4, 1.0)
    health = Answer("/healthz", 200, 9.0, 1.0)
    assert Soak(480.0, [fine] * 995 + [late] * 5 + [health] * 50).problems() == []
    assert Soak(480.0, [fine] * 980 + [late] * 20).problems() == ["1 % of answers take 400 ms or more"]
    assert Soak(30.0, [fine] * 980 + [late] * 20).problems() == []


def test_memory_that_grows_over_the_later_half_of_a_long_run_is_a_problem() -> None:
    fine, times = [Answer("/", 200, 0.1, 1.0)], range(0, 480, 2)
    level = Soak(480.0, fine, [(at, 300.0 + min(at, 200)) for at in times])
    grows = Soak(480.0, fine, [(at, 300.0 + at / 6) for at in times])  # by 40 MB in four minutes
    assert level.problems() == []
    assert any("memory grows" in problem for problem in grows.problems())
