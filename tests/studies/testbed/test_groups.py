"""Control groups of both versions, on directories that look like them; real ones are in `test_run.py`."""

import os
from pathlib import Path

import pytest

from studies.testbed.groups import CONTROLLERS, Groups, Limits, NoGroups

LIMITS = Limits(processors=0.5, memory_mb=100, processes=7)


def first(tmp_path: Path, *names: str) -> Groups:
    """Version 1, with this process in the group /mine of the memory controller."""
    for name in names:
        (tmp_path / name / "mine").mkdir(parents=True)
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0\n")
    mounts, own = tmp_path / "mounts", tmp_path / "own"
    mounts.write_text("".join(f"cgroup {tmp_path / name} cgroup rw,{name} 0 0\n" for name in names))
    own.write_text("4:memory:/mine\n1:cpu:/\n0::/\n")
    return Groups.here(mounts=mounts, own=own)


def test_groups_of_version_1_are_below_that_of_this_process(tmp_path: Path) -> None:
    groups = first(tmp_path, *CONTROLLERS)
    made = groups.make("one", LIMITS)
    assert groups.version == 1
    assert set(made) == {
        tmp_path / "cpu/one",
        tmp_path / "cpuset/one",
        tmp_path / "pids/one",
        tmp_path / "memory/mine/one",
    }
    assert (tmp_path / "cpu/one/cpu.cfs_quota_us").read_text() == "25000"
    assert (tmp_path / "cpu/one/cpu.cfs_period_us").read_text() == "50000"
    assert (tmp_path / "memory/mine/one/memory.limit_in_bytes").read_text() == "100000000"
    assert (tmp_path / "pids/one/pids.max").read_text() == "7"
    assert (tmp_path / "cpuset/one/cpuset.cpus").read_text() == "0-1\n"
    assert not (tmp_path / "cpu/one/cpu.shares").exists()


def test_groups_of_version_2_divide_what_is_above_them(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    mounts, own = tmp_path / "mounts", tmp_path / "own"
    mounts.write_text(f"cgroup2 {tmp_path} cgroup2 rw 0 0\n")
    own.write_text("0::/mine\n")
    groups = Groups.here(mounts=mounts, own=own)
    assert groups.version == 2
    assert groups.make("one", Limits(), divided=True) == (tmp_path / "one",)
    assert groups.make("one/two", LIMITS) == (tmp_path / "one/two",)
    (tmp_path / "mine").mkdir()
    groups.enter("one")
    assert (tmp_path / "one/cgroup.procs").read_text() == str(os.getpid())
    groups.leave()
    assert (tmp_path / "mine/cgroup.procs").read_text() == str(os.getpid())
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory +pids"
    assert (tmp_path / "one/cgroup.subtree_control").read_text() == "+cpu +cpuset +memory +pids"
    assert (tmp_path / "one/two/cpu.max").read_text() == "25000 50000"
    assert (tmp_path / "one/two/memory.max").read_text() == "100000000"
    assert not (tmp_path / "one/two/cgroup.subtree_control").exists()


def test_a_missing_controller_and_a_group_that_is_refused_are_named(tmp_path: Path) -> None:
    with pytest.raises(NoGroups, match=r"got none for memory$"):
        first(tmp_path, "cpu", "cpuset", "pids")
    groups = first(tmp_path / "all", *CONTROLLERS)
    (tmp_path / "all/pids/one").write_text("a file in its place")
    with pytest.raises(NoGroups, match="expected to make the control group one, got"):
        groups.make("one", LIMITS)


def test_processes_are_those_of_a_group_and_of_the_groups_in_it(tmp_path: Path) -> None:
    groups = first(tmp_path, *CONTROLLERS)
    (tmp_path / "cpu/one").mkdir()
    (tmp_path / "cpu/one/cgroup.procs").write_text("12\n13\n")
    (tmp_path / "pids/one/two").mkdir(parents=True)
    (tmp_path / "pids/one/two/cgroup.procs").write_text(f"{os.getpid()}\n")
    assert groups.processes("one") == {12, 13, os.getpid()}
    assert groups.processes("other") == set()
