async function run() {
  const text = (id) => document.getElementById(id).textContent;
  const changed = () =>
    [...document.querySelectorAll("[data-panel=d] td.changed")].map((cell) => [Number(cell.dataset.row), Number(cell.dataset.column)]);
  const values = () => [...document.querySelectorAll("[data-panel=d] td[data-value]")].map((cell) => Number(cell.dataset.value));
  const shot = () => ({
    hash: location.hash,
    at: atText(view.at),
    words: [...view.result.words],
    changed: changed(),
    values: values(),
    legality: text("legality"),
    changes: text("changes"),
    info: text("info"),
    palette: document.getElementById("colours").textContent.slice(0, 40),
    selector: view.model.selector,
  });
  if (TEST === "restore") return shot();
  const steps = [shot()];
  const then = (action) => {
    action();
    steps.push(shot());
  };
  then(() => click(cellOf("e", 5, 6)));
  then(() => click(document.querySelector('[data-flip="9"]')));
  then(() => click(document.querySelector('[data-flip="9"]')));
  then(() => click(document.querySelector('[data-flip="8"]')));
  then(() => press("ArrowLeft"));
  then(() => click(document.querySelector('[data-field=selector][data-option="1"]')));
  then(() => set(document.querySelector("[data-word]"), "0x4444EEEE"));
  then(() => set(document.getElementById("palette"), "bw"));
  then(() => set(document.querySelector("[data-word]"), "zz"));
  const travel = async (go) => {
    const gone = new Promise((done) => addEventListener("popstate", done, { once: true }));
    go();
    await gone;
    await wait();
  };
  for (let i = 0; i < 4; i++) {
    await travel(() => history.back());
  }
  steps.push(shot());
  for (let i = 0; i < 4; i++) {
    await travel(() => history.forward());
  }
  steps.push(shot());
  then(() => click(document.querySelector("[data-action=random]")));
  then(() => click(document.querySelector("[data-action=reset]")));
  return steps;
}
