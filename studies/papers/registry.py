"""The one list of papers. A figure more is a line in its paper's module."""

from collections.abc import Mapping

from studies.papers.dps import PAPER as DPS
from studies.papers.figure import Paper
from studies.papers.oasis import PAPER as OASIS
from studies.papers.preemptive import PAPER as PREEMPTIVE
from studies.papers.split_learning import PAPER as SPLIT_LEARNING
from studies.papers.weighted_completion import PAPER as WEIGHTED_COMPLETION

PAPERS: Mapping[str, Paper] = {
    paper.key: paper for paper in (OASIS, DPS, PREEMPTIVE, WEIGHTED_COMPLETION, SPLIT_LEARNING)
}
