"""Files of a reproduced figure: a page that needs only Plotly's script, and the numbers as JSON and CSV."""

import csv
import json
import shutil
from html import escape
from pathlib import Path

from frontend.figures import reproduction
from frontend.figures.base import Json
from frontend.finders import FOLDER, NAME
from studies.papers.figure import Figure, Paper, Reproduced
from web.csv_files import inert

STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #ffffff; --soft: #5b636b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --paper: #14171a; --soft: #a2a9b0; } }
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 62rem; padding: 1rem; overflow-wrap: anywhere; }
a { color: inherit; }
.soft { color: var(--soft); } table { border-collapse: collapse; } td, th { padding: .3rem .8rem .3rem 0;
  text-align: left; vertical-align: top; }
"""
SCRIPT = """
const drawing = JSON.parse(document.getElementById("drawing").textContent);
const ink = getComputedStyle(document.body).color;
const modebar = { bgcolor: "rgba(0,0,0,0)", color: "#8A8F98", activecolor: ink };
Plotly.newPlot("chart", drawing.data, { ...drawing.layout, font: { color: ink }, modebar }, {
  responsive: true, displaylogo: false, displayModeBar: window.innerWidth < 600 ? false : "hover",
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
});
"""


def write_figure(reproduced: Reproduced, folder: Path) -> Path:
    """Write `FIGURE.html`, `.json` and `.csv` into a folder that has Plotly's script; return the page's path."""
    name = file_name(reproduced.figure)
    drawing, table = reproduction.figure(reproduced), reproduction.table(reproduced)
    document = reproduced.to_json() | {"plotly": drawing.to_json()}
    text = json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n")
    with (folder / f"{name}.csv").open("w", newline="") as file:
        csv.writer(file).writerows(inert([table.header, *table.rows]))
    page = folder / f"{name}.html"
    page.write_text(_page(reproduced, drawing.to_json(), name))
    return page


def write_index(paper: Paper, folder: Path) -> Path:
    """Write the page that lists a paper's figures in a folder, with their verdicts; return its path."""
    rows = []
    for figure in paper.figures:
        name = file_name(figure)
        if (folder / f"{name}.json").exists():
            known = json.loads((folder / f"{name}.json").read_text())
            cells = (f'<a href="{name}.html">{escape(figure.name)}</a>', escape(figure.title))
            said = (escape(known["verdict"]), escape(known["measured"]), escape(known["scale"]))
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in (*cells, *said)) + "</tr>")
    head = "<tr><th>Figure</th><th>Title</th><th>Verdict</th><th>Measured</th><th>Scale</th></tr>"
    page = folder / "index.html"
    table = "\n".join(rows)
    page.write_text(_html(paper.title, f"<h1>{escape(paper.title)}</h1>\n<table>{head}\n{table}</table>"))
    return page


def prepare(folder: Path) -> None:
    """Make a folder with Plotly's script, so that its pages request nothing from other hosts."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / NAME).exists():
        shutil.copyfile(FOLDER / NAME, folder / NAME)


def file_name(figure: Figure) -> str:
    """Return the figure's file name without suffix, such as `figure-3` or `table-ii`."""
    return figure.name.lower().replace(" ", "-")


def _page(reproduced: Reproduced, drawing: Json, name: str) -> str:
    figure, task = reproduced.figure, reproduced.task
    # No text in the data may close the script element.
    data = json.dumps(drawing, allow_nan=False).replace("<", "\\u003c")
    seeds = ", ".join(str(seed) for seed in task.seeds)
    body = f"""<p class="soft">{escape(reproduced.paper.title)}, {escape(reproduced.paper.section)}</p>
<h1>{escape(figure.name)}: {escape(figure.title)}</h1>
<p><strong>{escape(reproduced.finding.verdict.capitalize())}.</strong> {escape(reproduced.finding.measured)}.</p>
<p>Claimed: {escape(figure.claim)}</p>
<div id="chart"></div>
<p class="soft">{escape(drawing["note"])} Scale: {escape(task.scale)}; seeds {seeds}.
<a href="{name}.csv">CSV</a> <a href="{name}.json">JSON</a> <a href="index.html">All figures</a></p>
<script type="application/json" id="drawing">{data}</script>
<script src="{NAME}"></script>
<script>{SCRIPT}</script>"""
    return _html(f"{figure.name}: {figure.title}", body)


def _html(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{STYLE}</style></head>
<body>
{body}
</body>
</html>
"""
