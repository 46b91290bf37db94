// The theme follows the system until the switch says otherwise; the choice is remembered in this browser.
(() => {
  const KEY = "shadowprice-theme", NEXT = { "": "dark", dark: "light", light: "" };
  const read = () => { try { return localStorage.getItem(KEY) || ""; } catch { return ""; } };
  const apply = (theme) => {
    if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = { "": "Theme: auto", dark: "Theme: dark", light: "Theme: light" }[theme];
    document.dispatchEvent(new Event("theme"));
  };
  apply(read());
  document.addEventListener("DOMContentLoaded", () => {
    apply(read());
    document.getElementById("theme").addEventListener("click", () => {
      const theme = NEXT[read()] ?? "";
      try { localStorage.setItem(KEY, theme); } catch { /* private windows may refuse: the choice then lasts a page */ }
      apply(theme);
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("theme")));
})();
