"""What a person in front of a browser can count on."""

import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import requests
from django.conf import settings
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from frontend.forms.experiment import READY_MADE
from tests.draws import some
from tests.e2e import pictures
from tests.e2e.browser import Browser
from tests.e2e.filled import PASSWORD

pytestmark = pytest.mark.browser
HOME = "/markets/demo/"
OF_NO_MARKET = {"markets", "bids", "plans", "plan-new", "plan", "plan-again"}
OF_NO_MARKET |= {"experiments", "experiment", "experiment-new", "traces", "trace", "tokens", "team", "password"}
OF_NO_MARKET |= {"webhooks", "webhook"}
"""Pages that are looked at once, whatever the market."""
PAIRS = [((1280, "light"), (390, "dark")), ((1280, "dark"), (390, "light"))]
PAIRS += [(second, first) for first, second in PAIRS]
EACH = some(PAIRS, 1)
"""Views of each page, which is opened in the first and turned to the second: one pair in each run, all in a soak."""


def _submit(window: Browser, *, label: str, value: str, form: str = "constant") -> None:
    window.open(f"{HOME}submit/")
    window.fill("label", label)
    window.fill("epochs", "5")
    window.js(f"document.getElementById('id_form').value = '{form}'")
    window.fill("value", value)
    window.wait(lambda: window.text("#quote .state").startswith("Would be"))
    window.one("#bid-form > button").click()


def _submit_by_rest(served: str, *, who: str, value: float) -> Any:
    """Submit a bid of a user without a window; return it once it is decided."""
    token = requests.post(f"{served}/api/v1/token", json={"username": who, "password": PASSWORD}, timeout=60).json()
    asked = {"model": "ResNet-50", "epochs": 5, "utility": {"form": "constant", "value": value}}
    headers = {"Authorization": f"Token {token['token']}", "Prefer": "wait=20"}
    answer = requests.post(f"{served}/api/v1/clusters/demo/bids", json=asked, headers=headers, timeout=60)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_bid_is_quoted_as_one_types_then_decided_and_its_page_shows_the_receipt(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    window.open(f"{HOME}submit/")
    window.fill("value", "-1")
    window.wait(lambda: "greater" in window.text("#error-value"))
    window.fill("value", "0.01")
    window.wait(lambda: window.text("#quote .state") == "Would be rejected")
    window.fill("value", "90000")
    window.wait(lambda: window.text("#quote .state") == "Would be admitted")
    window.wait(lambda: window.js("!!document.querySelector('#value-plot .main-svg')"))
    window.one("#bid-form > button").click()
    window.wait(lambda: "/bids/" in window.driver.current_url)
    window.wait(lambda: window.text("#state") in ("Planned", "Running"))
    window.wait(lambda: "Payment" in window.text("#receipt") and "Ledger version" in window.text("#receipt"))
    window.wait_drawn()
    window.wait(lambda: window.js("document.querySelectorAll('[data-figure] .point').length > 0"))
    assert window.complaints() == []
    assert window.strangers() == []


def test_a_rejection_leads_to_a_form_with_the_value_that_would_have_been_admitted(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    _submit(window, label="too cheap", value="0.02")
    window.wait(lambda: window.text("#state") == "Rejected")
    window.one("#receipt .button").click()
    window.wait(lambda: "from=" in window.driver.current_url)
    assert float(window.js("document.getElementById('id_value').value")) > 0.02
    assert window.js("document.getElementById('id_label').value") == "too cheap"
    window.wait(lambda: window.text("#quote .state") == "Would be admitted")


def test_the_overview_moves_without_a_reload_when_a_bid_lands(window: Browser, served: str) -> None:
    window.log_in("operator", PASSWORD)
    window.open(HOME)
    window.wait_drawn()
    window.wait(lambda: window.text("#live") == "live")
    window.driver.execute_script("window.sameDocument = true")
    before = window.text("[data-tile=revenue] .figure")
    assert _submit_by_rest(served, who="bob", value=80000.0)["state"] in ("planned", "running")
    window.wait(lambda: window.text("[data-tile=revenue] .figure") != before)
    assert window.js("window.sameDocument") is True
    assert window.complaints() == []


def test_a_job_is_cancelled_after_confirmation(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    _submit(window, label="to be cancelled", value="85000")
    window.wait(lambda: window.text("#state") in ("Planned", "Running"))
    window.one(".actions .danger").click()
    window.driver.switch_to.alert.dismiss()
    assert window.text("#state") != "Cancelled"
    window.one(".actions .danger").click()
    window.driver.switch_to.alert.accept()
    window.wait(lambda: window.text("#state") == "Cancelled")


@pytest.mark.soak
def test_no_page_scrolls_sideways_keeps_anybody_out_complains_or_asks_another_host(window: Browser) -> None:
    window.open("/login/")
    assert window.barriers() == []
    window.log_in("operator", PASSWORD)
    found = pictures.pages(window, "demo")
    for views in EACH:
        for name, width, theme in pictures.walk(window, found, views, once=True):
            assert not window.scrolls_sideways(), f"{name}, {width}, {theme}"
            if width == 1280:
                assert window.barriers() == [], f"{name}, {theme}"
    window.size(1280, 900)
    for path in ("/admin/", "/api/v1/docs"):
        window.open(path)
        if path == "/api/v1/docs":
            window.wait(lambda: window.js("document.querySelectorAll('.opblock').length > 3"))
        assert window.strangers() == [], path
        assert window.complaints() == [], path
    for theme in ("light", "dark"):
        window.theme(theme)
        window.open("/markets/none/")
        assert window.barriers() == [], theme


def test_a_picture_is_as_long_as_the_page(window: Browser, tmp_path: Path) -> None:
    window.size(390, 500)
    window.open("/login/")
    window.js("document.body.style.height = '1700px'")
    window.picture(tmp_path / "login.png")
    width, height = struct.unpack(">II", (tmp_path / "login.png").read_bytes()[16:24])  # of the header of any PNG
    assert width == 390
    assert height >= 1700


@pytest.mark.soak
@pytest.mark.parametrize("market", some(["demo-oasis", "demo-weighted", "demo-preemptive", "demo-competition"], 1))
def test_every_kind_of_market_is_open_to_everybody(window: Browser, market: str) -> None:
    window.log_in("operator", PASSWORD)
    shown = {name: path for name, path in pictures.pages(window, market).items() if name not in OF_NO_MARKET}
    assert {"bid-planned", "bid-running", "bid-completed"} <= set(shown)
    for name, width, theme in pictures.walk(window, shown, [(1280, "dark"), (390, "light")], once=True):
        if width == 390:
            assert window.barriers() == [], f"{name}, {theme}"
        assert not window.scrolls_sideways(), f"{name}, {width}"
    assert window.strangers() == []
    assert window.complaints() == []


def test_a_ring_is_planned_by_its_weight_and_nobody_pays(window: Browser) -> None:
    window.log_in("bob", PASSWORD)
    window.open("/markets/demo-weighted/submit/")
    assert not window.one("[data-field=reduce_step_s]").is_displayed()
    window.driver.execute_script(
        "const choice = document.getElementById('id_architecture'); choice.value = 'ring';"
        "for (const kind of ['input', 'change']) choice.dispatchEvent(new Event(kind, {bubbles: true}));"
        "document.querySelector('#bid-form details').open = true"
    )
    window.fill("weight", "0")
    window.wait(lambda: "expected 1e-06 to" in window.text("#error-weight"))
    window.fill("weight", "5000")
    window.wait(lambda: "jobs do not pay here" in window.text("#quote"))
    window.one("#bid-form > button").click()
    window.wait(lambda: window.text("#state") in ("Planned", "Running"))
    window.wait(lambda: "How its plan changed" in window.text("#receipt"))
    assert "none: jobs do not pay here" in window.text("#receipt")
    window.wait_drawn()
    assert window.complaints() == []


def test_a_plan_is_asked_for_and_its_page_fills_without_a_reload(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    window.open("/plans/new/")
    window.fill("label", "from a form")
    window.one("main form button").click()
    window.wait(lambda: "/plans/new/" not in window.driver.current_url)
    window.driver.execute_script("window.sameDocument = true")
    window.wait(lambda: window.text("#state") == "Completed")
    window.wait(lambda: "proven best" in window.text("#plan"))
    window.wait(lambda: window.js("document.querySelectorAll('[data-figure] .point').length > 5"))
    assert window.js("window.sameDocument") is True
    assert window.complaints() == []
    assert window.strangers() == []


def test_a_rejecting_quote_is_mended_with_one_click(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    window.open(f"{HOME}submit/")
    window.fill("value", "0.01")
    window.wait(lambda: window.js("!!document.querySelector('[data-adopt]')"))
    window.one("[data-adopt]").click()
    window.wait(lambda: window.text("#quote .state") == "Would be admitted")
    assert float(window.js("document.getElementById('id_value').value")) > 0.01


SCHEDULE = "[data-figure*='/figures/schedule']"
SHOWN = f'document.querySelector("{SCHEDULE}").layout.xaxis.range.map(at => new Date(at).getTime())'


def _let_slots_pass(window: Browser, hours: int) -> list[float]:
    """Draw the schedule as the server would send it after this time; return the range that it would show."""
    ranges: list[float] = window.driver.execute_async_script(
        """
        const [selector, hours, done] = arguments, place = document.querySelector(selector);
        const figure = structuredClone(place.figure);
        const later = (at) => new Date(new Date(at + "Z").getTime() + hours * 3600e3).toISOString().slice(0, 19);
        figure.layout.xaxis.range = figure.layout.xaxis.range.map(later);
        draw(place, figure).then(() => done(figure.layout.xaxis.range.map((at) => new Date(at).getTime())));
        """,
        SCHEDULE,
        hours,
    )
    return ranges


def test_zoom_stays_while_slots_pass_until_it_is_reset(window: Browser) -> None:
    window.log_in("operator", PASSWORD)
    window.open(HOME)
    window.wait_drawn()
    whole = window.js(SHOWN)
    plot = window.one(f"{SCHEDULE} .nsewdrag")
    window.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    drag = ActionChains(window.driver).move_to_element_with_offset(plot, -100, 0).click_and_hold()
    drag.move_by_offset(120, 0).move_by_offset(40, 0).release().perform()
    window.wait(lambda: window.js(SHOWN) != whole)
    zoomed = window.js(SHOWN)
    assert whole[0] < zoomed[0] < zoomed[1] < whole[1]
    for hours in (1, 5):
        _let_slots_pass(window, hours)
        assert window.js(SHOWN) == zoomed
    ActionChains(window.driver).move_to_element(plot).double_click().perform()
    sent = window.js(f'document.querySelector("{SCHEDULE}").figure.layout.xaxis.range')
    window.wait(lambda: window.js(SHOWN) != zoomed)
    assert window.js(SHOWN) == window.js(f"{sent}.map(at => new Date(at).getTime())")
    assert _let_slots_pass(window, 1) == window.js(SHOWN)
    assert window.complaints() == []


def test_the_place_of_a_chart_has_a_height_of_its_own(window: Browser) -> None:
    """Plotly measures the place when the window changes: without one, charts vanished if the theme changed then."""
    window.log_in("operator", PASSWORD)
    window.open(HOME)
    window.wait_drawn()
    places = "[...document.querySelectorAll('[data-figure]')].filter(place => !place.hidden)"
    given = window.js(f"{places}.map(place => place.style.height)")
    assert given
    assert given == window.js(f"{places}.map(place => `${{place.figure.layout.height}}px`)")


def test_a_quote_that_lacks_fields_names_them_and_opens_the_section_they_are_in(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    window.open(f"{HOME}submit/")
    assert not window.one("[data-field=chunks]").is_displayed()
    window.driver.execute_script(
        "const model = document.getElementById('id_model'); model.value = '';"
        "model.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    window.wait(lambda: "Please correct" in window.text("#quote"))
    assert "Chunks" in window.text("#quote")
    assert "Minibatches" in window.text("#quote")
    assert window.one("[data-field=chunks]").is_displayed()
    assert "missing" in window.text("#error-chunks")
    assert window.complaints() == []


def test_an_error_of_the_submission_stays_until_the_first_input(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    _submit(window, label="as it was", value="85000")
    window.wait(lambda: "/bids/" in window.driver.current_url)
    window.driver.back()
    window.wait(lambda: window.text("#quote .state").startswith("Would be"))
    window.fill("label", "as it was not")
    window.one("#bid-form > button").click()
    window.wait(lambda: "came before" in window.text("#error-__all__"))
    assert not window.one("[data-field=chunks]").is_displayed()
    window.wait(lambda: window.text("#quote .state").startswith("Would be"))
    assert "came before" in window.text("#error-__all__")
    window.fill("label", "another bid")
    window.wait(lambda: window.text("#error-__all__") == "")


def test_pages_that_stay_open_say_that_the_session_has_ended_or_that_the_form_has_expired(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    first = window.driver.current_window_handle
    window.open(f"{HOME}submit/")
    window.wait(lambda: window.text("#quote .state").startswith("Would be"))
    window.driver.switch_to.new_window("tab")
    window.open(HOME)
    window.wait(lambda: window.text("#live").startswith("live"))
    cookie = window.driver.get_cookie("sessionid")
    window.driver.delete_cookie("sessionid")
    # As with a stream that ends: the page asks for the version instead.
    window.driver.execute_script("poll(document.querySelector('[data-version]').dataset.version)")
    window.wait(lambda: window.text("#live") == "your session has ended; load this page again to log in")
    window.driver.close()
    window.driver.switch_to.window(first)
    window.fill("epochs", "6")
    window.wait(lambda: "your session has ended" in window.text("#quote"))
    window.driver.add_cookie(cookie)
    window.driver.delete_cookie("csrftoken")
    window.fill("epochs", "7")
    window.wait(lambda: "this form has expired" in window.text("#quote"))


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_what_was_typed_comes_back_after_the_login_for_the_same_user_only(window: Browser, name: str) -> None:
    window.log_in("alice", PASSWORD)
    window.open(f"{HOME}submit/")
    window.fill("label", "typed by alice")
    window.js("document.querySelector('details').open = true")
    window.fill("start_after_h", "7")
    window.driver.delete_cookie("sessionid")
    window.one("#bid-form > button").click()
    window.wait(lambda: "/login/" in window.driver.current_url)
    window.fill("username", name)
    window.fill("password", PASSWORD)
    window.one(".login button").click()
    window.wait(lambda: "Nothing was submitted" in window.text("#typed"))
    is_hers = name == "alice"
    assert ("is here again" in window.text("#typed")) is is_hers
    assert window.js("document.getElementById('id_label').value") == ("typed by alice" if is_hers else "")
    assert window.one("[data-field=start_after_h]").is_displayed() is is_hers
    window.open(f"{HOME}submit/?typed")
    window.wait(lambda: window.text("#quote .state").startswith("Would be"))
    assert window.js("document.getElementById('id_label').value") == "", "it comes back once"


def test_a_filter_shows_after_the_back_button_what_its_page_lists(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    window.open(f"{HOME}bids/")
    for state in ("planned", "rejected"):
        window.js(f"document.querySelector('[name=state]').value = '{state}'")
        window.one(".filters button").click()
        window.wait(lambda state=state: f"state={state}" in window.driver.current_url)
    for state in ("planned", ""):
        window.driver.back()
        window.wait(lambda state=state: window.driver.current_url.partition("?state=")[2].partition("&")[0] == state)
        window.wait(lambda state=state: window.js("document.querySelector('[name=state]').value") == state)


def test_a_quote_is_asked_for_where_the_browser_forbids_to_keep_anything(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    forbid = (
        "Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('', 'SecurityError'); } })"
    )
    added = window.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": forbid})
    try:
        window.open(f"{HOME}submit/")
        window.wait(lambda: window.text("#quote .state").startswith("Would be"))
        window.fill("label", "kept nowhere")
        window.one("#bid-form > button").click()
        window.wait(lambda: "/submit/" not in window.driver.current_url)
    finally:
        window.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_each_bar_of_an_experiment_has_its_name_on_a_phone_and_none_covers_another(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    window.size(390, 900)
    window.open("/experiments/1/")
    window.wait_drawn()
    ticks = "[...document.querySelectorAll('.xtick text')]"
    names = window.js(f"{ticks}.map(place => place.textContent)")
    assert len(names) == len(READY_MADE["policies"])
    # Turned names are apart if their anchors are: the boxes around them overlap.
    angle = "Number(/rotate\\((-?[0-9.]+)/.exec(place.getAttribute('transform'))?.[1] ?? 0)"
    turned = window.js(f"{ticks}.map(place => {angle})")
    boxes = window.js(f"{ticks}.map(place => place.getBoundingClientRect()).map(box => [box.left, box.right])")
    assert all(turned) or all(before[1] <= after[0] for before, after in pairwise(boxes)), (names, boxes)


def test_an_experiment_shows_and_sends_only_the_fields_of_its_workload(window: Browser) -> None:
    window.log_in("alice", PASSWORD)
    window.open("/experiments/new/")
    choice = window.one("#id_workload")
    values = [one.get_attribute("value") for one in choice.find_elements(By.TAG_NAME, "option")]
    read = next(value for value in values if value.startswith("trace-"))
    sent = "[...new FormData(document.querySelector('form.panel')).keys()]"
    for value in (read, "dps", read):
        choice.find_element(By.CSS_SELECTOR, f'option[value="{value}"]').click()
        of_trace = value == read
        assert window.one("[data-field=slot_s]").is_displayed() == of_trace
        assert window.one("[data-field=setting]").is_displayed() != of_trace
        assert ("slot_s" in window.js(sent), "setting" in window.js(sent)) == (of_trace, not of_trace)
        assert window.one("[data-field=seeds]").is_displayed()
    assert window.complaints() == []


def test_a_locked_login_says_when_to_come_again_in_both_themes(window: Browser) -> None:
    for i in range(settings.LOGIN_LIMITS[0][1]):
        window.open("/login/")
        window.fill("username", "stranger")
        window.fill("password", f"guess {i}")
        window.one(".login button").click()
        window.wait(lambda: "is wrong" in window.text("main") or "Too many" in window.text("main"))
    for theme in ("light", "dark"):
        window.theme(theme)
        assert "Try again in 30 minutes" in window.text("main")
        assert window.barriers() == [], theme


def test_the_theme_switch_is_remembered(window: Browser) -> None:
    window.theme("light")
    window.open("/login/")
    light = window.js("getComputedStyle(document.body).backgroundColor")
    window.one("#theme").click()
    assert window.js("getComputedStyle(document.body).backgroundColor") != light
    window.open("/login/")
    assert window.js("document.documentElement.dataset.theme") == "dark"
