/** Text that leaves its cell, or lies over other text, in each form of TEST; and how many pieces of text were looked at. */
async function run() {
  const found = [];
  let count = 0;
  for (const [opcode, at] of TEST) {
    showForm(opcode);
    if (at) click(document.querySelector(at));
    await new Promise((done) => setTimeout(done, 60)); // the panels below are drawn a moment later
    for (const cell of document.querySelectorAll("#panels th, #panels td, .lane, #ruler td, #steps button")) {
      const box = boxOf(cell);
      if (!box) continue;
      count++;
      const outer = cell.getBoundingClientRect();
      const [across, down] = [Math.max(outer.left - box.left, box.right - outer.right), Math.max(outer.top - box.top, box.bottom - outer.bottom)];
      if (across > 0.5 || down > 2.5) found.push(`${opcode}: "${cell.textContent}" leaves its cell by ${across.toFixed(1)} and ${down.toFixed(1)} pixels`);
    }
    const lines = [...document.querySelectorAll("h1, #panels h2, #side :is(h2, p, li, summary, button), #ruler small, nav :is(b, button, summary, label)")]
      .map((element) => [element, boxOf(element)])
      .filter(([, box]) => box);
    count += lines.length;
    for (const [i, [element, box]] of lines.entries())
      for (const [other, its] of lines.slice(i + 1)) {
        if (element.contains(other) || other.contains(element)) continue;
        const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
        const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
        if (across > 1 && down > 3) found.push(`${opcode}: "${element.textContent.slice(0, 40)}" lies over "${other.textContent.slice(0, 40)}"`);
      }
  }
  return { found, count };
}

/** The box of the text of an element that can be seen; null if there is none. */
function boxOf(element) {
  if (!element.textContent.trim() || !element.checkVisibility() || parseFloat(getComputedStyle(element).fontSize) === 0) return null;
  const range = document.createRange();
  range.selectNodeContents(element);
  const box = range.getBoundingClientRect();
  return box.width > 0 && box.height > 0 ? box : null;
}
