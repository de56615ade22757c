// Shows a lesson's cells with their recorded outputs, and has the worker run those that the reader runs.
const cells = document.getElementById("cells");
const lessons = document.getElementById("lessons");
const status = document.getElementById("status");
const runAll = document.getElementById("all");
const stop = document.getElementById("stop");
let worker = null;
let ready = false;
let waiting = []; // cells that are to run, the first of them running
let generation = 0; // of the worker: answers of one that was stopped are not taken

function say(text) {
  status.textContent = text;
}

function element(name, content = {}, ...children) {
  const made = Object.assign(document.createElement(name), content);
  made.append(...children);
  return made;
}

function startWorker() {
  const mine = ++generation;
  if (worker) worker.terminate();
  ready = false;
  worker = new Worker("worker.js");
  worker.onerror = (event) => say(`the simulator cannot be loaded: ${event.message || "no worker"}`);
  worker.onmessage = ({ data }) => {
    if (mine !== generation) return;
    if (data.kind === "progress") say(data.text);
    if (data.kind === "failed") say(`the simulator cannot be loaded: ${data.text}`);
    if (data.kind === "ready") {
      ready = true;
      runAll.disabled = false;
      say("ready: Run, or Shift+Enter in a cell");
      next();
    }
    if (data.kind === "outputs") finished(data.outputs, data.seconds);
  };
}

function next() {
  stop.disabled = waiting.length === 0;
  if (!ready || waiting.length === 0) return;
  const cell = waiting[0];
  cell.box.classList.add("running");
  say(`running cell ${cell.number}`);
  worker.postMessage({ kind: "run", source: cell.text.value });
}

function finished(outputs, seconds) {
  const cell = waiting.shift();
  cell.box.classList.remove("running");
  cell.box.dataset.state = "done";
  show(cell, outputs, `computed here, ${seconds.toFixed(1)} s`);
  const failed = outputs.some((output) => output.kind === "error");
  if (failed) waiting = [];
  say(failed ? `cell ${cell.number} ended with an error` : `cell ${cell.number} done`);
  next();
}

function show(cell, outputs, from) {
  const shown = outputs.map((output) => (output.kind === "recorded" ? recordedPicture(cell) : picture(output)));
  const from_line = element("p", { className: "from", textContent: from });
  cell.outputs.replaceChildren(...(shown.flat().length ? [from_line] : []), ...shown.flat());
}

function picture({ kind, data }) {
  if (kind === "svg" || kind === "png") {
    const source = kind === "png" ? `data:image/png;base64,${data}` : URL.createObjectURL(new Blob([data], { type: "image/svg+xml" }));
    return element("img", { src: source, alt: "picture of this cell" });
  }
  if (kind === "html") return element("div", { innerHTML: data });
  return element("pre", { textContent: data, className: kind, tabIndex: 0 });
}

function recordedPicture(cell) {
  const pictures = cell.recorded.filter((output) => output.kind === "png");
  if (pictures.length === 0) return [];
  const note = element("p", { className: "from", textContent: "the recorded picture: matplotlib is not part of this page" });
  return [note, ...pictures.map(picture)];
}

function codeCell(number, { source, folded, outputs }, without) {
  const text = element("textarea", { value: source, rows: source.split("\n").length, spellcheck: false });
  text.setAttribute("aria-label", `code of cell ${number}`);
  text.readOnly = Boolean(without);
  const button = element("button", { textContent: "Run", disabled: Boolean(without) });
  button.setAttribute("aria-label", `run cell ${number}`);
  const out = element("div", { className: "outputs" });
  const code = folded ? element("details", {}, element("summary", { textContent: "code of this cell" }), text) : text;
  const box = element("section", { className: "cell" }, element("div", {}, code, button), out);
  const cell = { number, text, box, outputs: out, recorded: outputs };
  button.onclick = () => run(cell);
  text.onkeydown = (event) => {
    if (event.key === "Enter" && event.shiftKey && !without) {
      event.preventDefault();
      run(cell);
    }
  };
  show(cell, outputs, "recorded when the lessons were built");
  return cell;
}

function run(...chosen) {
  const idle = waiting.length === 0;
  waiting.push(...chosen.filter((cell) => !waiting.includes(cell)));
  if (idle) next();
}

async function open({ file, without }) {
  const response = await fetch(`lessons/${file}`);
  if (!response.ok) throw new Error(`${file} is not there`);
  let number = 0;
  const found = (await response.json()).map((cell) => (cell.kind === "text" ? element("div", { innerHTML: cell.html }) : codeCell(++number, cell, without)));
  cells.replaceChildren(...found.map((cell) => cell.box || cell));
  const code = found.filter((cell) => cell.box);
  runAll.onclick = () => run(...code);
  waiting = [];
  location.hash = file.split("_")[0];
  runAll.disabled = true;
  stop.disabled = true;
  if (without) {
    generation++;
    if (worker) worker.terminate();
    worker = null;
    say(`this lesson needs ${without}, which is not part of this page: what is shown was recorded`);
    return;
  }
  startWorker(); // a lesson begins with names of its own
}

stop.onclick = () => {
  waiting.forEach((cell) => cell.box.classList.remove("running"));
  waiting = [];
  stop.disabled = true;
  say("stopped; the simulator starts again, names of earlier cells are gone");
  startWorker();
};

function chosen() {
  const wanted = location.hash.slice(1);
  return [...lessons.options].find((option) => option.value.startsWith(`${wanted}_`)) || lessons.options[0];
}

async function begin() {
  if (location.protocol === "file:") throw new Error("a browser runs this page from a server: python -m http.server in this folder");
  const list = await (await fetch("lessons/index.json")).json();
  lessons.replaceChildren(...list.map((one) => element("option", { value: one.file, textContent: `${one.number}. ${one.title} (${one.minutes} minutes)` })));
  const openChosen = () => open(list[lessons.selectedIndex]);
  lessons.onchange = () => openChosen().catch((error) => say(error.message));
  window.onhashchange = () => {
    if (chosen().value === lessons.value) return;
    lessons.value = chosen().value;
    lessons.onchange();
  };
  lessons.value = chosen().value;
  await openChosen();
}

begin().catch((error) => say(error.message));
