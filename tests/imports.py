"""Print the packages of a room and the imports between them: `python -m tests.imports scheduling auctions`.

Each line is an arrow: a package, one that it imports, and by how many imports of modules. The order of packages is that
of the room's contract in `pyproject.toml`, where there is one; an arrow against it is marked.
"""

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import grimp

from tests.processes import ROOT

ROOMS: Final = ("scheduling", "cluster", "web", "accounts", "auctions", "execution", "studies", "frontend")


@dataclass(frozen=True)
class Picture:
    """The packages of a room, top down, and how many imports there are between any two."""

    room: str
    packages: tuple[str, ...]
    """Names of the room's packages and of modules that lie in none, without the name of the room."""
    ordered: bool
    """Whether a contract says which package may import which."""
    arrows: dict[tuple[str, str], int]

    @property
    def upwards(self) -> list[tuple[str, str]]:
        """Arrows against the order; every arrow of which the other direction exists where there is no order."""
        if not self.ordered:
            return sorted(pair for pair in self.arrows if pair[::-1] in self.arrows and pair[0] < pair[1])
        place = {name: number for number, name in enumerate(self.packages)}
        return sorted(pair for pair in self.arrows if place[pair[0]] > place[pair[1]])

    def lines(self) -> list[str]:
        """For people."""
        marked = set(self.upwards)
        rows = [
            f"  {one} -> {other} ({count}){'  UPWARDS' if (one, other) in marked else ''}"
            for (one, other), count in sorted(self.arrows.items())
        ]
        kind = "upwards" if self.ordered else "in both directions"
        total = f"{len(self.packages)} packages, {len(self.arrows)} arrows, {len(marked)} {kind}"
        return [f"{self.room}: {total}", *rows]


def picture(room: str) -> Picture:
    """The imports of a room as they are now."""
    graph = grimp.build_graph(room, cache_dir=None)
    arrows: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            pair = _package(module), _package(imported)
            if "" not in pair and pair[0] != pair[1]:
                arrows[pair] += 1
    names = {_package(module) for module in graph.modules} - {""}
    order = [name for name in _order(room) if name in names]
    return Picture(room, (*order, *sorted(names - {*order})), bool(order), dict(arrows))


def _package(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def _order(room: str) -> list[str]:
    """The layers of the room's contract, top down; layers that may not import each other one after the other."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [one["layers"] for one in contracts if one["type"] == "layers" and one.get("containers") == [room]]
    return [name.strip(" ()") for rows in layers for row in rows for name in row.replace("|", ":").split(":")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the picture of each room; exit status 1 if an arrow goes against the order."""
    parser = argparse.ArgumentParser(prog="python -m tests.imports", description=__doc__)
    parser.add_argument("rooms", nargs="*", default=list(ROOMS), metavar="ROOM")
    pictures = [picture(room) for room in parser.parse_args(arguments).rooms]
    for one in pictures:
        print("\n".join(one.lines()))
    return int(any(one.ordered and one.upwards for one in pictures))


if __name__ == "__main__":
    sys.exit(main())
