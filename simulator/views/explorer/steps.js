"use strict";
// Why, in steps: element -> lane -> register -> bits -> code -> row of B -> D. Each step says one thing, and lights what it speaks of.

const why = { timer: 0 };
const PACE = 2200; // milliseconds a step

/** The stored element that a choice is explained by: {row, s}, or null where there is none. */
function exampleOf(model, selection, at) {
  if (!at || at.lane !== undefined || !model.multiplies || !model.operands.a) return null;
  const { name, row, column } = at;
  if (name === "a") return { row, s: column };
  if (name === "logical") {
    const [s] = model.holders(selection, row, column);
    return s === undefined ? null : { row, s };
  }
  if (name === "e") return { row, s: column * model.sparsity.stored };
  if (name === "d" || name === "c") return { row, s: 0 };
  if (name !== "b") return null;
  const block = model.view.blocks > 1 ? Math.floor(column / model.view.columns) : 0;
  for (let r = block * model.view.rows; r < (block + 1) * model.view.rows; r++) {
    const [s] = model.holders(selection, r, row);
    if (s !== undefined) return { row: r, s };
  }
  return null;
}

/** The steps of one stored element: [{title, html, lights: [[panel, row, column]]}]. */
function stepsOf(model, { selection }, at) {
  const example = exampleOf(model, selection, at);
  if (!example) return [];
  const { row, s } = example;
  const operand = model.operands.a;
  const place = operand.place(row, s);
  const ks = selection.columns(row, s);
  const a = ["a", row, s];
  const logical = model.sparsity ? ks.map((k) => ["logical", row, k]) : [];
  const formulas = Object.fromEntries(operand.formulas([row, s, 0]).map(([name, formula, numbers, value]) => [name, formulaText(name, formula, numbers, value)]));
  const inLane = heldBy(operand, place.lane, () => true);
  const inWord = heldBy(operand, place.lane, (word) => word === place.word);
  const found = [
    { title: "element", html: `${bold(nameOfA(selection, row, s))} is column ${s} of row ${row} as A is stored.`, lights: [a, ...logical] },
    {
      title: "lane",
      html: `${formulas[operand.lane]} It is lane ${place.lane}${operand.tmem ? " of Tensor Memory" : ` of the warp: T<sub>${place.lane}</sub> in the figures of PTX`}.`,
      lights: inLane,
    },
  ];
  if (operand.reg) found.push({ title: operand.tmem ? "column" : "register", html: `${formulas[operand.reg]} It is ${code(operand.wordName(place.word))}.`, lights: inWord });
  const bits = `${formulas[operand.part] || ""} It is bits ${place.high}:${place.low}: ${code(operand.nameOf(place))}.`;
  found.push({ title: "bits", html: bits, lights: [a, ...logical] });
  if (model.sparsity) found.push(codeStep(model, selection, row, s));
  const last = model.view.columns - 1;
  const rows = ks.flatMap((k) => range(last + 1).map((n) => ["b", k, model.columnOfB(row, n)]));
  found.push({ title: "row of B", html: `${bold(nameOfA(selection, row, s))} multiplies row ${ks.join(" and ")} of B.`, lights: [a, ...logical, ...rows] });
  const sums = range(last + 1).flatMap((n) => [["d", row, n], ["c", row, n]]);
  found.push({ title: "D", html: `The products are added to row ${row} of D: ${bold(`D[${row}][0..${last}]`)}.`, lights: [a, ...rows, ...sums] });
  return found;
}

const formulaText = (name, formula, numbers, value) =>
  `<span class="formula">${escaped([`${name} = ${formula}`, numbers, value].filter((part, i, all) => i === 0 || String(part) !== String(all[i - 1])).join(" = "))}</span>`;

/** What a lane holds of A, in the words that pass. */
const heldBy = (operand, lane, passes) =>
  range(operand.words)
    .filter(passes)
    .flatMap((word) => range(operand.parts).map((part) => operand.element(lane, word, part)))
    .filter(Boolean)
    .map(([row, column]) => ["a", row, column]);

/** The code of the chunk: who holds it, and what it selects. */
function codeStep(model, selection, row, s) {
  const { chunk, stored } = model.sparsity;
  const c = chunkOf(model, s);
  const value = selection.code(row, c);
  const at = s % stored;
  const ks = selection.columns(row, s);
  const what = ks.length > 1 ? `joins halves of columns ${ks.join(" and ")}` : `says column ${ks[0] - c * chunk} of the chunk (${c * chunk} to ${(c + 1) * chunk - 1}), which is column ${ks[0]}`;
  const verdict = model.form.verdicts[value];
  const bad = verdict ? ` PTX does not define this code (${escaped(verdict)}); shown is ${escaped(model.form.source)}.` : "";
  const html = `${codeText(model, selection, row, c)}. For stored element ${at} of its chunk it ${what}.${bad}`;
  return { title: "code", html, lights: [["e", row, c], ...range(chunk).map((i) => ["logical", row, c * chunk + i])] };
}

/** The number of the step that is shown, or -1. */
function currentStep(list) {
  const step = view.fields.step === undefined || view.fields.step === "" ? -1 : Number(view.fields.step);
  return Number.isInteger(step) && step < list.length ? step : -1;
}

/** Draws the bar of steps, and the step in words. */
function drawSteps(list) {
  $("steps").hidden = !list.length;
  if (!list.length) return pause();
  const now = currentStep(list);
  const buttons = list.map(({ title }, i) => `<li><button data-step="${i}"${i === now ? ' class="on" aria-current="step"' : ""}>${title}</button></li>`);
  const playing = why.timer ? "pause" : "play";
  const controls = `<button data-action="back" title="key [" aria-label="step back">&lsaquo;</button><button data-action="play" title="key p">${playing}</button><button data-action="next" title="key ]" aria-label="next step">&rsaquo;</button>`;
  $("steps").innerHTML = `<b>why</b> ${controls}<ol>${buttons.join("")}</ol>`;
}

const toStep = (i) => go({ step: i < 0 ? "" : String(i) }, true);

/** By one step; after the last one, and before the first, all is shown at once. */
function stepBy(by) {
  const list = stepsOf(view.model, view.result, view.at);
  if (!list.length) return;
  const next = currentStep(list) + by;
  toStep(next >= list.length || next < -1 ? -1 : next);
}

function pause() {
  clearInterval(why.timer);
  why.timer = 0;
}

/** Plays the steps from the first or from where they were left. Nothing moves by itself for those who ask their system for that: each press is one step. */
function play() {
  if (why.timer) {
    pause();
    return drawChoice();
  }
  if (calm.matches) return stepBy(1);
  why.timer = setInterval(() => {
    const list = stepsOf(view.model, view.result, view.at);
    if (currentStep(list) >= list.length - 1) {
      pause();
      drawChoice();
    } else stepBy(1);
  }, PACE);
  stepBy(1);
}
