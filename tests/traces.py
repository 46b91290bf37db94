"""Where the shared samples of public traces are: beside the repository, read and never copied."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "shared" / "traces"
PHILLY_DAY = ROOT / "philly" / "philly_day_2017-10-12.csv"
PHILLY_WEEK = ROOT / "philly" / "philly_week_2017-10-09_15.csv"
PHILLY_VC = ROOT / "philly" / "philly_vc_ee9e8c.csv"
SHOCKWAVE = sorted((ROOT / "shockwave").glob("*.trace"))
GAVEL = {
    "artifact_evaluation": 15,
    "max_min_fairness": 96,
    "minimize_makespan": 100,
    "msr_seed0_ee9e8c": 2000,
}
"""Jobs in each of Gavel's traces."""
THROUGHPUTS = ROOT / "gavel" / "physical_cluster_throughputs.json"


def gavel(name: str) -> Path:
    """One of Gavel's traces."""
    return ROOT / "gavel" / f"{name}.trace"
