import pytest

from scheduling.model.errors import InvalidField, UnknownPolicy
from scheduling.registry import POLICIES, make_policy, recorded_policy


@pytest.mark.parametrize("name", ["dps", "oasis"])
def test_a_record_from_before_a_parameter_existed_decides_as_it_did(name: str) -> None:
    complete = make_policy(name, {"near_share": 0.25, "sooner": 0.5}).to_json()
    assert recorded_policy(name, complete).to_json() == complete
    old = {key: value for key, value in complete.items() if key not in ("near_share", "sooner")}
    assert recorded_policy(name, old).to_json() == complete | {"near_share": 0.0, "sooner": 0.0}


@pytest.mark.parametrize("name", POLICIES)
def test_a_complete_record_is_read_as_it_was_written(name: str) -> None:
    complete = make_policy(name, {}).to_json()
    assert recorded_policy(name, complete).to_json() == complete


def test_a_record_that_is_none_is_refused_as_a_policy_is() -> None:
    with pytest.raises(UnknownPolicy):
        recorded_policy("guess", {})
    with pytest.raises(InvalidField, match="speed"):
        recorded_policy("dps", {"speed": 1.0})


def test_a_record_without_the_choice_of_edge_or_cloud_was_made_under_jobmax() -> None:
    assert make_policy("preemptive", {}).to_json()["cloud"] == "marginal"
    assert recorded_policy("preemptive", {"ageing": 0.0}).to_json()["cloud"] == "jobmax"


def test_every_wrong_and_unknown_parameter_is_named_at_once() -> None:
    with pytest.raises(InvalidField) as found:
        make_policy("dps", {"price": "free", "speed": 1.0, "near_share": "x"})
    assert {one.field for one in found.value.all_wrong} == {"price", "speed", "near_share"}
