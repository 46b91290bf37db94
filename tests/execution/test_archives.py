"""Programs in archives: what is unpacked, which user may read it, and what is refused."""

import errno
import os
import random
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from execution import archives
from execution.archives import BadArchive
from execution.models import Program
from execution.places import archive_file, unpacked
from tests.auctions.worlds import SLOT_S
from tests.draws import fresh_seed, rounds
from tests.execution.packing import JOB, entry, headers_of, sparse_of, tar_of, zip_of
from tests.execution.worlds import World, make_world

PACKERS = {"tar.gz": tar_of, "zip": zip_of}


def content(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_an_archive_is_unpacked_once_and_read_only(tmp_path: Path, pack: Callable[[], bytes]) -> None:
    data, file, place = pack(), tmp_path / "a", tmp_path / "programs" / "p"
    sha256 = archives.sha256_of(data)
    archives.check(data)
    archives.store(file, data)
    archives.provide(file, sha256, place, user=None)
    assert content(place) == JOB
    assert {oct(one.stat().st_mode & 0o777) for one in (place, place / "data")} == {"0o500"}
    assert {oct(one.stat().st_mode & 0o777) for one in place.rglob("*") if one.is_file()} == {"0o400"}
    file.unlink()
    archives.provide(file, sha256, place, user=None)  # it is there
    assert [one.name for one in place.parent.iterdir()] == ["p"]
    archives.remove(place)
    assert not place.exists()


def test_only_its_user_may_read_what_root_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owners: set[tuple[int, int]] = set()
    monkeypatch.setattr(os, "chown", lambda _, uid, gid: owners.add((uid, gid)))
    file, data = tmp_path / "a", tar_of(mode=0o4777)
    archives.store(file, data)
    archives.provide(file, archives.sha256_of(data), tmp_path / "p", user=200_007)
    assert (-1, 200_007) in owners
    assert owners <= {(-1, 200_007), (-1, -1)}  # the latter is what tarfile does
    assert {oct(one.stat().st_mode & 0o7777) for one in (tmp_path / "p").rglob("*")} == {"0o550"}


@pytest.mark.parametrize(
    "data", [tar_of({"run": b"#!"}, mode=0o755), zip_of({"run": b"#!"}, mode=0o100755)], ids=["tar.gz", "zip"]
)
def test_a_program_stays_executable(tmp_path: Path, data: bytes) -> None:
    archives.store(tmp_path / "a", data)
    archives.provide(tmp_path / "a", archives.sha256_of(data), tmp_path / "p", user=None)
    assert os.access(tmp_path / "p" / "run", os.X_OK)


BAD = {
    "not an archive": (b"#!/bin/sh\n", "got other bytes"),
    "nothing": (b"", "got other bytes"),
    "empty": (tar_of({}), "got an empty archive"),
    "broken": (tar_of()[:-30], "can be unpacked"),
    "broken zip": (zip_of()[:-30], "can be unpacked"),
    "too large packed": (b"\x1f\x8b" * archives.LARGEST_ARCHIVE, "at most 6,000,000 bytes"),
    "too large": (tar_of({"big": bytes(5_000), "more": bytes(5_001)}), "at most 10,000 bytes in all files, got more"),
    "too large zip": (zip_of({"big": bytes(10_001)}), "at most 10,000 bytes in all files, got more"),
    "too many": (tar_of({str(n): b"" for n in range(6)}), "at most 5 files"),
    "too long": (tar_of({"x" * 301: b""}), "at most 300 characters"),
    "a control character": (tar_of({"a\nb": b""}), "printable"),
    "above": (tar_of({"../job.py": b""}), "inside the archive, got '../job.py'"),
    "above, in a zip": (zip_of({"a/../../job.py": b""}), "inside the archive"),
    "absolute": (tar_of({"/etc/passwd": b""}), "inside the archive"),
    "absolute, in a zip": (zip_of({"/etc/passwd": b""}), "inside the archive"),
    "a link": (tar_of(JOB, entry("out", tarfile.SYMTYPE, "/etc")), "a link or device: 'out'"),
    "a link inside": (tar_of(JOB, entry("in", tarfile.SYMTYPE, "job.py")), "a link or device: 'in'"),
    "a hard link": (tar_of(JOB, entry("same", tarfile.LNKTYPE, "job.py")), "a link or device"),
    "a link in a zip": (zip_of({"out": b"/etc"}, mode=0o120777), "a link or device: 'out'"),
    "a device": (tar_of(JOB, entry("null", tarfile.CHRTYPE)), "a link or device"),
    "a pipe": (tar_of(JOB, entry("pipe", tarfile.FIFOTYPE)), "a link or device"),
    "no name, in a zip": (zip_of({"": b""}), "a name for each file"),
    "a name that is cut off, in a zip": (zip_of({"\0a": b""}), "a name for each file"),
    # Without a limit each of these is read for hours, or for ever with all of the memory.
    "a size that leads back": (
        headers_of(entry("a", tarfile.REGTYPE), entry("b", tarfile.REGTYPE, size=-512)),
        "sizes of 0 bytes or more, got -512: 'b'",
    ),
    "a long extended header": (
        headers_of(entry("x", tarfile.XHDTYPE, size=4_097), follows=b"0" * 4_097),
        "extended headers of at most 4,096 bytes",
    ),
    "many extended headers": (
        headers_of(*[entry("x", tarfile.XHDTYPE, size=3_000)] * 2, follows=b"9 mode=1\n".ljust(3_000, b"\0")),
        "and 5,000 of all, got more",
    ),
    "a sparse file": (headers_of(entry("a", tarfile.GNUTYPE_SPARSE)), "got a sparse file: 'a'"),
    "a sparse file with its map in a header": (sparse_of(b"1", size="9", map="0,1"), "got a sparse file: 'a'"),
    "a sparse file with its map in the content": (
        sparse_of(b"2\n" + b"0\n" * 2_000, major="1", minor="0"),
        "got a sparse file: 'a'",
    ),
    "a file as a directory": (tar_of({"a": b"1", "a/b": b"2"}), "can be unpacked"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_archive_is_refused_in_words(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_UNPACKED", 10_000)
    monkeypatch.setattr(archives, "MOST_ENTRIES", 5)
    monkeypatch.setattr(archives, "EXTENSIONS_BYTES", 5_000)
    data, words = BAD[name]
    with pytest.raises(BadArchive, match=r"^expected ") as error:
        archives.check(data)
    assert words in str(error.value)
    assert tempfile.gettempdir() not in str(error.value), "a path of this service"


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_a_full_disk_is_not_the_fault_of_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[], bytes]
) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(archives, "_check_entries", fill)
    monkeypatch.setattr(os, "fsync", fill)
    file, data = tmp_path / "a", pack()
    with pytest.raises(archives.DiskFull, match="no room"):
        archives.check(data)
    with pytest.raises(archives.DiskFull, match="no room"):
        archives.store(file, data)
    file.write_bytes(data)
    with pytest.raises(archives.DiskFull, match="no room"):
        archives.provide(file, archives.sha256_of(data), tmp_path / "p", user=None)


def test_what_the_headers_do_not_say_is_counted_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LARGEST_UNPACKED", 100 - 1024 * archives.MOST_ENTRIES)
    with pytest.raises(BadArchive, match="bytes in all files"):
        archives.check(tar_of())


def test_a_changed_archive_is_unpacked_or_refused_and_nothing_else(tmp_path: Path) -> None:
    draw = random.Random(fresh_seed())
    for n in range(rounds(40)):
        data = bytearray(draw.choice((tar_of, zip_of))())
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(4, len(data))] = draw.randrange(256)
        into = tmp_path / str(n) / "into"
        into.mkdir(parents=True)
        with suppress(BadArchive):
            archives.unpack(bytes(data), into)
        assert os.listdir(into.parent) == ["into"]


def test_another_file_under_the_hash_is_not_unpacked(tmp_path: Path) -> None:
    archives.store(tmp_path / "a", zip_of())
    with pytest.raises(BadArchive, match="expected an archive with the hash"):
        archives.provide(tmp_path / "a", archives.sha256_of(tar_of()), tmp_path / "p", user=None)
    with pytest.raises(BadArchive, match="No such file"):
        archives.provide(tmp_path / "b", archives.sha256_of(tar_of()), tmp_path / "p", user=None)
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


def test_a_job_starts_in_its_unpacked_archive(world: World) -> None:
    data = tar_of()
    sha256 = archives.sha256_of(data)
    Program.objects.update(working_directory="", archive_sha256=sha256, archive_bytes=len(data))
    world.submit(epochs=8)
    world.go(1.1 * SLOT_S)
    assert world.engine.launches == []  # its archive is not there yet
    archives.store(archive_file("lab", sha256), data)
    world.go(70)
    directories = {one.start.working_directory for one in world.engine.processes.values()}
    assert directories == {unpacked("lab", sha256, None)}
    assert content(*directories) == JOB
