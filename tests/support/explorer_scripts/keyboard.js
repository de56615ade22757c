const focused = () => document.activeElement;
const key = (name) => focused().dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const sees = (element) => {
  const box = element.getBoundingClientRect();
  return box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight + 1 && box.right <= innerWidth + 1;
};

/** Everything that Tab stops at. */
const stops = () =>
  [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")].filter(
    (e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility() && (!e.closest("details:not([open])") || e.matches("summary")),
  );

async function run() {
  const walks = {};
  const opened = stops().length;
  for (const panel of document.querySelectorAll("#panels .panel")) {
    const name = panel.dataset.panel;
    const inside = stops().filter((e) => panel.contains(e) && e.matches("td, canvas"));
    inside[0].focus();
    const from = focused().dataset.row;
    key("ArrowDown");
    key("ArrowRight");
    const moved = [focused().dataset.row, focused().dataset.column];
    key("End");
    const end = focused().dataset.column;
    key("Home");
    key("Enter");
    walks[name] = { stops: inside.length, from, moved, end, at: atText(view.at), same: focused().closest("[data-panel]") === panel, info: document.getElementById("info").textContent };
    key("Escape");
  }
  click(cellOf("e", 5, 3));
  const bits = stops().filter((e) => e.closest(".ruler"));
  bits[1].focus();
  key("ArrowRight");
  const bit = focused().dataset.flip;
  const before = [...view.result.words];
  focused().click();
  const flipped = view.result.words.map((word, i) => word ^ before[i]);
  const kept = focused().dataset.flip;
  const undoable = location.hash;
  document.querySelector("[data-action=undo]").click();
  const undone = [...view.result.words].every((word, i) => word === before[i]);
  document.querySelector("[data-action=redo]").click();
  const redone = location.hash === undoable;
  const lanes = stops().filter((e) => e.closest("#lanes"));
  lanes[0].focus();
  key("ArrowRight");
  focused().click();
  const labels = [...document.querySelectorAll("#panels td[data-lane]")].map((cell) => {
    const { operand, row, column, lane, reg, bits: range } = cell.dataset;
    return [operand, +row, +column, cell.getAttribute("aria-label"), +lane, +reg, range, cell.textContent];
  });
  return { opened, walks, bit, kept, flipped: [...flipped], undone, redone, lane: atText(view.at), lanes: lanes.length, bits: bits.length, labels };
}
