"""The licenses of pinned packages are those that `docs/developers/dependencies.md` names."""

import re
from importlib.metadata import metadata

from tests.processes import ROOT

USUAL = re.compile(r"(MIT|BSD|0BSD|Apache|3-Clause BSD)\b")
"""Begins of the licenses that need no name."""
UNSTATED = {"promql-parser"}
"""Packages whose metadata states no license; its file is that of MIT."""


def license_of(package: str) -> str:
    """What the metadata of an installed package states."""
    stated = metadata(package)
    classes = [one.rpartition(" :: ")[2] for one in stated.get_all("Classifier") or [] if one.startswith("License ::")]
    return " AND ".join(stated.get_all("License-Expression") or classes or stated.get_all("License") or [])


def test_each_license_that_is_not_mit_bsd_or_apache_is_named() -> None:
    pinned = "".join((ROOT / name).read_text() for name in ("requirements.txt", "requirements-dev.txt"))
    packages = sorted(set(re.findall(r"^([\w.-]+)(?:\[.*\])?==", pinned, re.MULTILINE)))
    assert len(packages) > 50
    introduction = (ROOT / "docs/developers/dependencies.md").read_text().partition("\n## ")[0]
    found = {name: license_of(name) for name in packages}
    assert {name for name, text in found.items() if not text} == UNSTATED
    other = {name for name, text in found.items() if text and not all(map(USUAL.match, text.split(" AND ")))}
    named = {name for name in packages if re.search(rf"\b{re.escape(name.removesuffix('2-binary'))}\b", introduction)}
    assert other == named
