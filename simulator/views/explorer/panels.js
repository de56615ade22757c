"use strict";
// Panels that are tables: matrices (row x column, as CuTe draws them) and Tensor Memory (lanes x columns).
// Each cell says in data-* what it is and where.

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const binary = (code) => `0b${code.toString(2).padStart(4, "0")}`;

/** data-* of an element in its place. */
function attributes(operand, name, row, column, place, copy = 0) {
  const what = `data-operand="${name}" data-row="${row}" data-column="${column}"`;
  const where = `data-lane="${place.lane}" data-reg="${place.word}" data-bits="${place.high}:${place.low}"`;
  return `${what} ${where}${operand.copies > 1 ? ` data-copy="${copy}"` : ""}`;
}

/** The class that gives a lane its colour. */
const laneClass = (operand, lane) => (operand.tmem ? "m" : "l") + lane;

/** Lane and register in two lines, or in one where there is room. */
function whoAndWhat(operand, place) {
  const oneLine = operand.name !== "a" && operand.columns <= 8 && operand.bits >= 16;
  return `${operand.letter}${place.lane}${oneLine ? " " : "<br>"}${operand.short(place)}`;
}

/** Width in pixels of the longest line of a cell. */
const widthOf = (html) =>
  Math.max(
    ...html
      .replace(/&rarr;/g, "-")
      .split("<br>")
      .map((line) => 4.4 + 4.3 * line.replace(/<[^>]*>/g, "").length + 0.6 * line.includes("<b>") * line.length),
  );

/** What stands in the cell of an element: [classes, data-*, HTML]. */
const CELLS = {
  plain(model, result, operand, row, column) {
    const place = operand.place(row, column);
    return [laneClass(operand, place.lane), attributes(operand, operand.name, row, column, place), whoAndWhat(operand, place)];
  },
  a(model, result, operand, row, column) {
    const [classes, data, html] = CELLS.plain(model, result, operand, row, column);
    if (!model.sparsity) return [classes, data, html];
    const ks = result.selection.columns(row, column);
    return [classes, data, `${html}<br><i>k${ks.length > 1 ? `${ks[0]}|${ks[1]}` : ks[0]}</i>`];
  },
  logical(model, result, operand, row, k) {
    const holders = model.holders(result.selection, row, k);
    if (!holders.length) return ["pruned", `data-operand="logical" data-row="${row}" data-column="${k}"`, ""];
    const place = operand.place(row, holders[0]);
    const joined = result.selection.columns(row, holders[0]).length > 1;
    const data = `${attributes(operand, "logical", row, k, place)} data-stored="${holders.join(" ")}"`;
    const more = holders.length > 1 ? `<br>+${second(operand, place, operand.place(row, holders[1]))}` : joined ? "<br>halves" : "";
    return [laneClass(operand, place.lane) + (joined ? " joined" : ""), data, whoAndWhat(operand, place) + more];
  },
  e(model, result, operand, row, chunk) {
    const place = operand.place(row, chunk);
    const code = result.selection.code(row, chunk);
    const bad = model.form.verdicts[code] ? " bad" : "";
    const html = `<b>${bad ? "! " : ""}${binary(code)}</b><br>${operand.letter}${place.lane}<br>${operand.short(place)}`;
    return [laneClass(operand, place.lane) + bad, `${attributes(operand, "e", row, chunk, place)} data-code="${code}"`, html];
  },
  d(model, result, operand, row, column) {
    const [classes, data, html] = CELLS.plain(model, result, operand, row, column);
    const i = row * model.view.columns + column;
    const [before, after] = [result.before[i], result.d[i]];
    if (!model.multiplies) return [classes, data, html];
    if (before === after) return [classes, `${data} data-value="${after}"`, `${html}<br><b>${shown(after)}</b>`];
    return [`${classes} changed`, `${data} data-value="${after}"`, `${html}<br><b>${shown(before)}&rarr;${shown(after)}</b>`];
  },
};

/** A second stored element of the same column: only what differs from the first. */
function second(operand, place, other) {
  const text = operand.short(other);
  return place.word === other.word ? text.slice(operand.short(place).search(/[.[]/)) : text;
}

const shown = (value) => (Number.isInteger(value) ? String(value) : value.toPrecision(5).replace(/\.?0+$/, ""));

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
    let wide = 14;
    const html = [`<table class="cells"><thead><tr><th class="corner" title="${axes[0]} down, ${axes[1]} across"></th>`];
    for (let column = 0; column < this.columns; column++) html.push(`<th${column % step ? "" : ' class="cut"'}>${column}</th>`);
    html.push("</tr></thead><tbody>");
    for (let row = this.first; row < this.first + this.shown; row++) {
      html.push(`<tr><th>${row}</th>`);
      for (let column = 0; column < this.columns; column++) {
        const [classes, data, text] = cell(model, result, this.operand, row, column);
        wide = Math.max(wide, Math.min(90, widthOf(text)));
        html.push(`<td class="${classes}${column % step ? "" : " cut"}" ${data}>${text}</td>`);
      }
      html.push("</tr>");
    }
    html.push("</tbody></table>");
    const more = this.shown < this.total ? `, rows ${this.first} to ${this.first + this.shown - 1} of ${this.total}` : "";
    const turn = more ? '<button data-turn="-1" title="rows before">&uarr;</button><button data-turn="1" title="rows after">&darr;</button>' : "";
    this.element.innerHTML =
      heading(this, more, turn) + `<div class="scroll" style="--wide:${Math.ceil(wide)}px;--columns:${this.columns}">${html.join("")}</div>`;
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
    const html = ['<table class="cells"><thead><tr><th class="corner">lane</th>'];
    for (let word = 0; word < operand.words; word++) html.push(`<th class="cut" colspan="${operand.parts}"><span>column </span>${word}</th>`);
    html.push('</tr><tr><th class="corner part"></th>');
    const bits = (part) => `${operand.bits * (part + 1) - 1}:${operand.bits * part}`;
    for (let i = 0; i < operand.words * operand.parts; i++)
      html.push(`<th class="part${i % operand.parts ? "" : " cut"}">${bits(i % operand.parts)}</th>`);
    html.push("</tr></thead><tbody>");
    for (let lane = 0; lane < operand.lanes; lane++) {
      html.push(`<tr class="${lane % 32 ? "" : "quarter"}${lane % 16 ? "" : " half"}"><th>L${lane}</th>`);
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
      text += `<br><b>${code.toString(2).padStart(4, "0")}</b>`;
      more = ` data-code="${code}"`;
      if (model.form.verdicts[code]) classes += " bad";
    }
    return `<td class="${classes}" ${attributes(operand, this.name, row, column, place, copy)}${more}>${text}</td>`;
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
  const save = '<button data-save="svg" title="this panel as a picture">SVG</button>';
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
  const edge = 40; // of the headings, which stay in place
  if (inner.left < outer.left + edge || inner.right > outer.right) box.scrollLeft += inner.left - outer.left - box.clientWidth / 2;
  if (inner.top < outer.top + edge || inner.bottom > outer.bottom) box.scrollTop += inner.top - outer.top - box.clientHeight / 2;
}
