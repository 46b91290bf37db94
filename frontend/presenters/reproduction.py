"""Files of a reproduced figure: a page that needs only Plotly's script, and the numbers as JSON and CSV."""

import json
import shutil
from html import escape
from pathlib import Path

from frontend.figures import reproduction
from frontend.figures.base import Json
from frontend.finders import FOLDER, NAME
from studies.papers.figure import RESAMPLES, Finding, Paper, Reproduced
from studies.papers.results import file_name
from web.csv_files import write_rows

STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #ffffff; --soft: #5b636b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --paper: #14171a; --soft: #a2a9b0; } }
body { color: var(--ink); background: var(--paper); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 62rem; padding: 1rem; overflow-wrap: break-word; }
a { color: inherit; }
.soft { color: var(--soft); } table { border-collapse: collapse; } td, th { padding: .3rem .8rem .3rem 0;
  text-align: left; vertical-align: top; }
@media (max-width: 40rem) { th { display: none; } td { display: block; padding: 0; } tr { display: block;
  margin-bottom: 1rem; } }
"""
SCRIPT = """
const drawing = JSON.parse(document.getElementById("drawing").textContent);
const ink = getComputedStyle(document.body).color;
const modebar = { bgcolor: "rgba(0,0,0,0)", color: "#8A8F98", activecolor: ink };
const lines = { gridcolor: "rgba(138,143,152,0.3)", zerolinecolor: "#8A8F98" };
const xaxis = { ...drawing.layout.xaxis, ...lines };
const yaxis = { ...drawing.layout.yaxis, ...lines };
Plotly.newPlot("chart", drawing.data, { ...drawing.layout, font: { color: ink }, modebar, xaxis, yaxis }, {
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
        write_rows(file, [table.header, *table.rows])
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
            firm = "" if known["agreement"] is None else f" ({100 * known['agreement']:.0f} %)"
            seeds = f"{len(known['seeds'])} seed{'s' * (len(known['seeds']) > 1)}"
            said = (
                escape(f"{known['verdict']}{firm}"),
                escape(known["measured"]),
                escape(f"{known['scale']}, {seeds}"),
            )
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in (*cells, *said)) + "</tr>")
    heads = ("Figure", "Title", "Verdict", "Measured", "Runs")
    head = "<tr>" + "".join(f"<th>{name}</th>" for name in heads) + "</tr>"
    page = folder / "index.html"
    table = "\n".join(rows)
    note = f"The percentage is the share of {RESAMPLES:,} bootstrap samples of the seeds that have the same verdict."
    body = f'<h1>{escape(paper.title)}</h1>\n<table>{head}\n{table}</table>\n<p class="soft">{note}</p>'
    page.write_text(_html(paper.title, body))
    return page


def prepare(folder: Path) -> None:
    """Make a folder with Plotly's script, so that its pages request nothing from other hosts."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / NAME).exists():
        shutil.copyfile(FOLDER / NAME, folder / NAME)


def _page(reproduced: Reproduced, drawing: Json, name: str) -> str:
    figure, task = reproduced.figure, reproduced.task
    # No text in the data may close the script element.
    data = json.dumps(drawing, allow_nan=False).replace("<", "\\u003c")
    seeds = ", ".join(str(seed) for seed in task.seeds)
    body = f"""<p class="soft">{escape(reproduced.paper.title)}, {escape(reproduced.paper.section)}</p>
<h1>{escape(figure.name)}: {escape(figure.title)}</h1>
<p><strong>{escape(reproduced.finding.verdict.capitalize())}.</strong> {escape(reproduced.finding.measured)}.</p>
<p>Claimed: {escape(figure.claim)}</p>
{_missing(reproduced.finding)}<p>{escape(_firm(reproduced))}</p>
<div id="chart"></div>
<p class="soft">{escape(drawing["note"])} Scale: {escape(task.scale)}; seeds {seeds}.
<a href="{name}.csv">CSV</a> <a href="{name}.json">JSON</a> <a href="index.html">All figures</a></p>
<script type="application/json" id="drawing">{data}</script>
<script src="{NAME}"></script>
<script>{SCRIPT}</script>"""
    return _html(f"{figure.name}: {figure.title}", body)


def _missing(finding: Finding) -> str:
    """The parts of the claim that did not come out, as a list."""
    if not finding.missing:
        return ""
    items = "".join(f"<li>{escape(part)}</li>" for part in finding.missing)
    return f"<p>Missing:</p>\n<ul>{items}</ul>\n"


def _firm(reproduced: Reproduced) -> str:
    """Return a sentence about how often bootstrap samples of the seeds have the same verdict."""
    if reproduced.agreement is None:
        return "One seed says nothing about how firm the verdict is."
    return f"{100 * reproduced.agreement:.0f} % of {RESAMPLES:,} bootstrap samples of the seeds have the same verdict."


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
