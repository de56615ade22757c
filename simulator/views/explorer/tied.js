"use strict";
// What belongs together: everything that is tied to one element, or that one lane holds.

const WIDTH = 4096; // an element of a panel is row * WIDTH + column
const keyOf = (row, column) => row * WIDTH + column;

/** {panel: set of keys}; panels are the operands, and "logical": A as the instruction means it. */
function tied(model, selection, at) {
  const found = {};
  for (const name of [...Object.keys(model.operands), "logical"]) found[name] = new Set();
  if (!at) return found;
  const add = (name, row, column) => found[name] && found[name].add(keyOf(row, column));
  if (at.lane !== undefined) inLane(model, selection, at.lane, add);
  else if (model.multiplies) TIED[at.name](model, selection, at, add);
  else {
    const [matrix, row] = at.name === "d" ? [Math.floor(at.row / 8), at.row % 8] : [at.row, at.column];
    add("address", matrix, row);
    for (const column of at.name === "d" ? [at.column] : range(8)) add("d", 8 * matrix + row, column);
  }
  return found;
}

/** {panel: set of keys} of what one step of an explanation speaks of. */
function lightsOf(model, step) {
  const found = {};
  for (const name of [...Object.keys(model.operands), "logical"]) found[name] = new Set();
  for (const [name, row, column] of step.lights) if (found[name]) found[name].add(keyOf(row, column));
  return found;
}

const rowOfD = (model, row, add) => {
  for (let n = 0; n < model.view.columns; n++) for (const name of ["c", "d"]) add(name, row, n);
};
const chunkOf = (model, s) => Math.floor(s / model.sparsity.stored);
const sliceOf = (model, k) => Math.floor(k / (model.view.k / model.factors));

/** A stored element: its columns, its code, its scales. */
function stored(model, selection, row, s, add) {
  add("a", row, s);
  const ks = selection.columns(row, s);
  for (const k of ks) {
    add("logical", row, k);
    if (model.factors) add("scale_a", row, sliceOf(model, k));
  }
  if (model.sparsity) add("e", row, chunkOf(model, s));
  return ks;
}

/** Row k of B, of the product that the row of A belongs to. */
function rowOfB(model, row, k, add) {
  for (let n = 0; n < model.view.columns; n++) {
    add("b", k, model.columnOfB(row, n));
    if (model.factors) add("scale_b", n, sliceOf(model, k));
  }
}

function ofD(model, selection, at, add) {
  for (const name of ["c", "d"]) add(name, at.row, at.column);
  for (let s = 0; s < model.stored; s++)
    for (const k of stored(model, selection, at.row, s, add)) {
      add("b", k, model.columnOfB(at.row, at.column));
      if (model.factors) add("scale_b", at.column, sliceOf(model, k));
    }
}

function ofStored(model, selection, at, add) {
  for (const k of stored(model, selection, at.row, at.column, add)) rowOfB(model, at.row, k, add);
  rowOfD(model, at.row, add);
}

function ofLogical(model, selection, at, add) {
  const holders = model.holders(selection, at.row, at.column);
  for (const s of holders) ofStored(model, selection, { row: at.row, column: s }, add);
  add("logical", at.row, at.column);
  if (!holders.length) add("e", at.row, Math.floor(at.column / model.sparsity.chunk));
}

function ofB(model, selection, at, add) {
  add("b", at.row, at.column);
  const block = model.view.blocks > 1 ? Math.floor(at.column / model.view.columns) : 0;
  const n = at.column - block * model.view.columns;
  if (model.factors) add("scale_b", n, sliceOf(model, at.row));
  for (let row = block * model.view.rows; row < (block + 1) * model.view.rows; row++)
    for (const s of model.holders(selection, row, at.row)) {
      stored(model, selection, row, s, add);
      for (const name of ["c", "d"]) add(name, row, n);
    }
}

function ofCode(model, selection, at, add) {
  const { chunk, stored: count } = model.sparsity;
  for (const i of range(count)) ofStored(model, selection, { row: at.row, column: at.column * count + i }, add);
  for (const i of range(chunk)) add("logical", at.row, at.column * chunk + i);
  add("e", at.row, at.column);
}

function ofScaleA(model, selection, at, add) {
  for (let s = 0; s < model.stored; s++)
    if (selection.columns(at.row, s).some((k) => sliceOf(model, k) === at.column)) stored(model, selection, at.row, s, add);
  add("scale_a", at.row, at.column);
  rowOfD(model, at.row, add);
}

function ofScaleB(model, selection, at, add) {
  add("scale_b", at.row, at.column);
  for (let k = 0; k < model.view.k; k++) if (sliceOf(model, k) === at.column) add("b", k, at.row);
  for (let row = 0; row < model.rows; row++) for (const name of ["c", "d"]) add(name, row, at.row);
}

function inLane(model, selection, lane, add) {
  for (const [name, operand] of Object.entries(model.operands))
    for (let word = 0; word < operand.words; word++)
      for (let part = 0; part < operand.parts; part++) {
        const element = operand.element(lane, word, part);
        if (!element) continue;
        add(name, element[0], element[1]);
        if (name === "a" && model.sparsity) for (const k of selection.columns(element[0], element[1])) add("logical", element[0], k);
      }
}

const TIED = { d: ofD, c: ofD, a: ofStored, logical: ofLogical, b: ofB, e: ofCode, scale_a: ofScaleA, scale_b: ofScaleB };
