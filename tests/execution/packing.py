"""Archives as tests need them."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping

Files = Mapping[str, bytes]
JOB: Files = {"job.py": b"print('trained')\n", "data/points.csv": b"1,2\n"}


def tar_of(files: Files = JOB, *more: tarfile.TarInfo, mode: int = 0o644) -> bytes:
    """A tar.gz with these files, and entries without content."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
        for entry in more:
            tar.addfile(entry)
    return data.getvalue()


def zip_of(files: Files = JOB, *, mode: int = 0o100644) -> bytes:
    """A zip with these files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            packed.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return data.getvalue()


def entry(name: str, kind: bytes, link: str = "", *, size: int = 0) -> tarfile.TarInfo:
    """An entry of a tar that is not a file, or a file whose content does not follow."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, size
    return made


def headers_of(*entries: tarfile.TarInfo, follows: bytes = b"") -> bytes:
    """A tar.gz with headers as they are, also wrong ones, and bytes behind each of them."""
    blocks = (one.tobuf(tarfile.GNU_FORMAT) + follows + bytes(-len(follows) % 512) for one in entries)
    return gzip.compress(b"".join(blocks) + bytes(1024))


def sparse_of(numbers: bytes, **headers: str) -> bytes:
    """A tar.gz with a sparse file in the format of POSIX, which extended headers describe."""
    data, file = io.BytesIO(), tarfile.TarInfo("a")
    file.size, file.pax_headers = len(numbers), {f"GNU.sparse.{name}": value for name, value in headers.items()}
    with tarfile.open(fileobj=data, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(file, io.BytesIO(numbers))
    return data.getvalue()
