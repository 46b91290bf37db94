// Charts, tiles and receipts that keep themselves up to date: hear "version 18", fetch only what changed.
const tags = new Map();

// Without a session every address answers with the login page; to try again would not help.
const ENDED = "your session has ended; load this page again to log in";
const trouble = (error) => error.message === ENDED ? ENDED : "out of reach, trying again";

async function fetchChanged(url, kind) {
  const headers = tags.has(url) ? { "If-None-Match": tags.get(url) } : {};
  const response = await fetch(url, { headers, cache: "no-store", credentials: "same-origin" });
  if (response.status === 304) return null;
  if (response.redirected) throw new Error(ENDED);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  const body = await response[kind]();
  tags.set(url, response.headers.get("ETag"));
  return body;
}

// Figures come without colours of text and grid: those are the page's.
function themed(figure) {
  const css = getComputedStyle(document.documentElement), colour = (name) => css.getPropertyValue(name).trim();
  const layout = structuredClone(figure.layout), narrow = window.innerWidth < 600;
  layout.font = { color: colour("--text"), family: "system-ui, sans-serif", size: narrow ? 10 : 12 };
  for (const name of ["xaxis", "yaxis"]) {
    layout[name] = { gridcolor: colour("--line"), linecolor: colour("--line"), zerolinecolor: colour("--line"), ...layout[name] };
  }
  if (narrow) {
    // Dates fit as they are, and some are enough. Each bar needs its name, turned where it does not fit.
    if (layout.xaxis.type !== "category") Object.assign(layout.xaxis, { nticks: 4, tickangle: 0 });
    layout.margin = { ...layout.margin, l: 40, r: 6 };
  }
  layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: colour("--muted"), activecolor: colour("--text") };
  layout.hoverlabel = { bgcolor: colour("--surface"), font: { color: colour("--text") }, bordercolor: colour("--line") };
  const data = figure.data.map((trace) => {
    if (trace.colorbar && narrow) return { ...trace, colorbar: { ...trace.colorbar, orientation: "h", y: 1.02, yanchor: "bottom", len: 1, title: { ...trace.colorbar.title, side: "top" } } };
    // The ground shows through pale bars and between stripes alone: their words have the page's colour.
    const pattern = trace.marker?.pattern;
    if (trace.text && pattern && ((pattern.shape && pattern.fillmode !== "overlay") || trace.marker.opacity < 1)) return { ...trace, textfont: { ...trace.textfont, color: colour("--text") } };
    return trace;
  });
  return [data, layout];
}

// What a reader zoomed to stays while slots pass, though the server sends another range then. `place.zoom` holds the
// range of each axis that the reader chose, for the view that `place.view` names; another view begins without one.
function keepZoom(place) {
  place.on("plotly_relayout", (change) => {
    for (const axis of ["xaxis", "yaxis"]) {
      if (`${axis}.range[0]` in change) place.zoom[axis] = [change[`${axis}.range[0]`], change[`${axis}.range[1]`]];
    }
  });
  place.on("plotly_doubleclick", () => forgetZoom(place));
}

function forgetZoom(place) {
  place.zoom = {};
  draw(place, place.figure);
}

async function draw(place, figure) {
  place.figure = figure;
  if (!place.zoom || place.view !== figure.layout.uirevision) { place.view = figure.layout.uirevision; place.zoom = {}; }
  const [data, layout] = themed(figure);
  place.draws = (place.draws || 0) + 1;
  for (const axis of ["xaxis", "yaxis"]) {
    const zoom = place.zoom[axis];
    // Another revision at every draw: Plotly's own memory of ranges would win over the range that is sent.
    layout[axis] = { ...layout[axis], uirevision: place.draws, ...(zoom && { range: zoom, autorange: false }) };
  }
  place.hidden = figure.data.length === 0;
  const note = place.parentElement.querySelector(".plot-note");
  if (note) note.textContent = figure.note;
  if (place.hidden) return;
  // A window that changes its size makes Plotly measure the place: one without a height would be drawn empty.
  place.style.height = `${layout.height}px`;
  const listens = Boolean(place.on);
  const resetAxes = { name: "resetAxes", title: "Reset axes", icon: Plotly.Icons.home, click: forgetZoom };
  await Plotly.react(place, data, layout, {
    responsive: true, displaylogo: false, doubleClick: false,
    displayModeBar: window.innerWidth < 600 ? false : "hover",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", resetAxes]],
  });
  if (!listens) keepZoom(place);
}

// A chart in a closed <details> is fetched once it is opened: some take the server long and are seldom read.
const plots = () => [...document.querySelectorAll("[data-figure]")].filter((place) => !place.closest("details:not([open])"));

async function refreshPlots() {
  await Promise.all(plots().map(async (place) => {
    const figure = await fetchChanged(place.dataset.figure, "json");
    if (figure) await draw(place, figure);
  }));
}

async function refreshTiles() {
  const section = document.querySelector("[data-tiles]");
  const answer = section && await fetchChanged(section.dataset.tiles, "json");
  if (!answer) return;
  const set = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  if (section.dataset.policy !== String(answer.policy)) { location.reload(); return; } // it may have other charts
  const published = document.getElementById("published");
  if (!published !== !answer.published) { location.reload(); return; } // figures of now, or published ones
  for (const tile of answer.tiles) {
    const place = section.querySelector(`[data-tile="${tile.key}"]`);
    if (!place) { location.reload(); return; } // other rights, other figures
    set(place.querySelector(".figure"), tile.figure);
    set(place.querySelector(".muted"), tile.note);
  }
  set(document.getElementById("now"), answer.now);
  if (published) set(published, answer.published);
}

const fieldsOf = (part) => [...part.querySelectorAll("input:not([type=hidden]), select")];

// When a part is replaced, its forms keep what a reader typed. The field that had the focus has it again, with its cursor
// or selection, of which fields such as selects and numbers have none.
function keepTyped(before, focused, part) {
  for (const old of before) {
    const field = fieldsOf(part).find((one) => one.name === old.name && one.form.action === old.form.action);
    if (!field) continue;
    field.value = old.value;
    if (old !== focused) continue;
    field.focus();
    if (old.selectionStart != null) field.setSelectionRange(old.selectionStart, old.selectionEnd, old.selectionDirection);
  }
}

async function refreshPart(part) {
  const html = await fetchChanged(part.dataset.part, "text");
  if (!html) return;
  const open = [...part.querySelectorAll("details")].map((d) => [d.querySelector("summary").textContent, d.open]);
  const before = fieldsOf(part), focused = document.activeElement, inside = part.contains(focused);
  // A market moves often, a bid seldom: leave the page alone, and what the reader selected, unless it says otherwise.
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const words = (node) => node.textContent.replace(/\s+/g, " ").trim();
  if (words(fresh.content) === words(part)) return;
  part.replaceChildren(fresh.content);
  for (const [name, was] of open) {
    for (const d of part.querySelectorAll("details")) if (d.querySelector("summary").textContent === name) d.open = was;
  }
  keepTyped(before, focused, part);
  if (inside && !part.contains(document.activeElement)) document.getElementById("main").focus();
}

const EVERY_MS = 2000;
let busy = false, again = false, failed = false, retry = 0;
async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  clearTimeout(retry);
  try {
    await Promise.all([refreshTiles(), ...[...document.querySelectorAll("[data-part]")].map(refreshPart), refreshPlots()]);
    document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn || 0) + 1);
    failed = false;
    say(connection);
  } catch (error) {
    failed = true;
    say(trouble(error));
    console.warn(String(error));
    // No later version may follow to ask because of, as when a plan has ended.
    if (error.message !== ENDED) retry = setTimeout(refresh, EVERY_MS);
  }
  busy = false;
  if (again) { again = false; setTimeout(refresh, 400); }
}

function say(words) {
  const place = document.getElementById("live");
  if (place && place.textContent !== words) place.textContent = words;
}

// How the page hears of changes. Words about what it could not fetch stay until it has fetched it.
let connection = "connecting";
function connected(words) {
  connection = words;
  if (!failed) say(words);
}

function poll(url) {
  connected("live, asking every 2 s");
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const moved = await fetchChanged(url, "text");
      connected("live, asking every 2 s");
      if (moved) await refresh();
    } catch (error) { connected(trouble(error)); }
  }, EVERY_MS);
}

function listen(place) {
  const source = new EventSource(place.dataset.events);
  source.onopen = () => connected("live");
  source.onmessage = () => { connected("live"); refresh(); };
  source.onerror = () => {
    // CLOSED: the server has no stream to give (204, as under WSGI). Otherwise the browser tries again by itself.
    if (source.readyState === EventSource.CLOSED) poll(place.dataset.version);
    else connected("out of reach, trying again");
  };
  addEventListener("pagehide", () => source.close());
}

// Says what the market waits for until it waits for nothing.
async function showCompiling(note) {
  try {
    const response = await fetch(note.dataset.compiling, { cache: "no-store", credentials: "same-origin" });
    if (!response.ok || response.redirected) return;
    const words = await response.text();
    if (note.textContent !== words) note.textContent = words;
    note.hidden = !words;
  } catch { /* out of reach: asked again */ }
  if (!note.hidden) setTimeout(() => showCompiling(note), EVERY_MS);
}

addEventListener("DOMContentLoaded", () => {
  const note = document.getElementById("compiling");
  if (note && !note.hidden) showCompiling(note);
  const place = document.querySelector("[data-version]");
  if (place) {
    say(connection); // not in the page: without scripts it never connects
    refresh();
    if (place.dataset.events) listen(place);
    else poll(place.dataset.version);
  }
  // What runs moves without the market: it has a version of its own.
  for (const part of document.querySelectorAll("[data-poll]")) {
    setInterval(async () => {
      if (document.hidden) return;
      try { if (await fetchChanged(part.dataset.poll, "text")) await refresh(); } catch { /* asked again */ }
    }, EVERY_MS);
  }
  for (const select of document.querySelectorAll("[data-submit]")) select.addEventListener("change", () => select.form.submit());
  // The event does not bubble.
  document.addEventListener("toggle", (event) => { if (event.target.open && event.target.querySelector("[data-figure]")) refresh(); }, true);
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });
});
document.addEventListener("theme", () => {
  for (const place of document.querySelectorAll(".plot")) if (place.figure) draw(place, place.figure);
});
