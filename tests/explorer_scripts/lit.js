const lit = () =>
  Object.fromEntries(
    [...document.querySelectorAll(".panel")]
      .filter((p) => !p.querySelector("canvas"))
      .map((panel) => [
        panel.dataset.panel,
        [...panel.querySelectorAll("td.lit")].map((cell) => [Number(cell.dataset.row), Number(cell.dataset.column)]),
      ]),
  );
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
      steps[`${name}.${row}.${column}`] = { lit: lit(), hash: location.hash, info: document.getElementById("info").textContent };
    };
    step("d", 5, 3);
    step("a", 5, 1);
    step("b", 2, 6);
    if (panelOf("logical")) {
      step("logical", 5, 2);
      step("logical", 5, 3);
      step("e", 9, 1);
    }
    click(document.querySelector('[data-choose-lane="21"]'));
    steps["lane.21"] = { lit: lit(), hash: location.hash, info: document.getElementById("info").textContent };
    press("Escape");
    steps.none = { lit: lit(), hash: location.hash };
    found[opcode] = { words: view.result.words ? [...view.result.words] : [], steps };
  }
  return found;
}
