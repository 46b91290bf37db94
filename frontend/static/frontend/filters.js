// After the back button a browser shows forms as they were left. A filter has to show what its page lists or draws.
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[method=get]")) form.reset();
});
