"use strict";
// In words: what is chosen, where it is and why, with the numbers in the formulas; what is not defined; what has changed in D.

const code = (text) => `<code>${escaped(text)}</code>`;
const indexed = (name, ...at) => `${name.toUpperCase()}${at.map((i) => `[${i}]`).join("")}`;

/** Where an element is, with its copies: `T23 a2[15:0]`. */
function placesOf(model, name, row, column) {
  const operand = model.operands[name];
  return range(operand.copies).map((copy) => operand.nameOf(operand.place(row, column, copy))).join(", ");
}

/** `code 0b1000 of chunk 3: T21 e[15:12]`, and the rule that it breaks. */
function codeText(model, selection, row, chunk) {
  const value = selection.code(row, chunk);
  const rule = model.form.verdicts[value];
  const note = model.form.notes[value];
  const more = rule ? `, <b class="bad">${escaped(rule)}</b>` : "";
  return `code ${code(binary(value))} of chunk ${chunk}: ${code(placesOf(model, "e", row, chunk))}${more}${note ? ` (${escaped(note)})` : ""}`;
}

/** The lines of an element's formulas: `lane = column / 2 % 4 = 12 / 2 % 4 = 2`. */
function formulaLines(operand, element) {
  const lines = operand.formulas(element).map(([name, formula, numbers, value]) => {
    const steps = [formula, numbers, String(value)].filter((step, i, all) => i === 0 || step !== all[i - 1]);
    return `<div class="formula" data-formula="${name}">${escaped(`${name} = ${steps.join(" = ")}`)}</div>`;
  });
  return lines.join("");
}

/** The formula of a stored element's logical column, with the numbers. */
function logicalLine(model, selection, row, s) {
  const operand = model.operands.a;
  const ks = selection.columns(row, s);
  if (!operand.logical || ks.length > 1) return "";
  const value = selection.code(row, chunkOf(model, s));
  const numbers = substituted(operand.logical, { column: s, k: s, code: value });
  return `<div class="formula" data-formula="logical column">${escaped(`logical column = ${operand.logical} = ${numbers} = ${ks[0]}`)}</div>`;
}

const hasLayout = (model, name) => name in model.operands;

/** What a stored element is multiplied with and added to. */
function useOf(model, selection, row, s) {
  const ks = selection.columns(row, s);
  const last = model.view.columns - 1;
  const [first, end] = [model.columnOfB(row, 0), model.columnOfB(row, last)];
  if (ks.length > 1) {
    const [low, high] = model.sparsity.halves[selection.code(row, chunkOf(model, s))];
    const half = (i) => `the ${i % 2 ? "high" : "low"} half of B[${ks[i >> 1]}][n]`;
    return `it multiplies an operand whose high half is ${half(high)} and whose low half is ${half(low)}, and adds to D[${row}][0..${last}]`;
  }
  return `it multiplies B[${ks[0]}][${first}..${end}] and adds to D[${row}][0..${last}]`;
}

function storedText(model, selection, row, s) {
  const ks = selection.columns(row, s);
  const place = code(placesOf(model, "a", row, s));
  if (!model.sparsity) return `<b>A[${row}][${s}]</b> is ${place}; ${useOf(model, selection, row, s)}.`;
  const which = ks.length > 1 ? `neither column ${ks[0]} nor ${ks[1]} alone` : `logical column ${ks[0]}`;
  return `Stored column ${s} of row ${row} of A is <b>A[${row}][${ks.join("|")}]</b>, ${which}: ${place}; ${codeText(model, selection, row, chunkOf(model, s))}; ${useOf(model, selection, row, s)}.`;
}

const DESCRIBE = {
  a(model, result, { row, column }) {
    return storedText(model, result.selection, row, column) + formulaLines(model.operands.a, [row, column, 0]) + (model.sparsity ? logicalLine(model, result.selection, row, column) : "");
  },

  logical(model, result, { row, column }) {
    const { selection } = result;
    const held = model.holders(selection, row, column);
    const chunk = Math.floor(column / model.sparsity.chunk);
    if (!held.length) return `<b>A[${row}][${column}]</b> is pruned: no stored element is this column; ${codeText(model, selection, row, chunk)}.` + formulaLines(model.operands.e, [row, chunk, 0]);
    const texts = held.map((s) => {
      const what = selection.columns(row, s).length > 1 ? "takes part in" : "is";
      return `<b>A[${row}][${column}]</b> ${what} stored column ${s}: ${code(placesOf(model, "a", row, s))}; ${codeText(model, selection, row, chunk)}; ${useOf(model, selection, row, s)}.${formulaLines(model.operands.a, [row, s, 0])}${logicalLine(model, selection, row, s)}`;
    });
    return texts.join("<br>");
  },

  e(model, result, { row, column }) {
    const { stored: count } = model.sparsity;
    const { selection } = result;
    const held = range(count).map((i) => `stored column ${column * count + i} is ${selection.columns(row, column * count + i).join("|")}`);
    const operand = model.operands.e;
    const place = operand.place(row, column);
    const rule = DATA.rules[model.form.verdicts[selection.code(row, column)]];
    const why = rule ? `<div class="bad">${escaped(rule.rule)} (${escaped(rule.section)}). Shown is ${escaped(model.form.source)}.</div>` : "";
    return `Row ${row}, ${codeText(model, selection, row, column)}. Of columns ${column * model.sparsity.chunk} to ${(column + 1) * model.sparsity.chunk - 1}, ${held.join(", ")}.${why}${formulaLines(operand, [row, column, 0])}<div class="formula">bits ${place.high}:${place.low} = 4 * code + 3 : 4 * code</div>`;
  },

  b(model, result, { row, column }) {
    const block = model.view.blocks > 1 ? Math.floor(column / model.view.columns) : 0;
    const n = column - block * model.view.columns;
    const rows = range(model.view.rows).map((i) => i + block * model.view.rows).filter((r) => model.holders(result.selection, r, row).length);
    const who = !rows.length ? "no row of A selects it" : rows.length === model.view.rows ? `every row of A${model.view.blocks > 1 ? ` of product ${block}` : ""}` : `the rows of A that select column ${row}: ${rows.join(", ")}`;
    return `<b>B[${row}][${column}]</b> is ${code(placesOf(model, "b", row, column))}; ${rows.length ? `it is multiplied with ${who}, and adds to column ${n} of D` : who}.` + formulaLines(model.operands.b, [row, column, 0]);
  },

  d(model, result, at) {
    if (!model.multiplies) return moved(model, at);
    const { row, column } = at;
    const { selection } = result;
    const i = row * model.view.columns + column;
    const nb = model.columnOfB(row, column);
    const terms = range(model.stored).map((s) => {
      const ks = selection.columns(row, s);
      const a = `A[${row}][${ks.join("|")}] (${placesOf(model, "a", row, s)}`;
      const meta = model.sparsity ? `, ${binary(selection.code(row, chunkOf(model, s)))} in ${placesOf(model, "e", row, chunkOf(model, s))}` : "";
      const b = hasLayout(model, "b") ? ks.map((k) => ` ${placesOf(model, "b", k, nb)}`).join(",") : " shared memory";
      return `<li>${escaped(`${a}${meta})`)} &times; ${escaped(`B[${ks.join("|")}][${nb}] (${b.trim()})`)} = ${model.a(row, s)} ${model.bits ? model.form.operation.split(".")[0] : "&times;"} ${shown(model.factor(selection, row, s, nb))}</li>`;
    });
    const c = hasLayout(model, "c") ? `C[${row}][${column}] (${code(placesOf(model, "c", row, column))}) = ${model.c(row, column)}` : `the former value, ${model.c(row, column)},`;
    const factors = model.factors ? ` Scale factors, all 1 here: of row ${row} of A ${code(placesOf(model, "scale_a", row, 0))}, of column ${column} of B ${code(placesOf(model, "scale_b", column, 0))}${model.factors > 1 ? " and the bytes above" : ""}.` : "";
    const before = result.before[i] === result.d[i] ? "" : `, and was <b>${shown(result.before[i])}</b> with the metadata reset`;
    return `<b>D[${row}][${column}]</b> is ${code(placesOf(model, "d", row, column))}; with the numbers of this page it is <b>${shown(result.d[i])}</b>${before}: ${c} and ${model.stored} ${model.bits ? "bits" : "products"}.${factors}${formulaLines(model.operands.d, [row, column, 0])}<ol class="terms">${terms.join("")}</ol>`;
  },

  c(model, result, { row, column }) {
    return `<b>C[${row}][${column}]</b> is ${code(placesOf(model, "c", row, column))}; here ${model.c(row, column)}.` + formulaLines(model.operands.c, [row, column, 0]);
  },

  scale_a: (model, result, at) => scaleText(model, at, "scale_a", "row", "A"),
  scale_b: (model, result, at) => scaleText(model, at, "scale_b", "column", "B"),

  address(model, result, { row, column }) {
    return `The address in ${code(placesOf(model, "address", row, column))} names row ${column} of matrix ${row}: row ${8 * row + column} of the destination.` + formulaLines(model.operands.address, [row, column, 0]);
  },
};

function scaleText(model, { row, column }, name, line, matrix) {
  const width = model.view.k / model.factors;
  return `Scale factor ${column} of ${line} ${row} of ${matrix} is ${code(placesOf(model, name, row, column))}; it scales k = ${column * width} to ${(column + 1) * width - 1}.` + formulaLines(model.operands[name], [row, column, 0]);
}

/** An element of ldmatrix. */
function moved(model, { row, column }) {
  const [matrix, line] = [Math.floor(row / 8), row % 8];
  return `Row ${line} of matrix ${matrix}, column ${column}: ${code(placesOf(model, "d", row, column))}; the address of the row is that of ${code(placesOf(model, "address", matrix, line))}.` + formulaLines(model.operands.d, [row, column, 0]);
}

/** What a lane holds, word by word. */
function laneText(model, result, lane) {
  const lines = [];
  for (const [name, operand] of Object.entries(model.operands)) {
    if (lane >= operand.lanes) continue;
    const words = [];
    for (let word = 0; word < operand.words; word++) {
      const elements = range(operand.parts).map((part) => operand.element(lane, word, part)).filter(Boolean);
      const held = name === "e" ? codesText(result, elements) : elements.map(([row, column]) => heldText(model, result, name, row, column));
      if (held.length) words.push(`<span class="nobreak">${code(operand.wordName(word) || "address")} ${held.length > 4 ? `${held[0]} .. ${held[held.length - 1]}` : held.join(", ")}</span>`);
    }
    const shownWords = words.length > 24 ? [...words.slice(0, 12), "...", ...words.slice(-3)] : words;
    lines.push(`<div class="held"><b>${name}</b> ${words.length ? shownWords.join("; ") : "nothing"}</div>`);
  }
  const who = model.tmem ? `Lane ${lane} of Tensor Memory` : `Lane ${lane}`;
  return `<b>${who}</b> holds, lowest bits first:${lines.join("")}`;
}

/** The codes of one word, row by row: `row 5, chunks 0 to 3: 0100 1110 ...`. */
function codesText(result, elements) {
  return [...new Set(elements.map(([row]) => row))].map((row) => {
    const chunks = elements.filter((element) => element[0] === row).map((element) => element[1]);
    const codes = chunks.map((chunk) => result.selection.code(row, chunk).toString(2).padStart(4, "0"));
    return `row ${row}, chunks ${chunks[0]} to ${chunks[chunks.length - 1]}: ${codes.join(" ")}`;
  });
}

function heldText(model, result, name, row, column) {
  if (name === "a" && model.sparsity) return `A[${row}][${result.selection.columns(row, column).join("|")}]`;
  if (name === "address") return `matrix ${row} row ${column}`;
  if (name.startsWith("scale")) return `factor ${column} of ${name === "scale_a" ? "row" : "column"} ${row}`;
  return indexed(name, row, column);
}

/** The list of codes that are not defined, with rule, place, and what is shown in their stead. */
function findingsText(model, selection) {
  const { findings, differs } = selection;
  const copies = differs.length ? `<div class="bad">${DATA.rules["tmem-copies-differ"] ? escaped(DATA.rules["tmem-copies-differ"].rule) : "copies of the metadata differ"}: ${differs.slice(0, 8).map(([row, chunk]) => `row ${row} chunk ${chunk}`).join(", ")}</div>` : "";
  if (!findings.length) return `<span class="good">All ${model.rows * model.chunks} codes that selector ${model.selector} reads are defined.</span>${copies}`;
  const rules = [...new Set(findings.map((finding) => finding.rule))];
  const reasons = rules.map((name) => `<div><b>${escaped(name)}</b>: ${escaped(DATA.rules[name].rule)} (${escaped(DATA.rules[name].section)})</div>`).join("");
  const most = 40;
  const items = findings.slice(0, most).map(({ row, chunk, code: value, rule }) => `<li data-operand="e" data-row="${row}" data-column="${chunk}" data-rule="${rule}">row ${row}, chunk ${chunk}: ${binary(value)}, ${escaped(placesOf(model, "e", row, chunk))}, ${escaped(rule)}</li>`);
  const rest = findings.length > most ? `<li>and ${findings.length - most} more</li>` : "";
  return `<b class="bad">${findings.length} code${findings.length > 1 ? "s are" : " is"} not defined.</b> Shown is ${escaped(model.form.source)}.${reasons}<ul>${items.join("")}${rest}</ul>${copies}`;
}

/** The elements of D that differ from those of the reset metadata. */
function changesText(model, result) {
  const { columns } = model.view;
  const changed = [...result.d.keys()].filter((i) => result.d[i] !== result.before[i]);
  if (!changed.length) return "D is as with the metadata reset.";
  const rows = [...new Set(changed.map((i) => Math.floor(i / columns)))];
  const some = changed.slice(0, 12).map((i) => `<span class="nobreak">D[${Math.floor(i / columns)}][${i % columns}] ${shown(result.before[i])} &rarr; ${shown(result.d[i])}</span>`);
  return `<b>${changed.length} of ${result.d.length} elements of D change</b> (rows ${rows.length > 16 ? `${rows.slice(0, 16).join(", ")}, ...` : rows.join(", ")}): ${some.join("; ")}${changed.length > 12 ? "; ..." : ""}`;
}
