"""Check whether the machine code of kernels can be stored beside its sources."""

import os
from pathlib import Path


def beside_sources(package: Path) -> bool:
    """Return whether this user may store compiled files beside a package's sources, in each of its folders."""
    folders = [package, *(folder for folder in package.iterdir() if folder.is_dir() and folder.name != "__pycache__")]
    return all(_may_write(folder) for folder in folders)


def _may_write(folder: Path) -> bool:
    cache = folder / "__pycache__"
    return os.access(cache if cache.exists() else folder, os.W_OK | os.X_OK)
