"use strict";
// Grids by keyboard: each table, canvas, row of lanes and word of bits is one tab stop; arrows, Home and End move inside it, Enter chooses.

const MOVES = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [0, -Infinity],
  End: [0, Infinity],
  PageUp: [-8, 0],
  PageDown: [8, 0],
};

/** The rows of cells of a grid that can be reached. */
function rowsOf(grid) {
  if (grid.matches("table.ruler")) return [[...grid.querySelectorAll("button")]];
  if (grid.matches("table")) return [...grid.tBodies[0].rows].map((row) => [...row.querySelectorAll("td[data-operand]")]);
  const lanes = [...grid.querySelectorAll("button")];
  const width = view.model.tmem ? 32 : lanes.length;
  return range(Math.ceil(lanes.length / width)).map((i) => lanes.slice(i * width, (i + 1) * width));
}

const gridOf = (element) => (element.closest ? element.closest("table.cells, table.ruler, #lanes") : null);

/** Makes one cell of every grid the one that Tab reaches: what was, what is chosen, or the first. */
function tabStops() {
  for (const grid of document.querySelectorAll("table.cells, table.ruler, #lanes")) {
    if (grid.querySelector('[tabindex="0"]')) continue;
    const cell = grid.querySelector(".chosen, button.lit") || grid.querySelector("td[data-operand], button");
    if (cell) cell.tabIndex = 0;
  }
}

/** Gives the tab stop of its grid to a cell. */
function takeTabStop(cell) {
  const grid = gridOf(cell);
  if (!grid || cell.tabIndex === 0) return;
  for (const other of grid.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
  cell.tabIndex = 0;
}

/** A name for the cell that has the focus, by which it is found again after the page has been drawn anew. */
function focusName() {
  const cell = document.activeElement;
  if (!cell || !gridOf(cell)) return "";
  const { operand, row, column, copy, flip, index, chooseLane } = cell.dataset;
  if (flip !== undefined) return `#ruler [data-flip="${flip}"][data-index="${index}"]`;
  if (chooseLane !== undefined) return `#lanes [data-choose-lane="${chooseLane}"]`;
  const panel = cell.closest("[data-panel]");
  const which = copy === undefined ? "" : `[data-copy="${copy}"]`;
  return panel ? `[data-panel="${panel.dataset.panel}"] [data-operand="${operand}"][data-row="${row}"][data-column="${column}"]${which}` : "";
}

/** Draws, and puts the focus back where it was. */
function keepingFocus(draw) {
  const name = focusName();
  draw();
  tabStops();
  const cell = name && document.querySelector(name);
  if (cell && cell !== document.activeElement) focusCell(cell);
}

function focusCell(cell) {
  takeTabStop(cell);
  cell.focus({ preventScroll: true });
  const box = cell.closest(".scroll");
  if (box) into(box, cell);
  cell.scrollIntoView({ block: "nearest", inline: "nearest" });
}

/** Moves inside the grid of a cell; true if the key was one of a grid. */
function moveInGrid(event) {
  const cell = event.target;
  const grid = gridOf(cell);
  if (!grid || event.ctrlKey || event.metaKey || event.altKey) return false;
  if ((event.key === "Enter" || event.key === " ") && cell.matches("td")) {
    event.preventDefault();
    clicked({ target: cell });
    return true;
  }
  const move = MOVES[event.key];
  if (!move) return false;
  event.preventDefault();
  const rows = rowsOf(grid).filter((row) => row.length);
  const down = rows.findIndex((row) => row.includes(cell));
  if (down < 0) return true;
  const row = rows[limited(down + move[0], rows.length)];
  const next = row[limited(rows[down].indexOf(cell) + move[1], row.length)];
  if (next === cell) turnPage(cell, move[0]);
  else moveTo(next);
  return true;
}

const limited = (i, count) => Math.min(Math.max(0, i), count - 1);

/** The focus goes to a cell; what is chosen goes along if it is in the same grid. */
function moveTo(next) {
  focusCell(next);
  const { operand, row, column, chooseLane } = next.dataset;
  const { at } = view;
  if (!at || next.dataset.flip !== undefined) return;
  if (chooseLane !== undefined && at.lane !== undefined) choose({ lane: Number(chooseLane) }, true);
  else if (at.name === operand && operand !== undefined) choose({ name: operand, row: Number(row), column: Number(column) }, true);
}

/** At the edge of a matrix of which some rows are shown: the rows beyond it. */
function turnPage(cell, by) {
  const panel = view.panels.find((p) => p.element.contains(cell));
  if (!by || !panel || !panel.turn || panel.shown === panel.total) return;
  const [name, row, column] = [cell.dataset.operand, Number(cell.dataset.row) + Math.sign(by), cell.dataset.column];
  if (row < 0 || row >= panel.total) return;
  panel.turn(Math.sign(by));
  panel.render(view.model, view.result, WINDOW);
  panel.light(tied(view.model, view.result.selection, view.at)[panel.name], null);
  const next = panel.element.querySelector(`[data-operand="${name}"][data-row="${row}"][data-column="${column}"]`);
  if (next) moveTo(next);
  tabStops();
}

/** What a screen reader says of an element in its place. */
function spoken(operand, name, row, column, place) {
  const [what, down, across] = SPOKEN[name] || SPOKEN.d;
  const who = operand.tmem ? "Tensor Memory lane" : "lane";
  const word = operand.reg ? ` ${operand.tmem ? "column" : "register"} ${place.word}` : "";
  const bits = operand.bits < operand.word_bits ? ` bits ${place.high}:${place.low}` : "";
  return `${what} ${down} ${row} ${across} ${column}, ${who} ${place.lane}${word}${bits}`;
}

const SPOKEN = {
  a: ["A stored", "row", "column"],
  logical: ["A", "row", "column"],
  b: ["B", "row", "column"],
  c: ["C", "row", "column"],
  d: ["D", "row", "column"],
  e: ["metadata", "row", "chunk"],
  scale_a: ["scale of A", "row", "factor"],
  scale_b: ["scale of B", "column", "factor"],
  address: ["address", "matrix", "row"],
};
