"""Serve Plotly's script from the Python package as a static file, so that script and package match."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import plotly
from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage, Storage

FOLDER: Final = Path(plotly.__file__).parent / "package_data"
NAME: Final = "plotly.min.js"
PREFIX: Final = "plotly"


class PlotlyFinder(BaseFinder):
    """A finder of `plotly/plotly.min.js`, and of no other file of the package."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.storage = FileSystemStorage(location=FOLDER)
        self.storage.prefix = PREFIX  # type: ignore[attr-defined]  # what collectstatic puts before the name

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        """Return the path of the script, if it is requested."""
        if path != f"{PREFIX}/{NAME}":
            return []  # as Django's finders do for an unknown file
        found = str(FOLDER / NAME)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[tuple[str, Storage]]:
        """Yield the only file."""
        yield NAME, self.storage
