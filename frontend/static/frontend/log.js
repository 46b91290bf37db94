// Follows the log of a process: asks for what was written since, and shows it as text.
addEventListener("DOMContentLoaded", () => {
  const LONGEST = 1_000_000;
  const log = document.getElementById("log"), button = document.getElementById("follow");
  if (!button) return;
  const status = document.getElementById("following");
  let offset = Number(log.dataset.end), follows = true;

  const say = (words) => { if (status.textContent !== words) status.textContent = words; };

  async function ask() {
    if (follows && !document.hidden) {
      try {
        const response = await fetch(`${log.dataset.lines}?offset=${offset}`, { cache: "no-store", credentials: "same-origin" });
        if (!response.ok || response.redirected) throw new Error(String(response.status));
        const part = await response.json();
        if (part.text) {
          const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 40;
          log.append(part.text);
          if (log.textContent.length > LONGEST) log.textContent = log.textContent.slice(-LONGEST / 2);
          if (atEnd) log.scrollTop = log.scrollHeight;
        }
        offset = part.end;
        if (part.over && offset >= part.size) { say("the process has ended"); button.hidden = true; return; }
        say("following");
      } catch { say("out of reach, trying again"); }
    }
    setTimeout(ask, 1000);
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    follows = !follows;
    button.textContent = follows ? "Pause" : "Follow";
    say(follows ? "following" : "paused");
  });
  log.scrollTop = log.scrollHeight;
  ask();
});
