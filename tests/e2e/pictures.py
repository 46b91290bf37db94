"""Pictures of every page of a running server: `python -m tests.e2e.pictures URL MARKET FOLDER [NAME PASSWORD]`.

The picture in the README is `overview-1280-light.png` of this.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from tests.e2e.browser import Browser, browser

View = tuple[int, str]
"""Width in pixels, and theme."""
VIEWS: Final[Sequence[View]] = tuple(product((1280, 390), ("light", "dark")))
COLOURED: Final = """[...document.querySelectorAll("[data-figure]")].every(place => place.hidden
    || place.layout.font.color === getComputedStyle(document.documentElement).getPropertyValue("--text").trim())"""
"""Whether each chart that is drawn has the colour of text of the theme."""
FITTING: Final = """[...document.querySelectorAll("[data-figure] .main-svg")].every(chart =>
    chart.clientWidth === chart.closest("[data-figure]").clientWidth)"""
"""Whether each chart that is drawn is as wide as its place."""
UNFOLDED: Final = "document.querySelectorAll('details.on-demand').forEach(part => { part.open = true; })"
"""Opens the parts of a page whose charts are fetched on demand."""


def pages(window: Browser, market: str) -> dict[str, str]:
    """A name and a path for each page worth a look, among them a bid of each kind if there is one."""
    paths = {"markets": "/", "overview": f"/markets/{market}/", "bids": f"/markets/{market}/bids/"}
    paths["submit"] = f"/markets/{market}/submit/"
    link = window.first_link("/plans/?state=completed")
    paths |= {
        "plans": "/plans/",
        "plan-new": "/plans/new/",
        **({"plan": link, "plan-again": f"{link}again/"} if link else {}),
    }
    counterfactuals = f"/markets/{market}/counterfactuals/"
    link = window.first_link(f"{counterfactuals}?state=completed")
    paths |= {
        "counterfactuals": counterfactuals,
        "counterfactual-new": f"{counterfactuals}new/",
        **({"counterfactual": link} if link else {}),
    }
    for one in ("experiment", "trace"):
        link = window.first_link(f"/{one}s/")
        paths |= {f"{one}s": f"/{one}s/", **({one: link} if link else {})}
    paths["experiment-new"] = "/experiments/new/"
    paths |= {"tokens": "/account/tokens/", "team": "/account/team/", "password": "/account/password/"}
    link = window.first_link("/account/webhooks/")
    paths |= {"webhooks": "/account/webhooks/", **({"webhook": link} if link else {})}
    link = window.first_link("/budgets/")
    paths |= {"changes": "/changes/", "budgets": "/budgets/", **({"credits": link} if link else {})}
    for state in ("rejected", "standing", "planned", "in_line", "running", "completed"):
        link = window.first_link(f"/markets/{market}/bids/?state={state}")
        if link:
            paths[f"bid-{state}"] = link
    return paths


def walk(
    window: Browser, found: dict[str, str], views: Sequence[View] = VIEWS, *, once: bool = False
) -> Iterator[tuple[str, int, str]]:
    """Show each page in each view and wait until all of it is there; its name, and the view's width and theme.

    A page is opened at each width, or `once`, as by a reader who turns a telephone. Where the next view has the same
    width, the page that is open follows the theme.
    """
    for name, path in found.items():
        opened = None
        for width, theme in views:
            window.size(width, 900)
            window.theme(theme)
            if opened is None or (width != opened and not once):
                window.open(path)
                window.js(UNFOLDED)
                opened = width
            if window.js("!!document.querySelector('[data-figure]')"):
                window.wait_drawn()
                window.wait(lambda: window.js(f"{COLOURED} && {FITTING}"))
            if name == "submit":
                window.wait(lambda: window.js("!!document.querySelector('#quote .lead')"))
            yield name, width, theme


def take(window: Browser, market: str, folder: Path) -> list[str]:
    """Take a picture of every page in every view; returns pages that scroll sideways."""
    wide = []
    for name, width, theme in walk(window, pages(window, market)):
        if window.scrolls_sideways():
            wide.append(f"{name} at {width}")
        window.picture(folder / f"{name}-{width}-{theme}.png")
    return wide


def main() -> None:
    """Take the pictures of the server at an address."""
    base, market, folder, *login = sys.argv[1:]
    name, password = login or ("operator", "operator")
    Path(folder).mkdir(parents=True, exist_ok=True)
    with browser(base) as window:
        window.log_in(name, password)
        wide = take(window, market, Path(folder))
        print("scroll sideways:", wide or "none")
        print("other hosts:", window.strangers() or "none")
        print("console:", window.complaints() or "nothing")


if __name__ == "__main__":
    main()
