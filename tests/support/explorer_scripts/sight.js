/** What can be seen at once, and whether the explanation is in sight after a click on the last cell of each matrix. */
async function run() {
  const within = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight + 1 && box.right <= innerWidth + 1;
  };
  const whole = [...document.querySelectorAll("#left .panel, #right .panel, #info, #ruler")].map((e) => [e.dataset.panel || e.id, within(e)]);
  const seen = {};
  for (const panel of document.querySelectorAll("#panels .panel")) {
    const cell = [...panel.querySelectorAll("td[data-operand]")].pop();
    cell.scrollIntoView({ block: "end" });
    click(cell);
    const box = document.getElementById("info").getBoundingClientRect();
    seen[panel.dataset.panel] = box.top >= 0 && box.top < innerHeight - 60 && box.left >= 0 && box.right <= innerWidth + 1;
  }
  const page = document.scrollingElement;
  const sizes = [...document.querySelectorAll("#panels td")].map((cell) => parseFloat(getComputedStyle(cell).fontSize));
  return { whole, seen, wider: page.scrollWidth - innerWidth, smallest: Math.min(...sizes), faded: [...document.querySelectorAll("#panels td")].filter((cell) => getComputedStyle(cell).opacity !== "1").length };
}
