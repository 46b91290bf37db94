"""The form of a policy's parameters names everything that is wrong with single parameters at once."""

from auctions.policy_form import PolicyForm
from scheduling.registry import make_policy


def sent(**changes: str) -> PolicyForm:
    """The form of DPS with its defaults, changed."""
    policy = PolicyForm(None, policy="dps", initial=make_policy("dps", {}).to_json())
    values = {field.name: policy.fields[field.name].prepare_value(field.value()) for field in policy}
    return PolicyForm({key: value for key, value in values.items() if value is not False} | changes, policy="dps")


def test_every_wrong_number_of_a_list_is_named() -> None:
    form = sent(eta_worker="two, 3 0.5, nan, 1e3 x", eta_ps="0, 7", refit_every="0")
    assert form.errors["eta_worker"] == [
        "eta_worker[0]: expected numbers separated by commas, got 'two'",
        "eta_worker[2]: expected 1 to 1,000,000,000,000, got 0.5",
        "eta_worker[3]: expected a finite number, got nan",
        "eta_worker[5]: expected numbers separated by commas, got 'x'",
    ]
    assert form.errors["eta_ps"] == ["eta_ps[0]: expected 1 to 1,000,000,000,000, got 0.0"]
    assert "greater than or equal to 1" in str(form.errors["refit_every"])


def test_parameters_that_do_not_fit_one_another_are_all_named() -> None:
    assert list(sent(initial_low="1", full_quantile="0.1", eta_ps="7").errors) == [
        "initial_high",
        "full_quantile",
        "eta_worker",
    ]
