"""The one list of papers. A figure more is a line in its paper's module."""

from collections.abc import Mapping

from studies.papers.dps import PAPER as DPS
from studies.papers.figure import Paper
from studies.papers.oasis import PAPER as OASIS

PAPERS: Mapping[str, Paper] = {paper.key: paper for paper in (OASIS, DPS)}
