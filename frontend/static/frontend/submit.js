// The live quote: asked a moment after the last key, answered in words, errors beside the fields they are about.
addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("bid-form"), answer = document.getElementById("quote");
  const plot = document.getElementById("value-plot");
  const places = [...form.querySelectorAll(".error")], nameOf = (place) => place.id.slice("error-".length);
  // Errors that came with the page are about the submission, which no quote repeats: they stay until the first input.
  let sent = Object.fromEntries(places.map((place) => [nameOf(place), place.textContent.trim()]));
  let timer = 0, turn = 0;

  function showErrors(errors) {
    for (const place of places) {
      const name = nameOf(place), text = sent[name] || errors[name] || "";
      if (place.textContent.trim() !== text) place.textContent = text;
      const input = form.elements[name];
      if (input && input.setAttribute) input.setAttribute("aria-invalid", text ? "true" : "false");
    }
  }

  // Which fields a quote still needs, by their labels; a closed section that holds one of them is opened.
  function toCorrect(errors) {
    const labels = [];
    for (const name of Object.keys(errors)) {
      const field = form.querySelector(`[data-field="${name}"]`), section = field && field.closest("details");
      if (!field) continue;
      labels.push(field.querySelector("label").textContent.trim());
      if (section) section.open = true;
    }
    return labels.length ? `Please correct: ${labels.join(", ")}.` : "No quote at present.";
  }

  // Without a session a submission leads to the login page, and then back here. What was typed waits in this tab, and
  // only for the same user; the next form that is loaded removes it. A browser may forbid to keep anything: then it does
  // not come back, and all else goes on.
  const typed = [...form.elements].filter((field) => field.name && field.type !== "hidden");
  const owner = form.dataset.user + location.pathname, note = document.getElementById("typed");

  function storage() {
    try { return sessionStorage; } catch { return null; }
  }

  function keepTyped() {
    const fields = typed.map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]);
    storage()?.setItem("bid", JSON.stringify({ owner, fields }));
  }

  function bringBack() {
    const kept = JSON.parse(storage()?.getItem("bid") ?? null);
    storage()?.removeItem("bid");
    if (!note || kept?.owner !== owner) return;
    for (const [name, was] of kept.fields) {
      const field = form.elements[name], section = field?.closest("details");
      if (!field) continue;
      field[field.type === "checkbox" ? "checked" : "value"] = was;
      if (section && was) section.open = true;
    }
    form.dispatchEvent(new Event("change"));
    note.textContent += " What you typed is here again.";
  }

  async function ask() {
    const mine = ++turn;
    answer.setAttribute("aria-busy", "true");
    try {
      const response = await fetch(form.dataset.quote, { method: "POST", body: new FormData(form), credentials: "same-origin" });
      if (response.redirected) throw new Error("your session has ended; press Submit to log in, what you typed comes back");
      // The session is another one than that of the form: there was a login in another tab.
      if (response.status === 403) throw new Error("this form has expired; load this page again");
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      const quote = await response.json();
      if (mine !== turn) return;
      showErrors(quote.errors);
      if (quote.html) { answer.innerHTML = quote.html; await draw(plot, quote.figure); }
      else if (quote.wait) { answer.replaceChildren(Object.assign(document.createElement("p"), { className: "muted", textContent: quote.wait })); timer = setTimeout(ask, 2000); }
      else {
        answer.replaceChildren(Object.assign(document.createElement("p"), { className: "muted", textContent: toCorrect(quote.errors) }));
        plot.hidden = true;
      }
    } catch (error) {
      // A request that got no answer is a TypeError, with the browser's own words.
      const why = error instanceof TypeError ? "the server is out of reach" : error.message;
      if (mine === turn) answer.replaceChildren(Object.assign(document.createElement("p"), { className: "muted", textContent: `No quote: ${why}.` }));
    } finally {
      if (mine === turn) answer.removeAttribute("aria-busy");
    }
  }

  answer.addEventListener("click", (event) => {
    const button = event.target.closest("[data-adopt]");
    if (!button) return;
    form.elements.value.value = button.dataset.adopt;
    form.elements.value.focus();
    sent = {};
    ask();
  });
  form.addEventListener("submit", keepTyped);
  form.addEventListener("input", () => { sent = {}; clearTimeout(timer); timer = setTimeout(ask, 300); });
  bringBack();
  ask();
});
