"""`python -m scheduling decide`: results on standard output; bad input in one line that names the field."""

import copy
import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling import __main__ as command
from scheduling.__main__ import main
from scheduling.instances.dps import read_instance
from scheduling.instances.fields import parse_document
from scheduling.model.errors import InvalidField
from tests.draws import rounds
from tests.scheduling.cases import load, own_case

GOOD: dict[str, Any] = {
    "T": 4,
    "slot_seconds": 3600,
    "worker_types": [{"bw_mbps": 100}],
    "ps_types": [{"bw_mbps": 400}],
    "servers": [{"workers": [2], "pss": [1], "cloud": False}],
    "jobs": [
        {
            "id": 7,
            "arrival": 1,
            "epochs": 1,
            "chunks": 2,
            "minibatches": 1,
            "worker_time": [1],
            "ps_time": [0],
            "grad_mb": 0,
            "delay": [0],
            "utility": {"type": "constant", "v": 10},
        }
    ],
    "prices": {"eta_w": [3.0], "eta_p": [3.0]},
}
MISSING = "(left out)"
BAD: list[tuple[list[str | int], object, str]] = [
    (["T"], True, "T"),
    (["T"], 0, "T"),
    (["T"], 10**30, "T"),
    (["T"], 4.5, "T"),
    (["T"], MISSING, "T"),
    (["T"], float("nan"), "T"),
    (["jobs", 0, "worker_time", 0], float("nan"), "jobs[0].worker_time[0]"),
    (["jobs", 0, "utility", "v"], float("inf"), "jobs[0].utility.v"),
    (["prices", "eta_w"], [float("-inf")], "prices.eta_w[0]"),
    (["slot_seconds"], 0, "slot_seconds"),
    (["slot_seconds"], False, "slot_seconds"),
    (["horizon"], 4, "horizon"),
    (["servers"], [], "servers"),
    (["servers"], {}, "servers"),
    (["servers", 0, "workers"], [1, 2], "servers[0].workers"),
    (["servers", 0, "workers", 0], -1, "servers[0].workers[0]"),
    (["servers", 0, "pss", 0], True, "servers[0].pss[0]"),
    (["servers", 0, "cloud"], 1, "servers[0].cloud"),
    (["servers", 0, "gpu"], 1, "servers[0].gpu"),
    (["worker_types"], [], "worker_types"),
    (["worker_types", 0, "bw_mbps"], 0, "worker_types[0].bw_mbps"),
    (["worker_types", 0, "bw_mbps"], "fast", "worker_types[0].bw_mbps"),
    (["ps_types", 0], 5, "ps_types[0]"),
    (["jobs"], None, "jobs"),
    (["jobs", 0, "id"], True, "jobs[0].id"),
    (["jobs", 0, "arrival"], 5, "jobs[0].arrival"),
    (["jobs", 0, "arrival"], 0, "jobs[0].arrival"),
    (["jobs", 0, "epochs"], 0, "jobs[0].epochs"),
    (["jobs", 0, "epochs"], 10**18, "jobs[0].epochs"),
    (["jobs", 0, "chunks"], 10**8, "jobs[0].chunks"),
    (["jobs", 0, "minibatches"], "3", "jobs[0].minibatches"),
    (["jobs", 0, "worker_time", 0], -0.5, "jobs[0].worker_time[0]"),
    (["jobs", 0, "worker_time", 0], "1/0", "jobs[0].worker_time[0]"),
    (["jobs", 0, "worker_time", 0], "1e999999999", "jobs[0].worker_time[0]"),
    (["jobs", 0, "ps_time"], [], "jobs[0].ps_time"),
    (["jobs", 0, "grad_mb"], 1e300, "jobs[0].grad_mb"),
    (["jobs", 0, "delay", 0], 1.5, "jobs[0].delay[0]"),
    (["jobs", 0, "utility"], 5, "jobs[0].utility"),
    (["jobs", 0, "utility", "v"], -1, "jobs[0].utility.v"),
    (["jobs", 0, "utility", "type"], "cubic", "jobs[0].utility.type"),
    (["jobs", 0, "colour"], "red", "jobs[0].colour"),
    (["prices", "eta_w"], [0.5], "prices.eta_w[0]"),
    (["prices", "eta_p"], [1, 2], "prices.eta_p"),
    (["prices", "eta_q"], [1], "prices.eta_q"),
    (["conventions"], {"slot_convention": "open"}, "conventions.slot_convention"),
    (["conventions"], {"window": "open"}, "conventions.window"),
    (["conventions"], {"start": "late"}, "conventions.start"),
    (["conventions"], {"slot_convention": "inclusive", "window": "inclusive"}, "conventions.window"),
    (["initial_worker_usage"], [[[0]]], "initial_worker_usage"),
    (["initial_worker_usage"], [[[3]]] * 4, "initial_worker_usage[0][0][0]"),
    (["initial_ps_usage"], [[[0]]] * 3 + [[[2]]], "initial_ps_usage[3][0][0]"),
    (["initial_ps_usage"], [[[0.5]]] * 4, "initial_ps_usage[0][0][0]"),
]


def spoilt(path: list[str | int], value: object) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    if value is MISSING:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "instance.json"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(("path", "value", "field"), BAD, ids=lambda x: str(x)[:40])
def test_a_bad_field_is_named_in_one_line(
    path: list[str | int], value: object, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decide", write(tmp_path, json.dumps(spoilt(path, value)))]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{field}: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{", "[1, 2", '{"T": NaN}', '{"T": -Infinity}', "nul", "\x00", "[" * 100_000])
def test_what_is_not_json_is_refused_in_one_line(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decide", write(tmp_path, text)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_field_given_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decide", write(tmp_path, json.dumps(GOOD)[:-1] + ', "T": 3}')]) == 2
    assert capsys.readouterr().err.endswith(" expected each name once in an object, got 'T' twice\n")


def test_a_file_without_end_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LARGEST_FILE", 1000)
    assert main(["decide", "/dev/zero"]) == 2
    assert capsys.readouterr().err == "INSTANCE: expected at most 1000 bytes, got more in /dev/zero\n"


def test_a_missing_file_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (tmp_path / "none.json", tmp_path):
        assert main(["decide", str(name)]) == 2
        assert capsys.readouterr().err.startswith("INSTANCE: ")


@pytest.mark.parametrize("option", [["--policy", "none"], ["--price", "free"], ["--window", "ajar"], ["--begin", "ge"]])
def test_an_unknown_option_is_refused_in_one_line(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["decide", "x.json", *option])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert option[0] in error
    assert error.count("\n") == 1


def test_bytes_that_are_no_text_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert main(["decide", str(path)]) == 2
    assert capsys.readouterr().err.startswith("INSTANCE: ")


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3)
)
places = st.sampled_from(sorted({tuple(map(str, path)): path for path, _, _ in BAD}.values(), key=str))


@settings(max_examples=rounds(100))
@given(path=places, value=anything)
def test_whatever_stands_in_a_field_it_is_read_or_refused(path: list[str | int], value: object) -> None:
    try:
        document = spoilt(path, value)
    except (KeyError, TypeError):
        return
    with suppress(InvalidField):
        read_instance(parse_document(json.dumps(document)))


@pytest.mark.parametrize("wrapped", [False, True])
def test_decisions_are_printed_in_the_result_format(
    wrapped: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {"name": "x", "instance": GOOD} if wrapped else GOOD
    assert main(["decide", write(tmp_path, json.dumps(document))]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "jobs": [
            {
                "id": 7,
                "accept": True,
                "payoff": 10.0,
                "payment": 0.0,
                "value": 10.0,
                "t_hat": 2,
                "schedule": {"w": 0, "p": 0, "a": 1, "d": 1, "y": {"0": 2}, "z": {"0": 1}},
            }
        ],
        "welfare": 10.0,
    }


def test_a_rejection_has_no_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decide", write(tmp_path, json.dumps(spoilt(["jobs", 0, "delay", 0], 9)))]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["welfare"] == 0
    assert document["jobs"][0] == {
        "id": 7, "accept": False, "payoff": 0.0, "payment": 0.0, "value": 0.0, "t_hat": None, "schedule": None,
    }  # fmt: skip


@pytest.mark.thorough
def test_it_needs_nothing_of_the_service_around_it(tmp_path: Path) -> None:
    path, root = own_case("dps/types_differ"), Path(__file__).resolve().parents[2]
    code = f"""
import runpy, sys
for name in ("django", "celery", "rest_framework", "redis", "plotly", "config", "cluster", "auctions", "frontend"):
    sys.modules[name] = None
sys.argv = ["scheduling", "decide", {str(path)!r}]
runpy.run_module("scheduling", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["jobs"]


def asked_for(price: str) -> list[str]:
    """Arguments that decide an instance with this price; former names of prices go with those of conventions."""
    former = price in ("printed", "learned")
    names = ("--window", "--start") if former else ("--slot-convention", "--start-convention")
    options = ["--policy", "dps", "--price", price, names[0], "inclusive", names[1], "strict"]
    return ["decide", str(own_case("dps/types_differ")), *options]


@pytest.mark.parametrize("price", ["paper", "quantile", "printed", "learned"])
def test_it_decides_with_each_price_by_its_name_of_now_and_by_its_former_one(
    price: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(asked_for(price)) == 0
    out, err = capsys.readouterr()
    row = json.loads(out)["jobs"][0]
    if price in ("paper", "printed"):
        expected = load(own_case("dps/types_differ"))["expected"]["inclusive_strict"]["isolated"][0]
        assert row["payoff"] == pytest.approx(expected["payoff"])
    assert err == ""


@pytest.mark.thorough
def test_it_runs_as_a_module_without_settings_or_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "scheduling", *asked_for("learned")],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert main(asked_for("learned")) == 0
    assert (done.stdout, done.stderr) == (capsys.readouterr().out, "")


@pytest.mark.thorough
def test_it_ends_without_a_traceback_where_nobody_reads_its_answer() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "scheduling", "decide", str(own_case("dps/types_differ"))],
        cwd=Path(__file__).resolve().parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    process.stdout.close()  # as `head` does when it has its lines
    _, error = process.communicate()
    assert (process.returncode, error) == (-signal.SIGPIPE, b"")


def test_one_line_names_every_wrong_number_of_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(spoilt(["servers", 0, "workers"], [-1]) | {"prices": {"eta_w": [0.5], "eta_p": [3]}}))
    assert main(["decide", str(file)]) == 2
    assert "servers[0].workers[0]" in capsys.readouterr().err
    file.write_text(json.dumps(spoilt(["jobs", 0, "utility"], {"type": "step", "v": -1, "deadline": "x"})))
    assert main(["decide", str(file)]) == 2
    assert capsys.readouterr().err == (
        "jobs[0].utility.v: expected 0 to 1,000,000,000,000, got -1;"
        " jobs[0].utility.deadline: expected a finite number, got 'x'\n"
    )


def test_the_largest_value_for_a_single_slot_gives_etas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = spoilt(["jobs", 0, "utility", "v"], 10**12)
    del document["prices"]
    assert main(["decide", write(tmp_path, json.dumps(document))]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"][0]["accept"]


def test_a_number_is_shown_as_a_number_and_a_text_as_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decide", write(tmp_path, json.dumps(GOOD | {"T": 4.5, "slot_seconds": "-1/2"}))]) == 2
    assert capsys.readouterr().err == (
        "T: expected a whole number, got 4.5; slot_seconds: expected 0 to 1,000,000,000, got '-1/2'\n"
    )


@pytest.mark.parametrize("policy", ["oasis", "fifo", "completions"])
def test_a_policy_of_another_family_is_refused_by_its_name(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decide", write(tmp_path, json.dumps(GOOD)), "--policy", policy]) == 2
    assert capsys.readouterr().err == f"--policy: expected a policy for DPS instances, got {policy}\n"


@pytest.mark.parametrize("text", ["[]", "5", '{"instance": []}'])
def test_a_document_that_is_no_object_is_named(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decide", write(tmp_path, text)]) == 2
    assert capsys.readouterr().err.startswith("document: expected an object, got ")


@pytest.mark.parametrize("document", [{}, {"T": 4}, {"servers": [], "jobs": []}, {"instance": {"T": 4}}])
def test_a_file_of_no_family_is_asked_for_the_field_of_one(
    document: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["decide", write(tmp_path, json.dumps(document))]) == 2
    assert capsys.readouterr().err == (
        "document: expected one of worker_types (DPS), worker_servers (OASiS), arch (weighted completion),"
        " cloud (preemptive), helpers (split learning), got none of them\n"
    )
