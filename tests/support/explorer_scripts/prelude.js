const TEST = JSON.parse(document.getElementById("test").textContent);
async function report(value) {
  await fetch(location.pathname, { method: "POST", body: JSON.stringify({ value, errors: ERRORS }) });
  window.parent.postMessage("done", "*");
}
pending.later = false; // scripts look at all panels at once
const wait = () => new Promise((done) => setTimeout(done, 30));
const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
function set(element, value) {
  element.value = value;
  element.dispatchEvent(new Event("change", { bubbles: true }));
}
function showForm(opcode) {
  document.getElementById("find").value = "";
  document.querySelector("[data-action=clear]").click();
  set(document.getElementById("forms"), opcode);
}
const panelOf = (name) => document.querySelector(`[data-panel="${name}"]`);
const cellOf = (name, row, column) => panelOf(name).querySelector(`td[data-row="${row}"][data-column="${column}"]`);
const numbersOf = (cell) => ["row", "column", "lane", "reg"].map((key) => Number(cell.dataset[key]));
const bytes = (array) => {
  let text = "";
  for (let i = 0; i < array.length; i += 8192) text += String.fromCharCode(...array.subarray(i, i + 8192));
  return btoa(text);
};
