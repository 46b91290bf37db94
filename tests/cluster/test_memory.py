"""Threads of a server share memory that others gave back."""

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
    """How many a process with a dozen threads has."""
    code = ARENAS.format(before=before)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no arenas")
def test_threads_share_two_arenas_instead_of_one_for_each() -> None:
    assert arenas("from cluster import memory; memory.share_between_threads()") <= 2
    assert arenas("") > 2


def test_the_collector_of_garbage_passes_over_what_a_server_has_loaded() -> None:
    code = "import config.asgi, gc; print(gc.get_freeze_count(), len(gc.get_objects()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    passed_over, looked_at = map(int, done.stdout.split())
    assert passed_over > 100_000
    assert looked_at < passed_over / 20
