// Follows the log of a process: shows what was written since, from an event stream or, without one, by asking.
// The last line is apart while it is not finished: a progress bar replaces it again and again.
addEventListener("DOMContentLoaded", () => {
  const LONGEST = 1_000_000, EVERY_MS = 2000;
  const GONE_MS = 5000; // the stream ends every minute, and is open again after 2 s
  const log = document.getElementById("log"), button = document.getElementById("follow");
  if (!button) return;
  const status = document.getElementById("following");
  const finished = document.getElementById("finished"), unfinished = document.getElementById("unfinished");
  let offset = Number(log.dataset.end), follows = true, source = null, asks = false;

  const say = (words) => { if (status.textContent !== words) status.textContent = words; };

  function show(part) {
    if (part.text || part.unfinished !== unfinished.textContent) {
      const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 40;
      finished.append(part.text);
      if (finished.textContent.length > LONGEST) finished.textContent = finished.textContent.slice(-LONGEST / 2);
      unfinished.textContent = part.unfinished;
      if (atEnd) log.scrollTop = log.scrollHeight;
    }
    offset = part.end;
  }

  function end() {
    say("the process has ended");
    button.hidden = true;
  }

  function listen() {
    source = new EventSource(`${log.dataset.events}?offset=${offset}`);
    source.onopen = () => say("following");
    source.onmessage = (event) => { show(JSON.parse(event.data)); say("following"); };
    source.addEventListener("over", () => { source.close(); end(); });
    source.onerror = () => {
      // CLOSED: the server has no stream to give. Otherwise the browser tries again by itself, from the last id.
      if (source.readyState === EventSource.CLOSED) { source = null; asks = true; ask(); }
      else setTimeout(() => { if (source?.readyState === EventSource.CONNECTING) say("out of reach, trying again"); }, GONE_MS);
    };
  }

  async function ask() {
    if (!follows) return;
    if (!document.hidden) {
      try {
        const response = await fetch(`${log.dataset.lines}?offset=${offset}`, { cache: "no-store", credentials: "same-origin" });
        // Without a session every address answers with the login page; to try again would not help.
        if (response.redirected) { say("your session has ended; load this page again to log in"); return; }
        if (!response.ok) throw new Error(String(response.status));
        const part = await response.json();
        if (!follows) return;
        show(part);
        if (part.over && offset >= part.size) { end(); return; }
        say("following, by asking every 2 seconds");
      } catch { say("out of reach, trying again"); }
    }
    setTimeout(ask, EVERY_MS);
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    follows = !follows;
    button.textContent = follows ? "Pause" : "Follow";
    if (!follows) { source?.close(); source = null; say("paused"); }
    else if (asks) ask();
    else listen();
  });
  addEventListener("pagehide", () => source?.close());
  log.scrollTop = log.scrollHeight;
  listen();
});
