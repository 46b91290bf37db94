"""Pictures of every page of a running server: `python -m tests.e2e.pictures URL MARKET FOLDER [NAME PASSWORD]`.

The picture in the README is `overview-1280-light.png` of this.
"""

import sys
from pathlib import Path

from tests.e2e.browser import Browser, browser


def pages(window: Browser, market: str) -> dict[str, str]:
    """A name and a path for each page worth a look, among them a bid of each kind if there is one."""
    paths = {"markets": "/", "overview": f"/markets/{market}/", "bids": f"/markets/{market}/bids/"}
    paths["submit"] = f"/markets/{market}/submit/"
    window.open("/plans/?state=done")
    link = window.js("document.querySelector('tbody a')?.getAttribute('href') ?? ''")
    paths |= {
        "plans": "/plans/",
        "plan-new": "/plans/new/",
        **({"plan": link, "plan-again": f"{link}again/"} if link else {}),
    }
    hindsights = f"/markets/{market}/hindsights/"
    window.open(f"{hindsights}?state=done")
    link = window.js("document.querySelector('tbody a')?.getAttribute('href') ?? ''")
    paths |= {"hindsights": hindsights, "hindsight-new": f"{hindsights}new/", **({"hindsight": link} if link else {})}
    for one in ("experiment", "trace"):
        window.open(f"/{one}s/")
        link = window.js("document.querySelector('tbody a')?.getAttribute('href') ?? ''")
        paths |= {f"{one}s": f"/{one}s/", **({one: link} if link else {})}
    paths["experiment-new"] = "/experiments/new/"
    for state in ("rejected", "planned", "in_line", "running", "completed"):
        window.open(f"/markets/{market}/bids/?state={state}")
        link = window.js("document.querySelector('tbody a')?.getAttribute('href') ?? ''")
        if link:
            paths[f"bid-{state}"] = link
    return paths


def take(window: Browser, market: str, folder: Path | None = None) -> list[str]:
    """Look at every page at two widths and in two themes; returns pages that scroll sideways.

    Without a folder no pictures are taken: each is a page drawn once more.
    """
    wide = []
    for name, path in pages(window, market).items():
        for width in (1280, 390):
            for theme in ("light", "dark"):
                window.size(width, 900)
                window.theme(theme)
                window.open(path)
                if window.js("!!document.querySelector('[data-figure]')"):
                    window.wait_drawn()
                if name == "submit":
                    window.wait(lambda: window.js("!!document.querySelector('#quote .lead')"))
                if window.js("document.documentElement.scrollWidth > window.innerWidth"):
                    wide.append(f"{name} at {width}")
                if folder is not None:
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
