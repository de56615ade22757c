const lit = () =>
  Object.fromEntries(
    [...document.querySelectorAll(".panel")]
      .filter((p) => !p.querySelector("canvas"))
      .map((panel) => [
        panel.dataset.panel,
        [...panel.querySelectorAll("td.lit")].map((cell) => [Number(cell.dataset.row), Number(cell.dataset.column)]),
      ]),
  );
const ruler = () => {
  const input = document.querySelector("[data-word]");
  const owners = [...document.querySelectorAll(".ruler tr:nth-child(2) td")].map((cell) => [cell.dataset.row, cell.dataset.column]);
  const bits = [...document.querySelectorAll("[data-flip]")].map((button) => button.textContent).join("");
  return input ? { lane: Number(input.dataset.word), word: input.value, bits, owners } : null;
};
const shot = () => ({ lit: lit(), hash: location.hash, info: document.getElementById("info").textContent, ruler: ruler() });

async function run() {
  const found = {};
  for (const [opcode, word] of TEST) {
    showForm(opcode);
    if (word) {
      set(document.querySelector("[data-word]"), word);
      click(document.querySelector("[data-all]"));
    }
    const steps = {};
    const step = (name, row, column) => {
      click(cellOf(name, row, column));
      steps[`${name}.${row}.${column}`] = shot();
    };
    step("d", 5, 3);
    step("a", 5, 1);
    step("b", 2, 6);
    if (view.model.view.blocks > 1) {
      step("d", 21, 3);
      step("a", 14, 1);
      step("b", 2, 27);
      step("c", 31, 7);
    }
    if (panelOf("logical")) {
      step("logical", 5, 2);
      step("logical", 5, 3);
      step("e", 9, 1);
    }
    click(document.querySelector('[data-choose-lane="21"]'));
    steps["lane.21"] = shot();
    press("Escape");
    steps.none = shot();
    found[opcode] = { words: view.result.words ? [...view.result.words] : [], steps };
  }
  return found;
}
