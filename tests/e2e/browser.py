"""A headless Chromium that keeps a list of what it asked for and what it complained about."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CONFIGURE = "axe.configure({rules: [{id: 'color-contrast', selector: ':not(g):not(text):not(tspan)'}]})"
"""Lets axe pass over the words of charts. It never judges them, and looks behind each one for what is drawn there.

It reads `color`, and words in SVG have the colour `fill`. `tests/e2e/pictures.py` compares theirs with the theme's.
"""
INSTALL = "apt-get install chromium chromium-driver"
WAIT_S = 30


def present() -> bool:
    """Whether this machine has Chromium and its driver."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


class Browser:
    """One window."""

    def __init__(self, driver: webdriver.Chrome, base: str) -> None:
        self.driver, self.base = driver, base
        self._requests: list[str] = []
        self._sessions: dict[str, list[dict[str, Any]]] = {}
        """Cookies of users who have logged in."""

    def forget(self) -> None:
        """Be as a window just opened: nobody logged in, nothing stored, asked for or complained of."""
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": self.base, "storageTypes": "all"})
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        self.requests()
        self.complaints()
        self._requests.clear()

    def open(self, path: str) -> None:
        """Go to a page of the server."""
        self.driver.get(self.base + path)

    def first_link(self, path: str) -> str:
        """Return the target of the first link of a table on another page; empty if there is none."""
        read = """
            const [path, done] = arguments;
            fetch(path).then((answer) => answer.text()).then((text) => {
                const page = new DOMParser().parseFromString(text, "text/html");
                done(page.querySelector("tbody a")?.getAttribute("href") ?? "");
            });
        """
        return str(self.driver.execute_async_script(read, path))

    def log_in(self, name: str, password: str) -> None:
        """Log in by the form; later on the same user comes back with the cookies of that session."""
        if name in self._sessions:
            for cookie in self._sessions[name]:
                self.driver.execute_cdp_cmd("Network.setCookie", cookie)
            self.open("/healthz")
            return
        self.open("/login/")
        self.fill("username", name)
        self.fill("password", password)
        self.one(".login button").click()
        self.wait(lambda: "/login/" not in self.driver.current_url)
        kept = ("name", "value", "path", "httpOnly", "sameSite")
        cookies: list[dict[str, Any]] = self.driver.get_cookies()
        self._sessions[name] = [{key: cookie[key] for key in kept} | {"url": self.base} for cookie in cookies]

    def fill(self, name: str, text: str) -> None:
        """Type into a field instead of what is there."""
        field = self.driver.find_element(By.NAME, name)
        field.clear()
        field.send_keys(text)

    def one(self, selector: str) -> Any:
        """The first element that matches."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """What is written there, empty if there is no such place; in one step, since pages change under a test."""
        read = "return (document.querySelector(arguments[0])?.textContent ?? '').trim()"
        return str(self.driver.execute_script(read, selector))

    def js(self, expression: str) -> Any:
        """The value of an expression in the page."""
        return self.driver.execute_script(f"return {expression}")

    def wait(self, done: Any) -> None:
        """Wait until something is true."""
        WebDriverWait(self.driver, WAIT_S, poll_frequency=0.1).until(lambda _: done())

    def wait_drawn(self) -> None:
        """Wait until every chart that has anything to show is drawn, except in a closed `<details>`."""
        self.wait(
            lambda: self.js(
                "document.documentElement.dataset.drawn && "
                "[...document.querySelectorAll('[data-figure]')].every(place => "
                "place.hidden || place.querySelector('.main-svg') || place.closest('details:not([open])'))"
            )
        )

    def size(self, width: int, height: int) -> None:
        """Make the page, not the window, that wide: headless Chromium's window has a least width."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scrolls_sideways(self) -> bool:
        """Whether the page is wider than the window."""
        return bool(self.js("document.documentElement.scrollWidth > window.innerWidth"))

    def theme(self, name: str) -> None:
        """What the system is said to prefer."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def picture(self, path: Path) -> None:
        """The whole page, however long."""
        height = int(self.js("document.documentElement.scrollHeight"))
        width = int(self.js("window.innerWidth"))
        before = int(self.js("window.innerHeight"))
        self.size(width, height)
        self.driver.save_screenshot(str(path))
        self.size(width, before)

    def requests(self) -> list[str]:
        """Every address asked for since the window opened."""
        logs: list[dict[str, Any]] = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        for entry in logs:
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self._requests.append(message["params"]["request"]["url"])
        return self._requests

    def strangers(self) -> list[str]:
        """Addresses asked for on any other host."""
        host = urlsplit(self.base).netloc
        # chrome:// and devtools:// are the browser's own pages, data: and blob: what a page drew itself.
        inner = ("data", "blob", "chrome", "devtools", "about", "chrome-extension", "chrome-untrusted")
        return [u for u in self.requests() if urlsplit(u).scheme not in inner and urlsplit(u).netloc != host]

    def barriers(self) -> list[str]:
        """Return the accessibility problems that axe finds on the page."""
        if not self.js("'axe' in window"):
            self.driver.execute_script((files("axe_core_python") / "axe.min.js").read_text() + CONFIGURE)
        run = "axe.run(document, {resultTypes: ['violations']}).then(arguments[0])"
        found: dict[str, Any] = self.driver.execute_async_script(run)
        return [f"{rule['id']}: {[node['target'] for node in rule['nodes']]}" for rule in found["violations"]]

    def complaints(self) -> list[str]:
        """Errors and warnings in the console since the last call."""
        logs: list[dict[str, Any]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in logs if entry["level"] in ("SEVERE", "WARNING")]


@contextmanager
def browser(base: str) -> Iterator[Browser]:
    """A window of its own with an empty profile, closed at the end."""
    with tempfile.TemporaryDirectory(prefix="shadowprice-chromium-", ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        flags = ["headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"]
        flags += ["disable-background-networking", "disable-component-update", "disable-dev-shm-usage"]
        for flag in [*flags, f"user-data-dir={profile}", "window-size=1280,900"]:
            options.add_argument(f"--{flag}")
        options.binary_location = str(shutil.which("chromium"))
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            yield Browser(driver, base)
        finally:
            driver.quit()
