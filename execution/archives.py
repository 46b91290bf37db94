"""Programs in archives (tar.gz or zip): checked when they are stored, and unpacked into directories nobody can change.

An archive has only files and directories below one directory: no links, no devices, no names that lead elsewhere. It is
unpacked by the same code when it is checked and when it is used.
"""

import errno
import gzip
import hashlib
import io
import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Self

from web.errors import ServiceError

LARGEST_ARCHIVE: Final = 6_000_000
"""Bytes of an archive at most; as base64 it fits into the body of a request."""
LARGEST_UNPACKED: Final = 64_000_000
"""Bytes of all files of an archive at most."""
MOST_ENTRIES: Final = 2_000
"""Files and directories of an archive at most."""
LONGEST_NAME: Final = 300
"""Characters of the path of a file in an archive at most."""
LONGEST_EXTENSION: Final = 4_096
"""Bytes of an extended header of a tar file at most: what does not fit into the header of a file, as a long name.

Some versions of Python look at such a header in a time that grows with the square of its length.
"""
EXTENSIONS_BYTES: Final = 1_000_000
"""Bytes of all extended headers of a tar file at most."""
BLOCK: Final = 1 << 16

_UNREADABLE: Final = (
    *(OSError, EOFError, ValueError, RuntimeError, OverflowError),
    *(zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile),
)
"""Errors of Python's readers for data that is no archive of their format, or one that they do not support."""


_EXTENSIONS: Final = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)
"""Types of extended headers."""


class BadArchive(Exception):
    """An archive that cannot be used; the message has the form "expected ..., got ..."."""


class DiskFull(ServiceError):
    """There is no room for an archive, or for the files in it: the archive may be a good one."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


@dataclass(frozen=True)
class _Entry:
    name: str
    size: int
    is_plain: bool
    """Whether it is a file or a directory."""


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 of an archive in hex."""
    return hashlib.sha256(data).hexdigest()


def check(data: bytes) -> None:
    """Raise BadArchive if an archive cannot be unpacked, DiskFull if there is no room to try."""
    with _full_disk_in_words(), tempfile.TemporaryDirectory(prefix="shadowprice-") as aside:
        unpack(data, Path(aside))


def store(file: Path, data: bytes) -> None:
    """Store a checked archive at a place that is named by its hash, unless it is there; raises DiskFull."""
    if file.exists():
        os.utime(file)  # it is in use again: whatever deletes old archives waits
        return
    with _full_disk_in_words():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=file.parent, prefix=".")
        with open(handle, "wb") as written:
            written.write(data)
            written.flush()
            os.fsync(written.fileno())
        os.replace(aside, file)


def provide(file: Path, sha256: str, place: Path, *, user: int | None) -> None:
    """Unpack an archive into the directory `place`, unless it is there.

    Its files belong to this process's user. Of others, only `user` may read them, and nobody may write them.

    Raises
    ------
    BadArchive
        If the file is missing, is not the one with this hash, or cannot be unpacked.
    DiskFull
        If there is no room for its files.
    """
    if place.is_dir():
        return
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadArchive(f"expected the archive {sha256[:12]}, got: {error.strerror}") from None
    if sha256_of(data) != sha256:
        raise BadArchive(f"expected an archive with the hash {sha256[:12]}, got {sha256_of(data)[:12]}")
    with _full_disk_in_words():
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=place.parent, prefix="."))
    try:
        unpack(data, aside)
        _protect(aside, user)
        with suppress(OSError):  # another executor has just unpacked it
            os.rename(aside, place)
        if not place.is_dir():
            raise BadArchive(f"expected to unpack the archive {sha256[:12]} to {place}, got nothing there")
    finally:
        remove(aside)


def remove(place: Path) -> None:
    """Delete an unpacked archive, whose directories nobody may write; nothing if it is not there."""
    for folder, _, _ in os.walk(place):
        os.chmod(folder, 0o700)
    shutil.rmtree(place, ignore_errors=True)


def unpack(data: bytes, into: Path) -> None:
    """Unpack an archive into an empty directory; raises BadArchive or DiskFull if that is not possible."""
    if len(data) > LARGEST_ARCHIVE:
        raise BadArchive(f"expected at most {LARGEST_ARCHIVE:,} bytes, got {len(data):,}")
    try:
        with _full_disk_in_words():
            if data.startswith(b"\x1f\x8b"):
                _unpack_tar(data, into)
            elif data.startswith(b"PK\x03\x04"):
                _unpack_zip(data, into)
            else:
                raise BadArchive("expected a tar.gz or zip archive, got other bytes")
    except _UNREADABLE as error:
        # Of an error of the system only its words: the path is one of this service.
        words = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise BadArchive(f"expected an archive that can be unpacked, got: {words[:200]}") from None


@contextmanager
def _full_disk_in_words() -> Iterator[None]:
    """Raise DiskFull where the system says that there is no room, or that a quota leaves none."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull("The disk of the service has no room for the archive; try again later.") from error
        raise


def _unpack_tar(data: bytes, into: Path) -> None:
    with gzip.open(io.BytesIO(data)) as packed, tempfile.TemporaryFile() as plain:
        _copy(packed, plain)
        plain.seek(0)
        with tarfile.open(fileobj=plain, mode="r:", tarinfo=_headers()) as tar:
            # One after the other: the first that is too many ends the reading, also where headers lead back.
            _check_entries(_entry_of(one) for one in tar)
            tar.extractall(into, filter="data")


def _entry_of(header: tarfile.TarInfo) -> _Entry:
    if header.issparse():
        raise _sparse(header)
    return _Entry(header.name, header.size, header.isreg() or header.isdir())


def _sparse(header: tarfile.TarInfo) -> BadArchive:
    return BadArchive(f"expected only files and directories, got a sparse file: {header.name[:100]!r}")


def _headers() -> type[tarfile.TarInfo]:
    """Return the class of the headers of one tar file, which checks each of them before what follows it is read."""
    extensions = 0

    class Header(tarfile.TarInfo):
        """A header of the file."""

        @classmethod
        def frombuf(cls, buf: Any, encoding: Any, errors: Any) -> Self:
            """Read a block; raises BadArchive for a header that would be read for too long."""
            nonlocal extensions
            found = super().frombuf(buf, encoding, errors)
            if found.size < 0:  # the next header would be this one again, or one before it
                raise BadArchive(f"expected sizes of 0 bytes or more, got {found.size:,}: {found.name[:100]!r}")
            if found.type == tarfile.GNUTYPE_SPARSE:
                raise _sparse(found)
            if found.type in _EXTENSIONS:
                extensions += found.size
                if found.size > LONGEST_EXTENSION or extensions > EXTENSIONS_BYTES:
                    most = f"{LONGEST_EXTENSION:,} bytes, and {EXTENSIONS_BYTES:,} of all"
                    raise BadArchive(f"expected extended headers of at most {most}, got more")
            return found

        def _proc_gnusparse_10(self, next: tarfile.TarInfo, *_: object) -> None:
            """Refuse a sparse file before the map in its content is read, which may have millions of numbers.

            No public method is called before that. If a version of Python calls another one, a test fails.
            """
            raise _sparse(next)

    return Header


def _copy(packed: gzip.GzipFile, plain: IO[bytes]) -> None:
    """Decompress before anything is read of it: the size that a header states may be wrong."""
    most, size = LARGEST_UNPACKED + 1024 * MOST_ENTRIES, 0  # headers are no content
    while part := packed.read(BLOCK):
        size += len(part)
        if size > most:
            raise BadArchive(f"expected at most {LARGEST_UNPACKED:,} bytes in all files, got more")
        plain.write(part)


def _unpack_zip(data: bytes, into: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        members = packed.infolist()
        kinds = {one.filename: stat.S_IFMT(one.external_attr >> 16) for one in members}
        plain = (0, stat.S_IFREG, stat.S_IFDIR)
        _check_entries(_Entry(one.filename, one.file_size, kinds[one.filename] in plain) for one in members)
        packed.extractall(into)  # noqa: S202 (names are checked, and it writes no links)
        for one in members:
            if not one.is_dir() and one.external_attr >> 16 & 0o100:
                os.chmod(into / one.filename, 0o700)


def _check_entries(entries: Iterable[_Entry]) -> None:
    size = count = 0
    for entry in entries:
        path, count, size = PurePosixPath(entry.name), count + 1, size + entry.size
        if not entry.name:
            raise BadArchive("expected a name for each file, got none")
        if not entry.is_plain:
            raise BadArchive(f"expected only files and directories, got a link or device: {entry.name[:100]!r}")
        if path.is_absolute() or ".." in path.parts or "\\" in entry.name:
            raise BadArchive(f"expected paths inside the archive, got {entry.name[:100]!r}")
        if len(entry.name) > LONGEST_NAME or not entry.name.isprintable():
            expected = f"expected printable paths of at most {LONGEST_NAME} characters"
            raise BadArchive(f"{expected}, got {entry.name[:100]!r}")
        if count > MOST_ENTRIES:
            raise BadArchive(f"expected at most {MOST_ENTRIES:,} files and directories, got more")
        if size > LARGEST_UNPACKED:
            raise BadArchive(f"expected at most {LARGEST_UNPACKED:,} bytes in all files, got more")
    if not count:
        raise BadArchive("expected at least one file, got an empty archive")


def _protect(place: Path, user: int | None) -> None:
    """Let only this user read what was unpacked, and nobody write it; without a user, only this process's own."""
    for folder, _, files in os.walk(place, topdown=False):
        for path, is_folder in (*((os.path.join(folder, name), False) for name in files), (folder, True)):
            runs = is_folder or os.stat(path).st_mode & 0o100
            if user is not None:
                os.chown(path, -1, user)
            os.chmod(path, (0o550 if runs else 0o440) if user is not None else (0o500 if runs else 0o400))
