"""Plotly's script as a static file, out of the Python package, so that script and package always match."""

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
    """Finds `plotly/plotly.min.js`, and nothing else of the package."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.storage = FileSystemStorage(location=FOLDER)
        self.storage.prefix = PREFIX  # type: ignore[attr-defined]  # what collectstatic puts before the name

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        """Path of the script, if that is what is asked for."""
        if path != f"{PREFIX}/{NAME}":
            return []  # what Django's own finders say of a file they do not have
        found = str(FOLDER / NAME)
        return [found] if find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterable[tuple[str, Storage]]:
        """The one file there is."""
        yield NAME, self.storage
