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
  const name = bold(nameOfA(selection, row, s));
  const found = [
    { title: "element", html: elementWords(model, name, row, s), lights: [a, ...logical] },
    { title: "lane", html: `${formulas[operand.lane]} ${laneWords(model, row, place, inLane.length)}`, lights: inLane },
  ];
  if (operand.reg) found.push({ title: operand.tmem ? "column" : "register", html: `${formulas[operand.reg]} ${wordWords(operand, place)}`, lights: inWord });
  found.push({ title: "bits", html: `${operand.parts > 1 ? formulas[operand.part] : ""} ${bitsWords(operand, place)}`, lights: [a, ...logical] });
  if (model.sparsity) found.push(codeStep(model, selection, row, s, place));
  const last = model.view.columns - 1;
  const rows = ks.flatMap((k) => range(last + 1).map((n) => ["b", k, model.columnOfB(row, n)]));
  found.push({ title: "row of B", html: rowWords(model, selection, name, row, s), lights: [a, ...logical, ...rows] });
  const sums = range(last + 1).flatMap((n) => [["d", row, n], ["c", row, n]]);
  found.push({ title: "D", html: sumWords(model, name, row), lights: [a, ...rows, ...sums] });
  return found;
}

function elementWords(model, name, row, s) {
  if (!model.sparsity) return `${name}: row ${row}, column ${s}.`;
  const { stored, chunk } = model.sparsity;
  return `${name} is column ${s} of row ${row} as A is stored, which of every ${chunk} columns has the ${stored > 1 ? `${stored} that are` : "one that is"} kept, without gaps. Which those are, the metadata says; but first: where is it?`;
}

/** Who else is in the row, and how much a lane holds: counted, whatever the form. */
function laneWords(model, row, place, held) {
  const { a } = model.operands;
  const lanes = new Set(range(a.columns).map((s) => a.place(row, s).lane)).size;
  const who = a.tmem ? ` of Tensor Memory` : ` of the warp, T<sub>${place.lane}</sub> in the figures of PTX,`;
  const share = lanes > 1 ? `${lanes} lanes share a row` : "a row is one lane's";
  return `Lane ${place.lane}${who} holds it. Lit is all that this lane holds of A: ${held} elements; ${share}.`;
}

function wordWords(operand, place) {
  if (operand.tmem) return `It is in column ${place.word} of Tensor Memory, counted from where A begins: ${code(operand.wordName(place.word))}.`;
  return `It is in ${code(operand.wordName(place.word))}, one of ${operand.words} registers of A in each lane (numbered from 0). Lit is what else is in it.`;
}

function bitsWords(operand, place) {
  const room = operand.parts > 1 ? `32 bits have room for ${operand.parts} elements of ${operand.bits} bits; the first is in the lowest bits. ` : "";
  return `${room}It is bits ${place.high}:${place.low}: ${code(operand.nameOf(place))}.`;
}

/** Why this row of B: what the multiplexer had to choose from. */
function rowWords(model, selection, name, row, s) {
  const ks = selection.columns(row, s);
  if (!model.sparsity) return `A sum runs over k: column ${ks[0]} of A meets row ${ks[0]} of B.`;
  const { chunk, stored } = model.sparsity;
  const c = chunkOf(model, s);
  const first = c * chunk;
  if (ks.length > 1) return `${name} multiplies what is joined of rows ${ks.join(" and ")} of B: 16 bits of each.`;
  const pruned = chunk - new Set(range(stored).flatMap((i) => selection.columns(row, c * stored + i))).size;
  return `${name} multiplies row ${ks[0]} of B. A multiplexer has rows ${first} to ${first + chunk - 1} before it, and the code says which it takes. So the ${pruned > 1 ? `${pruned} pruned columns of the chunk cost` : "pruned column of the chunk costs"} no multiplication.`;
}

function sumWords(model, name, row) {
  const last = model.view.columns - 1;
  const others = model.stored - 1;
  return `${name} takes part in ${last + 1} sums, one for each column of B: ${bold(`D[${row}][0..${last}]`)}. To each the other ${others} ${model.sparsity ? "stored " : ""}elements of row ${row} add theirs, and C the start: ${model.stored} products, not ${model.view.k}.`.replace(`, not ${model.stored}.`, ".");
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
function codeStep(model, selection, row, s, place) {
  const { chunk, stored, unit } = model.sparsity;
  const c = chunkOf(model, s);
  const value = selection.code(row, c);
  const at = s % stored;
  const ks = selection.columns(row, s);
  const first = c * chunk;
  const { e } = model.operands;
  const owner = e.place(row, c).lane;
  const where = `Columns ${first} to ${first + chunk - 1} are chunk ${c}; its code ${code(binary(value))} is in ${code(placesOf(model, "e", row, c))}${owner === place.lane ? "" : `: another lane than the element's, for metadata has places of its own${model.selectors.length > 1 ? `, and selector ${model.selector} says whose are read` : ""}`}.`;
  const i = Math.floor(at / unit);
  const index = (value >> (2 * i)) & 3;
  const bits = `Bits ${2 * i + 1}..${2 * i} of the code, ${index.toString(2).padStart(2, "0")}, are for stored`;
  const pair = `pair ${index} of its columns, ${first + index * unit} and ${first + index * unit + 1}`;
  let what = `${bits} element ${at} of the chunk: column ${index} of the four, which is column ${ks[0]}.`;
  if (ks.length > 1) what = `Its two indices join halves of columns ${ks.join(" and ")}.`;
  else if (stored === 1) what = `It says column ${ks[0] - first} of the chunk: column ${ks[0]}.`;
  else if (unit > 1) what = `${bits} pair ${i} of the chunk: ${pair}. So this element is column ${ks[0]}.`;
  const verdict = model.form.verdicts[value];
  const bad = verdict ? ` <span class="bad">PTX does not define this code (${escaped(verdict)})</span>; shown is ${escaped(model.form.source)}.` : "";
  return { title: "code", html: `${where} ${what}${bad}`, lights: [["e", row, c], ...range(chunk).map((k) => ["logical", row, first + k])] };
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
