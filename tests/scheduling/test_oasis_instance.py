"""Reading OASiS instances, and answering them from the command line."""

import copy
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduling.__main__ import main
from scheduling.instances.answer_oasis import to_document
from scheduling.instances.families import decide_in_order
from scheduling.instances.fields import parse_document
from scheduling.instances.oasis import read_oasis
from scheduling.model.errors import InvalidField
from scheduling.model.utility import Constant, Inverse, Sigmoid, Step, utility_from_json
from scheduling.policies.oasis import Oasis
from tests.scheduling.cases import oasis_cases, own_case

INSTANCE: dict[str, Any] = {
    "T": 3,
    "slot_seconds": 36,
    "worker_servers": [[4, "1/2"], [2, 3]],
    "ps_servers": [[3, 3]],
    "jobs": [
        {
            "id": "a",
            "arrival": 1,
            "epochs": 2,
            "chunks": 2,
            "minibatches": 1,
            "tau": "0.3",
            "grad_mb": 450,
            "worker_bw_mbps": 1000,
            "ps_bw_mbps": 2000,
            "worker": [1, Decimal("0.25")],
            "ps": [1, 0],
            "utility": {"type": "constant", "v": 10},
        }
    ],
    "prices": {"L1": 1, "L2": 0.5, "U1": [2, 3], "U2": [4, 5]},
}


def with_(path: str, value: object) -> dict[str, Any]:
    """The instance with one thing else at a path such as `jobs.0.tau`; DROP takes it away."""
    document = copy.deepcopy(INSTANCE)
    *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    inner: Any = document
    for key in way:
        inner = inner[key]
    if value is DROP:
        del inner[last]
    else:
        inner[last] = value
    return document


DROP = object()


def test_it_reads_both_pools_into_one_inventory() -> None:
    instance = read_oasis({"instance": INSTANCE})
    inventory, (bid,) = instance.inventory, instance.bids
    # Quarters of the second resource make four whole units of one.
    assert instance.units == (1, 4, 1, 1)
    assert inventory.capacity.tolist() == [[4, 2, 0, 0], [2, 12, 0, 0], [0, 0, 3, 3]]
    assert inventory.workers[0].demand == (1, 1, 0, 0)
    assert inventory.parameter_servers[0].demand == (0, 0, 1, 0)
    # 2 x 8 x 450 Mbit at 1000 Mbit/s are 7.2 s of a slot of 36.
    assert bid.worker_time[0] + bid.transfer_time[0] == Fraction(3, 10) + Fraction(1, 5)
    assert (instance.ledger().start, instance.ledger().end) == (1, 4)
    bounds = instance.bounds()
    assert bounds.log_low == pytest.approx((0.0, -math.log(4), math.log(0.5), math.log(0.5)))
    assert bounds.log_high == pytest.approx((math.log(2), math.log(3) - math.log(4), math.log(4), math.log(5)))


def test_fractions_of_a_unit_cost_what_whole_units_do() -> None:
    fine = read_oasis(INSTANCE)
    coarse = copy.deepcopy(INSTANCE)
    coarse["worker_servers"], coarse["jobs"][0]["worker"] = [[4, 2], [2, 12]], [1, 1]
    coarse["prices"] |= {"L1": 1, "U1": [2, 3]}
    payments = []
    for instance in (fine, read_oasis(coarse)):
        bounds = instance.bounds()
        policy = Oasis(price="paper", log_low=bounds.log_low, log_high=bounds.log_high)
        (row,) = to_document(instance, decide_in_order(policy, instance.bids, instance.ledger()))["jobs"]
        payments.append(row["payment"])
    # Two worker-slots: in the coarse file a worker takes four times as much of the second resource.
    assert payments == pytest.approx([2 * (1 + 0.25) + 0.5, 2 * (1 + 1) + 0.5])


@pytest.mark.parametrize(
    ("utility", "expected"),
    [
        ({"type": "constant", "v": 3}, Constant(3)),
        ({"type": "sigmoid", "g1": 3, "g2": 1, "g3": 2}, Sigmoid(3, 1, 3)),
        ({"type": "step", "v": 3, "deadline": 1}, Step(3, 2)),
    ],
)
def test_worth_is_counted_from_completion_a_slot_after_the_last_active_one(utility: Any, expected: object) -> None:
    assert read_oasis(with_("jobs.0.utility", utility)).bids[0].utility == expected


def test_any_other_form_of_worth_becomes_a_table() -> None:
    utility = read_oasis(with_("jobs.0.utility", {"type": "inverse", "a": 1, "work": 2, "T": 3})).bids[0].utility
    original = Inverse(1, 2, 3)
    assert [utility.at(d + 1) for d in range(4)] == [original.at(d) for d in range(4)]


def test_what_is_in_use_before_the_first_job_is_in_the_ledger() -> None:
    usage = [[[1, "0.5"], [0, 0]], [[0, 0], [2, 3]], [[0, 0], [0, 0]]]
    ledger = read_oasis(INSTANCE | {"initial_worker_usage": usage}).ledger()
    used = np.zeros((3, 3, 4), dtype=np.int64)
    used[0, 0], used[1, 1] = (1, 2, 0, 0), (2, 12, 0, 0)
    assert ledger.used.tolist() == used.tolist()


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("T", 0, "T"),
        ("T", DROP, "T"),
        ("colour", "red", "colour"),
        ("slot_seconds", 0, "slot_seconds"),
        ("worker_servers", [], "worker_servers"),
        ("worker_servers.1", [1], "worker_servers[1]"),
        ("worker_servers.0.1", -1, "worker_servers[0][1]"),
        ("worker_servers.0.1", "1/1000000007", "worker_servers"),
        ("ps_servers", [], "ps_servers"),
        ("resources", ["gpu"], "resources"),
        ("jobs.0.worker", [0, 0], "jobs[0].worker"),
        ("jobs.0.ps", [1], "jobs[0].ps"),
        ("jobs.0.tau", "soon", "jobs[0].tau"),
        ("jobs.0.arrival", 4, "jobs[0].arrival"),
        ("jobs.0.id", None, "jobs[0].id"),
        ("jobs.0.worker_bw_mbps", 0, "jobs[0].worker_bw_mbps"),
        ("jobs.0.ps_bw_mbps", 0, "jobs[0].ps_bw_mbps"),
        ("jobs.0.utility", {"type": "constant"}, "jobs[0].utility.v"),
        ("prices.L1", 0, "prices.L1"),
        ("prices.U1", [1], "prices.U1"),
        ("prices.U1", [2, 0.1], "prices.U1[1]"),
        ("prices.U1", [2, 0], "prices.U1[1]"),
        ("prices.lnL1", 0, "prices.lnL2"),
        ("u_arg", "late", "u_arg"),
        ("initial_ps_usage", [[[0, 0]]], "initial_ps_usage"),
        ("initial_ps_usage", [[[0, 0]], [[4, 0]], [[0, 0]]], "initial_ps_usage[1][0][0]"),
    ],
)
def test_what_is_wrong_is_refused_by_name(path: str, value: object, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        read_oasis(with_(path, value))
    assert refused.value.field == field


@pytest.mark.parametrize("most", [0, None, 0.1])
def test_a_resource_nobody_asks_for_needs_no_highest_price(most: float | None) -> None:
    bounds = read_oasis(with_("prices.U2", [4, most])).bounds()
    assert bounds.log_high[3] == bounds.log_low[3] == math.log(0.5)


def test_jobs_come_in_order_and_have_names_of_their_own() -> None:
    job = INSTANCE["jobs"][0]
    with pytest.raises(InvalidField, match=r"jobs\[1\]\.arrival"):
        read_oasis(INSTANCE | {"jobs": [job | {"arrival": 2}, job | {"id": "b"}]})
    with pytest.raises(InvalidField, match=r"jobs\[1\]\.id"):
        read_oasis(INSTANCE | {"jobs": [job, job]})


@pytest.mark.thorough
@pytest.mark.parametrize("path", oasis_cases())
def test_the_command_answers_with_every_option(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--price", "learned"], ["--model", "chunk"], ["--policy", "oasis"]):
        assert main(["decide", str(path), *options]) == 0
        answer = json.loads(capsys.readouterr().out)
        instance = read_oasis(parse_document(path.read_text()))
        assert answer["welfare"] == pytest.approx(sum(row["value"] for row in answer["jobs"]))
        for row in answer["jobs"]:
            assert row["accept"] == (row["schedule"] is not None)
            if row["accept"]:
                assert row["schedule"][-1]["t"] == row["t_hat"] <= instance.T
                assert all(len(slot["y"]) == instance.worker_servers for slot in row["schedule"])
                assert all(sum(slot["y"]) >= sum(slot["z"]) >= 1 for slot in row["schedule"])


@pytest.mark.parametrize("option", [["--slot-convention", "inclusive"], ["--policy", "dps"], ["--mode", "rolling"]])
def test_options_of_other_families_are_refused(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decide", str(own_case("oasis/one_server")), *option]) == 2
    assert option[0] in capsys.readouterr().err


def decided(document: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    file = tmp_path / "instance.json"
    file.write_text(json.dumps(document, default=str))
    assert main(["decide", str(file)]) == 0
    jobs: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["jobs"]
    return jobs


def test_a_file_without_prices_or_worth_at_the_horizon_says_that_none_can_be_derived(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worthless = with_("prices", DROP)
    worthless["jobs"][0]["utility"] = {"type": "step", "v": 5, "deadline": 1}
    file = tmp_path / "worthless.json"
    file.write_text(json.dumps(worthless, default=str))
    assert main(["decide", str(file)]) == 2
    assert "prices" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("jobs.0.utility", {"type": "constant", "v": 0}),
        ("jobs.0.ps_bw_mbps", 999),
        ("jobs.0.tau", 4),
        ("worker_servers", [[0, 0]]),
        ("ps_servers", [[0, 0], [0, 0]]),
    ],
)
def test_jobs_that_no_price_admits_need_no_prices(
    path: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = with_(path, value)
    del document["prices"]
    assert [job["accept"] for job in decided(document, tmp_path, capsys)] == [False]


def test_a_file_without_jobs_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = with_("prices", DROP)
    document["jobs"] = []
    assert decided(document, tmp_path, capsys) == []


def test_prices_of_a_files_own_jobs_count_what_no_worker_demands_with_the_worker_servers() -> None:
    document = with_("jobs.0.worker", [1, 0])
    del document["prices"]
    bounds = read_oasis(document).bounds()
    # (25), (26): 2 worker-slots of a worker of 1 unit and a PS of 1, for 10; 1/eta is the share of 3 slots' capacity.
    assert bounds.log_low[0] == pytest.approx(math.log(10 / 2 / 4 * 2 / (3 * (4 + 0.5 + 2 + 3))))
    assert bounds.log_low[2] == pytest.approx(math.log(10 / 2 / 4 * 2 / (3 * (3 + 3))))
    idle = {"initial_worker_usage": [[[0, 0], [0, 0]]] * 3}
    assert read_oasis(document | idle).bounds().log_low == pytest.approx(bounds.log_low)


@pytest.mark.parametrize(
    "utility",
    [{"type": "step", "v": 5, "deadline": 10**9}, {"type": "sigmoid", "g1": 5, "g2": 1e-9, "g3": 10**9}],
)
def test_the_latest_time_that_a_utility_may_state_is_read(utility: dict[str, Any]) -> None:
    moved = read_oasis(with_("jobs.0.utility", utility)).bids[0].utility
    original = utility_from_json(utility)
    assert [moved.at(d + 1) for d in range(4)] == [original.at(d) for d in range(4)]
