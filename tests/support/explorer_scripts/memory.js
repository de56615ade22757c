/** The panel of Tensor Memory: opened by its button, moved by slider, buttons and keys, and asked for cells at each change. */
async function run() {
  DATA.runs.push(...TEST.runs);
  const panel = document.getElementById("memory");
  const said = () => document.getElementById("cell-held").textContent;
  const map = () => document.getElementById("cells-held");
  const key = (element, name) => element.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const closed = panel.hidden;
  document.querySelector("[data-action=memory]").click();
  const opened = [panel.hidden, location.hash];
  const shown = [];
  for (const [name, cta, cells] of TEST.ask) {
    show(readFragment(`#memory=${name}&cta=${cta}&moment=0`));
    for (let change = 0; ; change++) {
      const run = runShown();
      const boxes = [...map().querySelectorAll(".held:not(.allocated)")];
      const words = cells.map(([lane, column]) => {
        const box = map().getBoundingClientRect();
        const inside = (from, size, at, count) => Math.ceil(from + (at * size) / count + 0.01); // events have whole pixels
        const [clientX, clientY] = [inside(box.left + 1, map().clientWidth, column, COLUMNS), inside(box.top + 1, map().clientHeight, lane, LANES)];
        map().dispatchEvent(new MouseEvent("mousemove", { clientX, clientY, bubbles: true }));
        return said();
      });
      const rows = [...panel.querySelectorAll(".facts tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
      shown.push([name, cta, run.moments[run.changes[change]][0], words, rows, boxes.length, document.getElementById("moment-text").textContent]);
      if (document.querySelector("[data-action=later]").disabled) break;
      if (change % 2) document.querySelector("[data-action=later]").click();
      else {
        const slider = document.getElementById("moment");
        slider.value = String(change + 1);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
      }
    }
  }
  show(readFragment("#memory=digits/mxf4nvf4_tcgen05&moment=29&zoom=6"));
  map().focus();
  const walked = [];
  for (const name of ["ArrowDown", "ArrowRight", "PageDown", "End", "ArrowRight", "Home"]) {
    key(map(), name);
    walked.push([view.fields.place, document.activeElement === map(), said()]);
  }
  const zoomed = [...map().querySelectorAll(".held:not(.allocated)")].map((box) => [box.textContent, box.style.left, box.style.width]);
  const link = location.hash;
  const bars = [...panel.querySelectorAll("#times > span")].map((name) => name.textContent);
  const wide = document.scrollingElement.scrollWidth - innerWidth;
  document.querySelector("[data-action=memory]").click();
  return { closed, opened, shown, walked, zoomed, link, bars, wide, after: [panel.hidden, panel.childElementCount, location.hash] };
}
