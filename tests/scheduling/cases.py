"""Where the shared instances are: beside the repository, read and never copied."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3] / "shared" / "cases"
CONVENTIONS = [(window, start) for window in ("half_open", "inclusive") for start in ("ge", "strict")]


def dps_cases() -> list[Path]:
    """Instances with exact answers in all four conventions."""
    return sorted((ROOT / "dps").glob("*.json"))


def dps_counterexamples() -> list[Path]:
    """Instances on which the printed pseudo-code fails."""
    return sorted((ROOT / "counterexamples").glob("dps_*.json"))


def oasis_cases() -> list[Path]:
    """Instances of OASiS."""
    return sorted((ROOT / "oasis").glob("*.json"))


def oasis_counterexamples() -> list[Path]:
    """Instances on which OASiS's printed recursion fails, or a ceiling in doubles would."""
    return sorted((ROOT / "counterexamples").glob("oasis_*.json"))


def weighted_cases() -> list[Path]:
    """Instances of the weighted-completion scheduler."""
    return sorted((ROOT / "weighted_completion").glob("*.json"))


def preemptive_cases() -> list[Path]:
    """Instances of preemptive edge-cloud scheduling."""
    return sorted((ROOT / "preemptive").glob("*.json"))


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document
