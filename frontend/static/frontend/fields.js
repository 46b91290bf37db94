// Fields that go with some values of a choice are hidden while the choice has another one. With data-send="shown" a form
// does not send them then.
addEventListener("DOMContentLoaded", () => {
  for (const form of document.querySelectorAll("form")) {
    const dependent = [...form.querySelectorAll("[data-goes-with]")];
    const show = () => {
      for (const field of dependent) {
        const values = field.dataset.values.split(" ");
        field.hidden = !values.includes(form.elements[field.dataset.goesWith].value);
        for (const input of field.querySelectorAll("input, select, textarea")) {
          input.disabled = field.hidden && form.dataset.send === "shown";
        }
      }
    };
    if (dependent.length) {
      form.addEventListener("change", show);
      show();
    }
  }
});
