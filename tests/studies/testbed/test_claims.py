"""Judges of the papers' claims: each holds on measures that support it, and fails if one part of it is broken."""

from dataclasses import fields, replace
from typing import Any

import pytest

from studies.papers.figure import Verdict
from studies.testbed.claims import CLAIMS, Claim, judge
from studies.testbed.measures import Measures

GOOD: dict[str, Any] = {
    "welfare": 300.0, "on_time": 9, "utility": 300.0, "timeliness": 0.1, "deviation": 1.0,
    "weighted_completion": 300.0, "jct": 3.0, "starts": 3,
}  # fmt: skip
BAD: dict[str, Any] = {
    "welfare": 100.0, "on_time": 5, "utility": 100.0, "timeliness": -4.0, "deviation": 4.0,
    "weighted_completion": 900.0, "jct": 9.0, "starts": 9,
}  # fmt: skip


BETTER: dict[str, Any] = {
    "welfare": 301.0, "on_time": 10, "utility": 301.0, "timeliness": 0.0, "deviation": 0.9,
    "weighted_completion": 299.0, "jct": 2.9, "starts": 2,
}  # fmt: skip


def measures(**values: Any) -> Measures:
    return Measures(**{field.name: 0 for field in fields(Measures)} | values)


def supporting(claim: Claim) -> dict[str, Measures]:
    return {claim.policy: measures(**GOOD), **{name: measures(**BAD) for name in claim.others}}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.paper} {claim.figure}")
def test_a_claim_holds_where_its_policy_is_ahead(claim: Claim) -> None:
    finding = judge(claim, [supporting(claim)] * 2)
    assert (finding.verdict, finding.missing) == (Verdict.REPRODUCED, ())
    assert claim.policy in finding.measured


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.paper} {claim.figure}")
def test_a_claim_fails_where_one_other_policy_is_ahead_by_its_measure(claim: Claim, name: str) -> None:
    """A measure that the claim is not about changes nothing."""
    run = supporting(claim)
    changed = replace(run[claim.others[-1]], **{name: BETTER[name]})
    finding = judge(claim, [run | {claim.others[-1]: changed}])
    about = any(part.number(changed) != part.number(run[claim.others[-1]]) for part in claim.parts)
    assert finding.verdict is (Verdict.NOT if about else Verdict.REPRODUCED)


def test_a_lead_that_is_smaller_than_claimed_is_a_direction() -> None:
    claim = CLAIMS[-1]
    run = supporting(claim) | {"Tiresias": measures(**BAD | {"weighted_completion": 400.0})}
    finding = judge(claim, [run])
    assert finding.verdict is Verdict.DIRECTION
    assert finding.missing == ("less weighted completion time by 30%",)


def test_several_runs_are_judged_by_their_means() -> None:
    claim = CLAIMS[1]
    good, bad = supporting(claim), supporting(claim) | {"OASiS": measures(**BAD | {"utility": 90.0})}
    assert judge(claim, [good, bad]).verdict is Verdict.REPRODUCED
    assert judge(claim, [bad]).verdict is Verdict.NOT


def test_what_was_not_run_or_has_no_number_is_not_judged() -> None:
    claim = CLAIMS[3]
    run = supporting(claim)
    without = {name: of for name, of in run.items() if name != "SRTF"}
    assert judge(claim, []).verdict is Verdict.UNJUDGED
    assert judge(claim, [run, without]).verdict is Verdict.UNJUDGED
    assert judge(claim, [run | {"SRTF": replace(run["SRTF"], jct=None)}]).verdict is Verdict.UNJUDGED
