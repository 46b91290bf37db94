"""`python -m scheduling decide` for preemptive instances: every one as expected, bad input in one line."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from scheduling.__main__ import main
from tests.scheduling.cases import load, preemptive_cases

GOOD: dict[str, Any] = {
    "servers": [{"workers": [0], "pss": [0], "storage": 2}],
    "cloud": True,
    "jobs": [{"id": "a", "r": 0, "D": 2, "p0": 3, "p1": 1, "delta": [1], "delta_cloud": 4, "chunk_size": 1}],
}
MISSING = "(left out)"
BAD: list[tuple[list[str | int], object, str]] = [
    (["cloud"], 1, "cloud"),
    (["servers"], {}, "servers"),
    (["servers", 0, "workers"], MISSING, "servers[0].workers"),
    (["servers", 0, "workers", 0], -1, "servers[0].workers[0]"),
    (["servers", 0, "workers", 0], True, "servers[0].workers[0]"),
    (["servers", 0, "pss", 0], "x", "servers[0].pss[0]"),
    (["servers", 0, "storage"], -1, "servers[0].storage"),
    (["servers", 0, "gpu"], 1, "servers[0].gpu"),
    (["jobs"], MISSING, "jobs"),
    (["jobs", 0, "id"], None, "jobs[0].id"),
    (["jobs", 0, "r"], -1, "jobs[0].r"),
    (["jobs", 0, "r"], float("nan"), "jobs[0].r"),
    (["jobs", 0, "r"], "1/1000001", "jobs"),
    (["jobs", 0, "D"], 0, "jobs[0].D"),
    (["jobs", 0, "D"], 1.5, "jobs[0].D"),
    (["jobs", 0, "p0"], 0, "jobs[0].p0"),
    (["jobs", 0, "p0"], MISSING, "jobs[0].p0"),
    (["jobs", 0, "p1"], 0, "jobs[0].p1"),
    (["jobs", 0, "p1"], 4, "jobs[0].p1"),
    (["jobs", 0, "p1"], "1/0", "jobs[0].p1"),
    (["jobs", 0, "delta"], [], "jobs[0].delta"),
    (["jobs", 0, "delta", 0], -1, "jobs[0].delta[0]"),
    (["jobs", 0, "delta_cloud"], MISSING, "jobs[0].delta_cloud"),
    (["jobs", 0, "worker_type"], -1, "jobs[0].worker_type"),
    (["jobs", 0, "chunk_size"], "big", "jobs[0].chunk_size"),
    (["jobs", 0, "weight"], 1, "jobs[0].weight"),
]

BY_BATCHES = {"E": 1, "B": 2, "m": "1/2", "G": "1/2", "qb": "1/2"}


def decide(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["decide", str(path), *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def changed(document: dict[str, Any], path: list[str | int], value: object) -> dict[str, Any]:
    document = copy.deepcopy(document)
    inner: Any = document
    for step in path[:-1]:
        inner = inner[step]
    if value == MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return document


@pytest.mark.parametrize("path", preemptive_cases())
@pytest.mark.parametrize("rule", [None, "jobmax", "paper"])
def test_it_prints_what_is_expected(path: Path, rule: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    expected = load(path)["expected"][f"event_{rule or 'jobmax'}"]
    found = decide(path, capsys, *(() if rule is None else ("--cloud", rule)))
    assert {str(row["id"]): str(row["completion"]) for row in found["jobs"]} == expected["completion"]
    assert {str(row["id"]): row["dispatch"] for row in found["jobs"]} == expected["dispatch"]
    assert str(found["total_jct"]) == expected["total_jct"]


@pytest.mark.parametrize("path", preemptive_cases())
def test_it_stores_what_is_expected(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = load(path)["expected"]
    stored = expected.get("event_paper_storage", expected["event_paper"])
    found = decide(path, capsys, "--cloud", "paper", "--storage", "limited")
    assert {str(row["id"]): row["dispatch"] for row in found["jobs"]} == stored["dispatch"]
    assert str(found["total_jct"]) == stored["total_jct"]


def test_options_say_where_chunks_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two chunks of 3 slots after 1 on the one worker, or in the cloud after 4: of 1 slot there, if both are."""
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(GOOD))
    edge = {"id": "a", "completion": 7, "jct": 7, "dispatch": [0, 0]}
    cloud = {"id": "a", "completion": 5, "jct": 5, "dispatch": [-1, -1]}
    for options, row in ((("--cloud", "edge"), edge), ((), cloud), (("--cloud", "cloud"), cloud)):
        assert decide(path, capsys, *options) == {"jobs": [row], "total_jct": row["jct"], "preemptions": 0}
    small = changed(GOOD, ["servers", 0, "storage"], 1)
    path.write_text(json.dumps(small))
    assert decide(path, capsys, "--cloud", "edge", "--storage", "limited")["jobs"] == [
        {"id": "a", "completion": None, "jct": None, "dispatch": []}
    ]
    assert decide(path, capsys, "--cloud", "edge", "--ageing", "1/2")["total_jct"] == 7


@pytest.mark.parametrize(("path", "value", "field"), BAD, ids=lambda part: str(part)[:40])
def test_bad_input_is_one_line_that_names_the_field(
    path: list[str | int], value: object, field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "instance.json"
    file.write_text(json.dumps(changed(GOOD, path, value)))
    assert main(["decide", str(file)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--slot-convention", "inclusive"), "--slot-convention"),
        (("--policy", "dps"), "--policy"),
        (("--ageing", "-1"), "--ageing"),
        (("--ageing", "old"), "--ageing"),
        (("--ageing", "1e400"), "--ageing"),
    ],
)
def test_a_bad_option_is_named(
    options: tuple[str, ...], field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "instance.json"
    file.write_text(json.dumps(GOOD))
    assert main(["decide", str(file), *options]) == 2
    assert capsys.readouterr().err.startswith(f"{field}: ")


def test_times_that_cannot_be_counted_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = {"D": 10**6, "p0": 10**9, "p1": 1, "delta": [1], "r": "1/1000"}
    file = tmp_path / "instance.json"
    jobs = [job | {"id": i} for i in range(12)]
    file.write_text(json.dumps({"servers": [{"workers": [0], "pss": [0]}], "cloud": False, "jobs": jobs}))
    assert main(["decide", str(file)]) == 2
    assert "later than can be counted" in capsys.readouterr().err


def by_batches(**parts: object) -> dict[str, Any]:
    """The instance with the parts of p0 and p1 instead of both."""
    job = {key: value for key, value in GOOD["jobs"][0].items() if key not in ("p0", "p1")}
    return GOOD | {"jobs": [job | BY_BATCHES | parts]}


def test_times_may_be_given_by_their_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = tmp_path / "parts.json", tmp_path / "whole.json"
    path.write_text(json.dumps(by_batches()))
    other.write_text(json.dumps(changed(changed(GOOD, ["jobs", 0, "p1"], 2), ["jobs", 0, "p0"], 3)))
    assert decide(path, capsys, "--cloud", "edge") == decide(other, capsys, "--cloud", "edge")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (by_batches(E=0), "jobs[0].E: expected E, B and m + G above 0, got a product of 0\n"),
        (by_batches(m=0, G=0, qb=1), "jobs[0].E: expected E, B and m + G above 0, got a product of 0\n"),
        (by_batches(p0=3, p1=1), "jobs[0].E: expected no E, B, m, G, qb beside p0 and p1, got E, B, m, G, qb\n"),
        (changed(GOOD, ["jobs", 0, "qb"], -1), "jobs[0].qb: expected no E, B, m, G, qb beside p0 and p1, got qb\n"),
        (by_batches(p0=3), "jobs[0].p1: missing; jobs[0].E: expected no E, B, m, G, qb beside p0 and p1, got"),
    ],
)
def test_times_are_given_in_one_way(
    document: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(document))
    assert main(["decide", str(path)]) == 2
    assert capsys.readouterr().err.startswith(message)
