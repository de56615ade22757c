async function run() {
  const found = {};
  for (const [opcode, fields] of TEST) {
    showForm(opcode);
    for (const [name, value] of Object.entries(fields)) set(document.querySelector(`[data-field=${name}]`), value);
    const cells = {};
    for (const panel of document.querySelectorAll(".panel")) {
      if (panel.querySelector("canvas")) {
        const canvas = view.panels.find((p) => p.element === panel);
        const list = [];
        for (const [lane, column] of [
          [0, 0],
          [17, 3],
          [53, 7],
          [127, 7],
          [63, 15],
        ]) {
          if (column >= canvas.operand.words || !canvas.operand.element(lane, column, 0)) continue;
          canvas.box.scrollLeft = 50 * column;
          canvas.box.scrollTop = 26 * lane;
          const [x, y] = canvas.point(lane, column);
          canvas.canvas.dispatchEvent(
            new MouseEvent("click", {
              bubbles: true,
              clientX: x + canvas.canvas.getBoundingClientRect().left,
              clientY: y + canvas.canvas.getBoundingClientRect().top,
            }),
          );
          list.push([view.at.row, view.at.column, lane, column, "31:0", "0"]);
        }
        cells[panel.dataset.panel] = list;
      } else
        cells[panel.dataset.panel] = [...panel.querySelectorAll("td[data-operand]")].map((cell) => [
          ...numbersOf(cell),
          cell.dataset.bits,
          cell.dataset.copy || "0",
        ]);
    }
    const { m, n, base, tmem, selector, ids } = view.model;
    found[opcode] = { m, n, base, tmem, selector, ids, cells, at: location.hash };
  }
  return found;
}
