"use strict";
// The page: its state is the fragment of its address; everything else follows from it.

const view = { fields: {}, model: null, result: null, panels: [], at: null };
const DEFAULTS = { palette: DATA.palette, cells: "text", e: "default" };
const WINDOW = 16; // rows of a matrix of 128 that are shown at a time

/** The panels of a form: [area, panel]. */
function panelsOf(model) {
  const matrix = (name, title) => new MatrixPanel(name, title);
  const sparse = Boolean(model.sparsity);
  if (!model.multiplies)
    return [
      ["left", matrix("d", "Destination: row of all matrices x column")],
      ["right", matrix("address", "Whose address names which row")],
    ];
  const logical = sparse ? [["left", matrix("logical", "A: M x K, hatched: pruned; a number is the lane")]] : [];
  const scales = Object.keys(model.operands).filter((name) => name.startsWith("scale"));
  const scaleTitle = (name) => (name === "scale_a" ? "Scale factors of A: row x factor" : "Scale factors of B: column x factor");
  if (model.tmem) {
    const found = [...logical];
    if (sparse) found.push(["left", matrix("e", "Metadata: row x chunk")]);
    found.push(["right", new CanvasPanel("d", "D in Tensor Memory: lane x column (row,n; value)")]);
    if (sparse) found.push(["below", new TmemPanel("e", "Metadata in Tensor Memory: the pair of columns (row,chunk; code)")]);
    found.push(["below", new TmemPanel("a", `${sparse ? "Stored " : ""}A in Tensor Memory (row,${sparse ? "stored column" : "k"})`)]);
    for (const name of scales)
      found.push(["below", new TmemPanel(name, `${scaleTitle(name).split(":")[0]} in Tensor Memory (${name === "scale_a" ? "row" : "n"},factor)`)]);
    return found;
  }
  const stacked = model.view.blocks > 1 ? `, ${model.view.blocks} products stacked` : "";
  return [
    ["right", matrix("b", `B: K x N${stacked}`)],
    ...logical,
    ["left", matrix("a", sparse ? "A as stored: M x K/2" : `A: M x K${stacked}`)],
    ...(sparse ? [["right", matrix("e", "Metadata")]] : []),
    ["right", matrix("d", `D: M x N${stacked}`)],
    ["below", matrix("c", `C: M x N${stacked}`)],
    ...scales.map((name) => ["below", matrix(name, scaleTitle(name))]),
  ];
}

const LIGHT_FIELDS = new Set(["at", "step", "compare", "memory", "cta", "moment", "place", "zoom", "quiz", "tour"]); // which change no cell's text

/** Draws what a fragment says; only what differs from what is shown. */
function show(fields) {
  const form = DATA.forms.find((f) => f.opcode === fields.form) || DATA.forms.find((f) => f.opcode === DATA.first);
  const model = new Model(form, {
    m: +fields.m,
    n: +fields.n,
    base: +fields.base,
    selector: +fields.selector,
    scale_a: fields.scale_a,
    scale_b: fields.scale_b,
  });
  const [before, former] = [view.model, view.fields];
  const newForm = !before || before.form !== form;
  view.fields = { ...DEFAULTS, ...fields, form: form.opcode };
  if (!DATA.palettes[view.fields.palette]) view.fields.palette = DATA.palette;
  applyTheme();
  if (before && FIELDS.every((name) => LIGHT_FIELDS.has(name) || (view.fields[name] || "") === (former[name] || ""))) {
    view.at = atFrom(before, fields.at);
    keepingFocus(drawChoice);
    return;
  }
  view.model = model;
  view.at = atFrom(model, fields.at);
  view.result = model.result(model.sparsity ? wordsFrom(model, view.fields.e) : null);
  document.body.classList.toggle("small", small());
  document.body.classList.toggle("tmem", model.tmem);
  document.body.classList.toggle("loads", !model.multiplies);
  document.body.classList.toggle("long", model.view.k > 32);
  document.body.classList.toggle("wide", model.view.blocks > 1);
  document.body.classList.toggle("bw", view.fields.palette === "bw");
  $("palette").value = view.fields.palette;
  $("cells").checked = small();
  colourRules();
  if (newForm || model.view !== before.view) placePanels(model);
  if (newForm) markForm();
  keepingFocus(() => {
    drawAbout(model);
    drawLanes(model);
    drawOptions(model);
    drawPanels(newForm && !view.at);
    drawChoice();
  });
}

const pending = { panels: [], later: true }; // panels that are drawn when the others have been seen

/** Draws all panels; of a form that was just chosen those below the others a moment later. */
function drawPanels(fresh) {
  const { model, result } = view;
  pending.panels = fresh && pending.later ? view.panels.filter((panel) => $("below").contains(panel.element)) : [];
  for (const panel of view.panels) if (!pending.panels.includes(panel)) panel.render(model, result, model.tmem ? WINDOW : 0);
  if (pending.panels.length) requestAnimationFrame(() => setTimeout(drawPending));
}

/** Draws what was left for later: now, because something in it is to be seen. */
function drawPending() {
  if (!pending.panels.length) return;
  for (const panel of pending.panels.splice(0)) panel.render(view.model, view.result, view.model.tmem ? WINDOW : 0);
  tabStops();
}

function placePanels(model) {
  view.panels = [];
  for (const area of ["left", "right", "below"]) $(area).replaceChildren();
  for (const [area, panel] of panelsOf(model)) {
    view.panels.push(panel);
    $(area).append(panel.element);
  }
}

/** What is chosen: lights, words, ruler. */
function drawChoice() {
  const { model, result, at } = view;
  if (at || quizSeed() !== null) drawPending();
  const list = stepsOf(model, result, at);
  const step = askedStep() || list[currentStep(list)];
  const found = step ? lightsOf(model, step) : tied(model, result.selection, at);
  document.body.classList.toggle("choosing", Boolean(at));
  for (const panel of view.panels) {
    const mine = at && at.name === panel.name ? keyOf(at.row, at.column) : null;
    if (panel instanceof MatrixPanel && panel.shown < panel.total && at && found[panel.name].size) follow(panel, at, found[panel.name]);
    panel.light(found[panel.name], mine);
  }
  for (const button of $("lanes").querySelectorAll("button"))
    button.classList.toggle("lit", Boolean(at) && Number(button.dataset.chooseLane) === at.lane);
  $("info").innerHTML = step && step.title ? stepText(list) : !at ? helpText(model) : at.lane === undefined ? DESCRIBE[at.name](model, result, at) : laneText(model, result, at.lane);
  $("info").scrollTop = 0;
  drawSteps(list);
  drawQuiz();
  drawTour();
  drawCompare();
  drawMemory();
  if (model.sparsity) {
    drawRuler(model, result, rulerLane(model, at, found), found.e);
    $("legality").innerHTML = findingsText(model, result.selection);
    $("changes").innerHTML = changesText(model, result);
  } else $("metadata").hidden = true;
}

/** Turns a window of rows to the one that is chosen. */
function follow(panel, at, keys) {
  const rows = [...keys].map((key) => Math.floor(key / WIDTH));
  const row = at.name === panel.name ? at.row : Math.min(...rows);
  if (rows.some((r) => r >= panel.first && r < panel.first + panel.shown) && at.name !== panel.name) return;
  const first = Math.floor(row / panel.shown) * panel.shown;
  if (first === panel.first) return;
  panel.first = first;
  panel.render(view.model, view.result, WINDOW);
}

/** The step that is shown, in words. */
function stepText(list) {
  const now = currentStep(list);
  return `<b>${now + 1} of ${list.length}: ${list[now].title}.</b> ${list[now].html}`;
}

function helpText(model) {
  const flip = model.sparsity ? " Click a bit of the metadata to flip it: D shows what comes of it." : "";
  const who = model.tmem
    ? "A cell says which lane (L) and column of Tensor Memory hold it."
    : "<b>T20</b> is T<sub>20</sub> of the figures of PTX, where T<sub>i</sub> is lane i of the warp (thread i); <b>a1.hi</b> is bits 31 to 16 of its second register of A, <b>lo</b> bits 15 to 0.";
  const keys = "Tab goes from matrix to matrix, arrow keys inside one, Enter chooses, Escape clears; [ and ] go through the steps of <i>why</i>. The address of the page holds what you see.";
  const tour = '<p><button data-stop="0">take the tour</button> shows what is what in nine stops.</p>';
  return `${tourStop() === null ? tour : ""}<p>Click an element, a code or a lane: all that belongs to it lights up, and this box says where it is and why.${flip}</p><p>${who}</p><p>${keys}</p>`;
}

function typesText({ types: { d, a, b, c }, operation }) {
  return operation ? `${d} = popc(${a} ${operation.split(".")[0]} ${b}) + ${c}` : `${d} = ${a} \u00d7 ${b} + ${c}`;
}

/** The form, its types, its pattern, where it exists, and who says where its operands are. */
function drawAbout(model) {
  const { form, sparsity } = model;
  const { a } = form.types;
  const parts = [form.family === "ldmatrix" ? "8 x 8 matrices of 16-bit elements" : a ? typesText(form) : `.kind::${form.type}`];
  if (sparsity) {
    const codes = form.codes.map((value) => value.toString(2).padStart(4, "0")).join(" ");
    const pairs = sparsity.unit > 1 ? ", in pairs" : "";
    parts.push(`${form.sparsity}: ${sparsity.stored} of ${sparsity.chunk} columns are stored${pairs}, defined codes ${codes}`);
  }
  if (model.tmem) parts.push("A is shown in Tensor Memory (it may be in shared memory instead)", ...model.view.unknown);
  if (model.tmem && form.shape.endsWith("2")) parts.push("one of two CTAs is shown");
  const evidence = [...new Set(Object.values(model.operands).map((operand) => operand.evidence))].join("; ");
  const sentences = [parts.join("; "), `${form.targets}, PTX ${form.since}`, `Layout: ${evidence}; ${form.section}`, ...form.remarks];
  $("opcode").textContent = form.opcode;
  $("about").innerHTML = `<summary>about this form</summary><p>${escaped(sentences.join(". "))}.</p>`;
}

/** Changes fields, and the address with them: a step of the history, or not. */
function go(changes, replace = false) {
  const fields = { ...view.fields, ...changes };
  const written = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value === DEFAULTS[name] ? "" : value]));
  const text = writeFragment(written);
  if (text === location.hash) return;
  if (replace) history.replaceState(null, "", text);
  else {
    remember(location.hash);
    history.pushState(null, "", text);
  }
  show(readFragment(text));
}

function choose(at, replace = false) {
  pause();
  go({ at: atText(at), step: "" }, replace);
}

/** Another form: what was chosen of the former goes. */
const chooseForm = (opcode) => go({ form: opcode, m: "", n: "", base: "", selector: "", scale_a: "", scale_b: "", e: "default", at: "", step: "", quiz: "", tour: "" });

function clicked(event) {
  const target = event.target.closest("[data-flip],[data-all],[data-choose-lane],[data-option],[data-step],[data-answer],[data-stop],[data-save],[data-turn],[data-action],[data-operand]");
  if (!target) return;
  const { model, result } = view;
  const data = target.dataset;
  if (data.flip !== undefined) {
    const i = Number(data.index);
    go({ e: withWord(model, view.fields.e, i, (result.words[i] ^ (1 << Number(data.flip))) >>> 0) });
  } else if (data.all !== undefined) go({ e: hex(result.words[Number(data.all)]) });
  else if (data.chooseLane !== undefined) choose(view.at && view.at.lane === Number(data.chooseLane) ? null : { lane: Number(data.chooseLane) });
  else if (data.option !== undefined) go({ [data.field]: data.option === "0" ? "" : data.option });
  else if (data.step !== undefined) {
    pause();
    toStep(Number(data.step));
  } else if (data.stop !== undefined) toStop(Number(data.stop));
  else if (data.answer !== undefined) answerQuiz(data.answer);
  else if (data.save !== undefined) savePanel(target.closest(".panel"));
  else if (data.turn !== undefined) {
    const panel = view.panels.find((p) => p.element === target.closest(".panel"));
    panel.turn(Number(data.turn));
    panel.render(model, result, WINDOW);
    panel.light(tied(model, result.selection, view.at)[panel.name], null);
  } else if (data.action) ACTIONS[data.action](target);
  else choose({ name: data.operand, row: Number(data.row), column: Number(data.column) });
}

const ACTIONS = {
  undo: () => undo(),
  redo: () => redo(),
  next: () => stepBy(1),
  back: () => stepBy(-1),
  play: () => play(),
  quiz: () => toggleQuiz(),
  ask: () => ask(),
  compare: () => go({ compare: comparing() ? "" : "on" }),
  memory: () => go(runShown() ? CLOSED : { memory: DATA.runs[0].name }),
  earlier: () => toChange(-1),
  later: () => toChange(1),
  svg: () => saveView("svg"),
  png: () => saveView("png"),
  print: () => window.print(),
  random: () => go({ e: `random:${Math.floor(Math.random() * 1e6)}` }),
  reset: () => go({ e: "default" }),
  link: (button) => {
    const done = () => (button.textContent = "copied");
    if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(done, () => prompt("The link", location.href));
    else prompt("The link", location.href);
    setTimeout(() => (button.textContent = "copy link"), 1500);
  },
  clear: () => {
    for (const name of FILTERS) $(name).value = "";
    $("find").value = "";
    drawPicker();
  },
};

function changed(event) {
  const { target } = event;
  if (target.dataset.word !== undefined && /^(0x)?[0-9a-fA-F]{1,8}$/.test(target.value.trim())) {
    go({ e: withWord(view.model, view.fields.e, Number(target.dataset.word), parseInt(target.value.trim().replace(/^0x/, ""), 16)) });
  } else if (target.dataset.word !== undefined) target.value = hex(view.result.words[Number(target.dataset.word)]);
  else if (target.dataset.field) go({ [target.dataset.field]: target.value });
  else if (target.id === "run") go({ ...CLOSED, memory: target.value });
  else if (target.id === "theme") go({ theme: target.value });
  else if (target.id === "palette") go({ palette: target.value });
  else if (target.id === "cells") go({ cells: target.checked ? "small" : "text" });
  else if (target.id === "forms" && target.value) chooseForm(target.value);
  else if (FILTERS.includes(target.id)) picked();
}

/** A filter has changed: with one form left, that form. */
function picked() {
  drawPicker();
  const forms = matching();
  if (forms.length === 1 && forms[0] !== view.model.form) chooseForm(forms[0].opcode);
}

/** Keys without a grid: those of the steps, undo, Escape; arrows move what is chosen. */
const KEYS = { "[": () => stepBy(-1), "]": () => stepBy(1), p: () => play() };

function pressed(event) {
  if (event.target.matches("input, select, textarea")) {
    if (event.target.id === "find" && event.key === "Enter" && matching().length) chooseForm(matching()[0].opcode);
    return;
  }
  if ((event.ctrlKey || event.metaKey) && /^[zy]$/i.test(event.key)) {
    event.preventDefault();
    return event.key.toLowerCase() === "y" || event.shiftKey ? redo() : undo();
  }
  if (event.key === "Escape") return choose(null);
  if (event.ctrlKey || event.metaKey || event.altKey || moveInGrid(event)) return;
  if (KEYS[event.key]) return KEYS[event.key]();
  const { at } = view;
  const step = MOVES[event.key];
  if (!at || !step || event.target !== document.body || !/^Arrow/.test(event.key)) return;
  event.preventDefault();
  const next = at.lane !== undefined ? { lane: at.lane + step[0] + step[1] } : { name: at.name, row: at.row + step[0], column: at.column + step[1] };
  if (atFrom(view.model, atText(next))) choose(next, true);
}

function start() {
  $("palette").innerHTML = Object.keys(DATA.palettes)
    .map((name) => `<option>${name}</option>`)
    .join("");
  document.addEventListener("click", clicked);
  document.addEventListener("change", changed);
  document.addEventListener("keydown", pressed);
  document.addEventListener("focusin", (event) => takeTabStop(event.target));
  systemDark.addEventListener("change", () => show(readFragment(location.hash)));
  roomy.addEventListener("change", () => {
    view.model = null; // so that all is drawn anew
    show(readFragment(location.hash));
  });
  const bar = document.querySelector("nav");
  new ResizeObserver(() => $("side").style.setProperty("--bar-height", `${bar.offsetHeight}px`)).observe(bar);
  markSteps();
  $("find").addEventListener("input", drawPicker);
  startMemory();
  window.addEventListener("popstate", () => show(readFragment(location.hash)));
  window.addEventListener("hashchange", () => show(readFragment(location.hash)));
  const redraw = () => view.panels.filter((panel) => panel instanceof CanvasPanel).forEach((panel) => panel.draw());
  window.addEventListener("resize", redraw);
  for (const [name, on] of [["beforeprint", true], ["afterprint", false]])
    window.addEventListener(name, () => {
      drawPending();
      paper.on = on;
      redraw();
    });
  show(readFragment(location.hash));
}

start();
