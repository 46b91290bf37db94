"""Threads of a server share memory that others gave back."""

import os
import platform
import subprocess
import sys

import pytest

ARENAS = """
import ctypes, os, re, sys, tempfile
from threading import Barrier, Thread
{before}
barrier = Barrier(12)
def work():
    held = [bytes(1000) for _ in range(100)]
    barrier.wait()
threads = [Thread(target=work) for _ in range(12)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
libc = ctypes.CDLL(None)
with tempfile.NamedTemporaryFile() as file:
    libc.fopen.restype = ctypes.c_void_p
    stream = libc.fopen(file.name.encode(), b"w")
    libc.malloc_info(0, ctypes.c_void_p(stream))
    libc.fclose(ctypes.c_void_p(stream))
    print(len(re.findall("<heap nr", open(file.name).read())))
"""


def arenas(before: str) -> int:
    """Return the number of arenas of a process with a dozen threads."""
    code = ARENAS.format(before=before)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no arenas")
HOLES = """
import time
{before}
def held_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
held = [bytes(100_000) for _ in range(800)]
full = held_mb()
held[:] = held[39::40]
{after}
print(full - held_mb())
"""
"""80 MB in pieces; every fortieth piece is kept."""


def given_back_mb(*, before: str, after: str) -> float:
    """Return the part that a process gives back to the system, MB."""
    code = HOLES.format(before=before, after=after)
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


@GLIBC
def test_threads_share_two_arenas_instead_of_one_for_each() -> None:
    assert arenas("from cluster import memory; memory.share_between_threads()") <= 2
    assert arenas("") > 2


@GLIBC
def test_free_memory_between_what_is_kept_is_given_back() -> None:
    assert given_back_mb(before="from cluster import memory", after="memory.give_back()") > 40
    assert given_back_mb(before="from cluster import memory", after="") < 20


@pytest.mark.thorough
@GLIBC
def test_a_server_gives_back_free_memory_now_and_then() -> None:
    before = "from cluster import memory; memory.EVERY_S = 0.05; import config.asgi"
    assert given_back_mb(before=before, after="time.sleep(2)") > 40


@pytest.mark.thorough
def test_the_collector_of_garbage_passes_over_what_a_server_has_loaded() -> None:
    code = "import config.asgi, gc; print(gc.get_freeze_count(), len(gc.get_objects()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    passed_over, looked_at = map(int, done.stdout.split())
    assert passed_over > 100_000
    assert looked_at < passed_over / 20


@pytest.mark.thorough
def test_the_collector_of_garbage_rests_while_modules_are_loaded_and_works_afterwards() -> None:
    looks = "import config, gc; counted = gc.get_stats()[0]['collections']"
    code = f"{looks}; import django; django.setup(); print(gc.get_stats()[0]['collections'] - counted, gc.isenabled())"
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "True"]
