"use strict";
// Panels that are tables: matrices (row x column, as CuTe draws them) and Tensor Memory (lanes x columns).
// Each cell says in data-* what it is and where.

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const binary = (code) => `0b${code.toString(2).padStart(4, "0")}`;

/** data-* of an element in its place, and its name for those who hear or speak it: what stands in the cell, and where that is. */
function attributes(operand, name, row, column, place, text, more = "", copy = 0) {
  const what = `data-operand="${name}" data-row="${row}" data-column="${column}"`;
  const where = `data-lane="${place.lane}" data-reg="${place.word}" data-bits="${place.high}:${place.low}"`;
  const label = `${text.replace("\n", " ")}: ${spoken(operand, name, row, column, place)}${more && `, ${more}`}`;
  return `${what} ${where}${operand.copies > 1 ? ` data-copy="${copy}"` : ""} tabindex="-1" aria-label="${label}"`;
}

/** The class that gives a lane its colour. */
const laneClass = (operand, lane) => (operand.tmem ? "m" : "l") + lane;

const laneName = (operand, place) => `${operand.letter}${place.lane}`;

/** Room for all that a cell can say. The style sheet asks the same. */
const roomy = window.matchMedia("(min-width: 1600px) and (min-height: 900px)");

/** What stands in the cell of an element: [classes, data-*, text]. Text alone: a page of elements in elements is drawn at half the speed. */
const CELLS = {
  plain(model, result, operand, row, column, more = "", middle = " ") {
    const place = operand.place(row, column);
    const text = `${laneName(operand, place)}${middle}${operand.short(place)}`;
    return [laneClass(operand, place.lane), attributes(operand, operand.name, row, column, place, text, more), text];
  },
  a(model, result, operand, row, column) {
    const ks = model.sparsity ? result.selection.columns(row, column).join("|") : "";
    const middle = !roomy.matches ? "\n" : ks && ` k${ks}\n`; // two lines: in one the matrix would be wider than its half of a projector
    return CELLS.plain(model, result, operand, row, column, ks && `is column ${ks}`, middle || " ");
  },
  logical(model, result, operand, row, k) {
    const holders = model.holders(result.selection, row, k);
    if (!holders.length)
      return ["pruned", `data-operand="logical" data-row="${row}" data-column="${k}" tabindex="-1" aria-label="A row ${row} column ${k}, pruned"`, ""];
    const place = operand.place(row, holders[0]);
    const joined = result.selection.columns(row, holders[0]).length > 1;
    const text = String(place.lane);
    const data = `data-stored="${holders.join(" ")}" ${attributes(operand, "logical", row, k, place, text, `stored column ${holders.join(" and ")}`)}`;
    return [laneClass(operand, place.lane) + (joined ? " joined" : "") + (holders.length > 1 ? " twice" : ""), data, text];
  },
  e(model, result, operand, row, chunk) {
    const place = operand.place(row, chunk);
    const code = result.selection.code(row, chunk);
    const bad = model.form.verdicts[code] ? " bad" : "";
    const text = code.toString(2).padStart(4, "0") + (operand.tmem ? ` ${laneName(operand, place)} ${operand.short(place)}` : "");
    const data = `data-code="${code}" ${attributes(operand, "e", row, chunk, place, text, bad && "not defined")}`;
    return [laneClass(operand, place.lane) + bad, data, text];
  },
  d(model, result, operand, row, column) {
    if (!model.multiplies) return CELLS.plain(model, result, operand, row, column);
    const place = operand.place(row, column);
    const i = row * model.view.columns + column;
    const [before, after] = [result.before[i], result.d[i]];
    const text = (roomy.matches ? `${laneName(operand, place)}\n` : "") + shown(after); // its register: see the box of what is chosen
    const was = before === after ? "" : `, was ${shown(before)}`;
    const data = `data-value="${after}" ${attributes(operand, "d", row, column, place, text, `value ${shown(after)}${was}`)}`;
    return [laneClass(operand, place.lane) + (was && " changed"), data, text];
  },
};

const shown = (value) => (Number.isInteger(value) ? String(value) : value.toPrecision(5).replace(/\.?0+$/, ""));

/** Pixels that a cell needs for the widest of these lines, with borders and padding, of which there is none in `tight` panels, nor beside bold text. Measured, since fonts differ. */
function cellWidth(lines, tight, bold) {
  const style = getComputedStyle(document.documentElement);
  const widest = (weight) => {
    PEN.font = `${weight} ${style.getPropertyValue("--text")} ${style.getPropertyValue("--narrow")}`;
    return Math.max(...[...lines].map((line) => PEN.measureText(line).width));
  };
  return Math.ceil(2 * Math.max(widest(400) + (tight ? 1 : 4), bold ? widest(700) + 1 : 0)) / 2;
}
const PEN = document.createElement("canvas").getContext("2d");

/** A matrix: rows x columns, of which `window` rows may be shown at a time. */
class MatrixPanel {
  constructor(name, title) {
    Object.assign(this, { name, title, first: 0, shown: 0 });
    this.element = document.createElement("section");
    this.element.className = "panel matrix";
    this.element.dataset.panel = name;
  }

  get columns() {
    return this.name === "logical" ? this.model.view.k : this.operand.columns;
  }

  render(model, result, window = 0) {
    this.model = model;
    this.operand = model.operands[this.name === "logical" ? "a" : this.name];
    this.total = this.operand.rows;
    this.shown = window && window < this.total ? window : this.total;
    if (this.first >= this.total) this.first = 0;
    const step = this.boundary();
    const cell = CELLS[this.name] || CELLS.plain;
    const axes = this.name === "logical" ? ["row", "column"] : this.operand.axes;
    const lines = new Set([String(this.columns - 1)]);
    const label = `role="grid" aria-label="${escaped(this.title)}"`;
    const html = [`<table class="cells" ${label}><thead><tr><th class="corner" scope="col" title="${axes[0]} down, ${axes[1]} across">&#8600;</th>`];
    for (let column = 0; column < this.columns; column++) html.push(`<th scope="col"${column % step ? "" : ' class="cut"'}>${column}</th>`);
    html.push("</tr></thead><tbody>");
    for (let row = this.first; row < this.first + this.shown; row++) {
      html.push(`<tr><th scope="row">${row}</th>`);
      for (let column = 0; column < this.columns; column++) {
        const [classes, data, text] = cell(model, result, this.operand, row, column);
        html.push(`<td class="${classes}${column % step ? "" : " cut"}" ${data}>${text}</td>`);
        for (const line of text.split("\n")) lines.add(line);
      }
      html.push("</tr>");
    }
    html.push("</tbody></table>");
    const more = this.shown < this.total ? `, rows ${this.first} to ${this.first + this.shown - 1} of ${this.total}` : "";
    const turn = more ? '<button data-turn="-1" title="rows before" aria-label="rows before">&uarr;</button><button data-turn="1" title="rows after" aria-label="rows after">&darr;</button>' : "";
    this.element.innerHTML =
      heading(this, more, turn) + `<div class="scroll" style="--measured:${cellWidth(lines, this.name === "e" || this.name === "d", this.name !== "e")}px;--columns:${this.columns}">${html.join("")}</div>`;
    this.table = this.element.querySelector("table");
  }

  /** Every how many columns a line is drawn: chunks of A, slices of scale factors. */
  boundary() {
    const { sparsity } = this.model;
    if (this.name === "logical") return sparsity.chunk;
    if (this.name === "a" && sparsity) return sparsity.stored;
    return this.name === "b" && this.model.view.blocks > 1 ? this.model.view.columns : WIDTH;
  }

  cell(row, column) {
    const line = this.table.rows[row - this.first + 1];
    return row >= this.first && row < this.first + this.shown && line ? line.cells[column + 1] : null;
  }

  light(keys, chosen) {
    light(
      this,
      chosen,
      [...keys].map((key) => this.cell(Math.floor(key / WIDTH), key % WIDTH)),
    );
  }

  turn(by) {
    this.first = Math.min(Math.max(0, this.first + by * this.shown), this.total - this.shown);
  }
}

/** Tensor Memory: lanes x columns, each cut into the elements of a cell. */
class TmemPanel {
  constructor(name, title) {
    Object.assign(this, { name, title });
    this.element = document.createElement("section");
    this.element.className = "panel tmem";
    this.element.dataset.panel = `tmem-${name}`;
  }

  render(model, result) {
    this.model = model;
    const operand = (this.operand = model.operands[this.name]);
    const html = [`<table class="cells" role="grid" aria-label="${escaped(this.title)}"><thead><tr><th class="corner" scope="col">lane</th>`];
    for (let word = 0; word < operand.words; word++) html.push(`<th scope="colgroup" class="cut" colspan="${operand.parts}"><span>column </span>${word}</th>`);
    html.push('</tr><tr><td class="corner part"></td>');
    const bits = (part) => `${operand.bits * (part + 1) - 1}:${operand.bits * part}`;
    for (let i = 0; i < operand.words * operand.parts; i++)
      html.push(`<th scope="col" class="part${i % operand.parts ? "" : " cut"}">${bits(i % operand.parts)}</th>`);
    html.push("</tr></thead><tbody>");
    for (let lane = 0; lane < operand.lanes; lane++) {
      html.push(`<tr class="${lane % 32 ? "" : "quarter"}${lane % 16 ? "" : " half"}"><th scope="row">L${lane}</th>`);
      for (let word = 0; word < operand.words; word++)
        for (let part = 0; part < operand.parts; part++) {
          const cut = part ? "" : " cut";
          const element = operand.element(lane, word, part);
          if (!element) html.push(`<td class="none${cut}"></td>`);
          else html.push(this.held(model, result, lane, word, part, element, cut));
        }
      html.push("</tr>");
    }
    html.push("</tbody></table>");
    this.element.innerHTML = `${heading(this, copiesText(operand), "")}<div class="scroll">${html.join("")}</div>`;
    this.table = this.element.querySelector("table");
  }

  held(model, result, lane, word, part, [row, column, copy], cut) {
    const operand = this.operand;
    const low = part * operand.bits;
    const place = { lane, word, low, high: low + operand.bits - 1 };
    let [classes, text, more] = [laneClass(operand, lane) + cut, `${row},${column}`, ""];
    if (this.name === "e") {
      const code = result.selection.code(row, column);
      text += `\n${code.toString(2).padStart(4, "0")}`;
      more = `data-code="${code}" `;
      if (model.form.verdicts[code]) classes += " bad";
    }
    return `<td class="${classes}" ${more}${attributes(operand, this.name, row, column, place, text, "", copy)}>${text}</td>`;
  }

  light(keys, chosen) {
    const { operand } = this;
    const found = [];
    for (const key of keys)
      for (let copy = 0; copy < operand.copies; copy++) {
        const place = operand.place(Math.floor(key / WIDTH), key % WIDTH, copy);
        found.push(this.table.rows[place.lane + 2].cells[place.word * operand.parts + place.low / operand.bits + 1]);
      }
    light(this, chosen, found);
  }
}

const copiesText = (operand) => (operand.copies > 1 ? `, ${operand.copies} copies` : "");

/** Title, evidence, and what can be done with a panel. */
function heading(panel, more, turn) {
  const { operand } = panel;
  const evidence = `<small title="${escaped(`${operand.section}; ${operand.evidence}`)}">${escaped(operand.evidence.split(":")[0])}</small>`;
  const save = `<button data-save="svg" title="this panel as a picture" aria-label="SVG of the panel ${escaped(panel.title)}">SVG</button>`;
  return `<h2>${escaped(panel.title + more)} ${evidence}${turn}${save}</h2>`;
}

/** Lights cells up, and no others; brings the chosen one (or else the first) into sight. */
function light(panel, chosen, cells) {
  for (const cell of panel.element.querySelectorAll("td.lit")) cell.classList.remove("lit", "chosen");
  const found = cells.filter(Boolean);
  for (const cell of found) {
    cell.classList.add("lit");
    if (chosen !== null && keyOf(Number(cell.dataset.row), Number(cell.dataset.column)) === chosen) cell.classList.add("chosen");
  }
  const wanted = found.find((cell) => cell.classList.contains("chosen")) || found[0];
  if (wanted) into(panel.element.querySelector(".scroll"), wanted);
}

/** Scrolls a box, and nothing around it, until a cell can be seen. */
function into(box, cell) {
  const [outer, inner] = [box.getBoundingClientRect(), cell.getBoundingClientRect()];
  const edge = 24; // of the headings, which stay in place
  if (inner.left < outer.left + edge || inner.right > outer.right) box.scrollLeft += inner.left - outer.left - box.clientWidth / 2;
  if (inner.top < outer.top + edge || inner.bottom > outer.bottom) box.scrollTop += inner.top - outer.top - box.clientHeight / 2;
}
