"use strict";
// In words: what is chosen, where it is and why, with the numbers in the formulas.

const code = (text) => `<code>${escaped(text)}</code>`;
const bold = (text) => `<b>${escaped(text)}</b>`;
const formulaLine = (name, text) => `<div class="formula" data-formula="${name}">${escaped(`${name} = ${text}`)}</div>`;

/** Where an element is, with its copies: `T23 a2[15:0]`. */
function placesOf(model, name, row, column) {
  const operand = model.operands[name];
  return range(operand.copies)
    .map((copy) => operand.nameOf(operand.place(row, column, copy)))
    .join(", ");
}

/** `code 0b1000 of chunk 3: T21 e[15:12]`, and the rule that it breaks. */
function codeText(model, selection, row, chunk) {
  const value = selection.code(row, chunk);
  const rule = model.form.verdicts[value];
  const note = model.form.notes[value];
  const where = `code ${code(binary(value))} of chunk ${chunk}: ${code(placesOf(model, "e", row, chunk))}`;
  return where + (rule ? `, <b class="bad">${escaped(rule)}</b>` : "") + (note ? ` (${escaped(note)})` : "");
}

/** What each of the 16 codes does: selects, or is not defined and does on a chip what was measured or is assumed there. */
function codesTable(model, now) {
  const { chunk, columns, joined, halves } = model.sparsity;
  const half = (i) => `${i % 2 ? "hi" : "lo"} of ${i >> 1}`;
  const lines = range(16).map((value) => {
    const picks = joined[value] ? `joins ${half(halves[value][1])}, ${half(halves[value][0])}` : `columns ${columns[value].join(", ")}`;
    const verdict = model.form.verdicts[value];
    return `<tr${value === now ? ' class="now"' : ""}><td>${value.toString(2).padStart(4, "0")}</td><td>${picks}</td><td${verdict ? ' class="bad"' : ""}>${escaped(verdict || "defined")}</td></tr>`;
  });
  const head = `<tr><th scope="col">code</th><th scope="col">of the ${chunk}</th><th scope="col">PTX</th></tr>`;
  const source = model.form.source ? `<div>Codes that PTX does not define: ${escaped(model.form.source)}.</div>` : "";
  return `<details><summary>all 16 codes</summary><table class="codes">${head}${lines.join("")}</table>${source}</details>`;
}

/** The lines of an element's formulas: `lane = column / 2 % 4 = 12 / 2 % 4 = 2`. */
function formulaLines(model, name, row, column) {
  const lines = model.operands[name].formulas([row, column, 0]).map(([place, formula, numbers, value]) => {
    const steps = [formula, numbers, String(value)].filter((step, i, all) => i === 0 || step !== all[i - 1]);
    return formulaLine(place, steps.join(" = "));
  });
  return lines.join("");
}

/** The formula of a stored element's logical column, with the numbers. */
function logicalLine(model, selection, row, s) {
  const { logical } = model.operands.a;
  const ks = selection.columns(row, s);
  if (!logical || ks.length > 1) return "";
  const numbers = { column: s, k: s, code: selection.code(row, chunkOf(model, s)) };
  return formulaLine("logical column", `${logical} = ${substituted(logical, numbers)} = ${ks[0]}`);
}

/** What a stored element is multiplied with and added to. */
function useOf(model, selection, row, s) {
  const ks = selection.columns(row, s);
  const last = model.view.columns - 1;
  const into = `adds to D[${row}][0..${last}]`;
  if (ks.length === 1) return `it multiplies B[${ks[0]}][${model.columnOfB(row, 0)}..${model.columnOfB(row, last)}] and ${into}`;
  const [low, high] = model.sparsity.halves[selection.code(row, chunkOf(model, s))];
  const half = (i) => `the ${i % 2 ? "high" : "low"} half of B[${ks[i >> 1]}][n]`;
  return `it multiplies an operand whose high half is ${half(high)} and whose low half is ${half(low)}, and ${into}`;
}

/** Row, column of the logical matrix, of a stored element: `A[5][12]`; of joined halves `A[5][12|13]`. */
const nameOfA = (selection, row, s) => `A[${row}][${selection.columns(row, s).join("|")}]`;

const DESCRIBE = {
  a(model, { selection }, { row, column }) {
    const place = code(placesOf(model, "a", row, column));
    const lines = formulaLines(model, "a", row, column);
    const use = useOf(model, selection, row, column);
    if (!model.sparsity) return `${bold(`A[${row}][${column}]`)} is ${place}; ${use}.${lines}`;
    const ks = selection.columns(row, column);
    const which = ks.length > 1 ? `neither column ${ks[0]} nor ${ks[1]} alone` : `logical column ${ks[0]}`;
    const what = `Stored column ${column} of row ${row} of A is ${bold(nameOfA(selection, row, column))}, ${which}: ${place}`;
    const why = codeText(model, selection, row, chunkOf(model, column));
    return `${what}; ${why}; ${use}.${lines}${logicalLine(model, selection, row, column)}`;
  },

  logical(model, { selection }, { row, column }) {
    const held = model.holders(selection, row, column);
    const chunk = Math.floor(column / model.sparsity.chunk);
    const [name, why] = [bold(`A[${row}][${column}]`), codeText(model, selection, row, chunk)];
    if (!held.length) return `${name} is pruned: no stored element is this column; ${why}.${formulaLines(model, "e", row, chunk)}`;
    const texts = held.map((s) => {
      const what = selection.columns(row, s).length > 1 ? "takes part in" : "is";
      const where = `${name} ${what} stored column ${s}: ${code(placesOf(model, "a", row, s))}`;
      return `${where}; ${why}; ${useOf(model, selection, row, s)}.${formulaLines(model, "a", row, s)}${logicalLine(model, selection, row, s)}`;
    });
    return texts.join("<br>");
  },

  e(model, { selection }, { row, column }) {
    const { stored, chunk } = model.sparsity;
    const held = range(stored).map((i) => `stored column ${column * stored + i} is ${selection.columns(row, column * stored + i).join("|")}`);
    const place = model.operands.e.place(row, column);
    const rule = DATA.rules[model.form.verdicts[selection.code(row, column)]];
    const broken = rule ? `<div class="bad">${escaped(ruleText(rule))}. Shown is ${escaped(model.form.source)}.</div>` : "";
    const text = `Row ${row}, ${codeText(model, selection, row, column)}.`;
    const columns = ` Of columns ${column * chunk} to ${(column + 1) * chunk - 1}, ${held.join(", ")}.`;
    const bits = formulaLine("bits", `4 * code + 3 : 4 * code = ${place.high}:${place.low}`);
    return text + columns + broken + formulaLines(model, "e", row, column) + bits + codesTable(model, selection.code(row, column));
  },

  b(model, { selection }, { row, column }) {
    const { blocks, rows: count, columns } = model.view;
    const block = blocks > 1 ? Math.floor(column / columns) : 0;
    const rows = range(count)
      .map((i) => i + block * count)
      .filter((r) => model.holders(selection, r, row).length);
    const all = `every row of A${blocks > 1 ? ` of product ${block}` : ""}`;
    const who = rows.length === count ? all : `the rows of A that select column ${row}: ${rows.join(", ")}`;
    const use = rows.length ? `it is multiplied with ${who}, and adds to column ${column - block * columns} of D` : "no row of A selects it";
    return `${bold(`B[${row}][${column}]`)} is ${code(placesOf(model, "b", row, column))}; ${use}.${formulaLines(model, "b", row, column)}`;
  },

  d(model, result, { row, column }) {
    if (!model.multiplies) return loaded(model, row, column);
    const i = row * model.view.columns + column;
    const value = bold(shown(result.d[i]));
    const before = result.before[i] === result.d[i] ? "" : `, and was ${bold(shown(result.before[i]))} with the metadata reset`;
    const named = model.operands.c ? `C[${row}][${column}] (${code(placesOf(model, "c", row, column))})` : "the former value of D";
    const count = `${model.stored} ${model.bits ? "bits" : "products"}`;
    const sum = `with the numbers of this page it is ${value}${before}: ${named} = ${model.c(row, column)} and ${count}.`;
    const terms = range(model.stored).map((s) => `<li>${escaped(termText(model, result.selection, row, column, s))}</li>`);
    const where = `${bold(`D[${row}][${column}]`)} is ${code(placesOf(model, "d", row, column))}`;
    return `${where}; ${sum}${factorsText(model, row, column)}${formulaLines(model, "d", row, column)}<ol class="terms">${terms.join("")}</ol>`;
  },

  c(model, result, { row, column }) {
    const name = bold(`C[${row}][${column}]`);
    return `${name} is ${code(placesOf(model, "c", row, column))}; here ${model.c(row, column)}.${formulaLines(model, "c", row, column)}`;
  },

  scale_a: (model, result, at) => scaleText(model, at, "scale_a", `row ${at.row} of A`),
  scale_b: (model, result, at) => scaleText(model, at, "scale_b", `column ${at.row} of B`),

  address(model, result, { row, column }) {
    const where = code(placesOf(model, "address", row, column));
    const what = `names row ${column} of matrix ${row}: row ${8 * row + column} of the destination`;
    return `The address in ${where} ${what}.${formulaLines(model, "address", row, column)}`;
  },
};

/** One product of D: which elements, where they are, and which code says so. */
function termText(model, selection, row, column, s) {
  const ks = selection.columns(row, s);
  const n = model.columnOfB(row, column);
  const chunk = model.sparsity ? chunkOf(model, s) : 0;
  const why = model.sparsity ? `, ${binary(selection.code(row, chunk))} in ${placesOf(model, "e", row, chunk)}` : "";
  const where = model.operands.b ? ks.map((k) => placesOf(model, "b", k, n)).join(", ") : "shared memory";
  const sign = model.bits ? model.form.operation.split(".")[0] : "\u00d7";
  const a = `${nameOfA(selection, row, s)} (${placesOf(model, "a", row, s)}${why})`;
  const b = `B[${ks.join("|")}][${n}] (${where})`;
  return `${a} ${sign} ${b} = ${model.a(row, s)} ${sign} ${shown(model.factor(selection, row, s, n))}`;
}

/** Where the scale factors of an element of D are. */
function factorsText(model, row, column) {
  if (!model.factors) return "";
  const a = placesOf(model, "scale_a", row, 0);
  const b = model.operands.scale_b ? placesOf(model, "scale_b", column, 0) : "unknown";
  const more = model.factors > 1 ? " and the bytes above" : "";
  return ` Scale factors, all 1 here: of row ${row} of A ${code(a)}, of column ${column} of B ${code(b)}${more}.`;
}

function scaleText(model, { row, column }, name, whose) {
  const width = model.view.k / model.factors;
  const what = `it scales k = ${column * width} to ${(column + 1) * width - 1}`;
  return `Scale factor ${column} of ${whose} is ${code(placesOf(model, name, row, column))}; ${what}.${formulaLines(model, name, row, column)}`;
}

/** An element of ldmatrix. */
function loaded(model, row, column) {
  const [matrix, line] = [Math.floor(row / 8), row % 8];
  const where = `Row ${line} of matrix ${matrix}, column ${column}: ${code(placesOf(model, "d", row, column))}`;
  return `${where}; the address of the row is that of ${code(placesOf(model, "address", matrix, line))}.${formulaLines(model, "d", row, column)}`;
}

/** What a lane holds, word by word. */
function laneText(model, result, lane) {
  const lines = Object.entries(model.operands).map(([name, operand]) => {
    const words =
      lane < operand.lanes
        ? range(operand.words)
            .map((word) => wordText(result, name, operand, lane, word))
            .filter(Boolean)
        : [];
    const some = words.length > 24 ? [...words.slice(0, 12), "...", ...words.slice(-3)] : words;
    return `<div class="held"><b>${name}</b> ${some.join("; ") || "nothing"}</div>`;
  });
  return `<b>Lane ${lane}${model.tmem ? " of Tensor Memory" : ""}</b> holds, lowest bits first:${lines.join("")}`;
}

/** What one word of a lane holds; empty if nothing. */
function wordText(result, name, operand, lane, word) {
  const elements = range(operand.parts)
    .map((part) => operand.element(lane, word, part))
    .filter(Boolean);
  if (!elements.length) return "";
  const held = name === "e" ? codesText(result, elements) : elements.map(([row, column]) => heldText(result, name, row, column));
  const some = held.length > 4 ? `${held[0]} .. ${held[held.length - 1]}` : held.join(", ");
  return `<span class="nobreak">${code(operand.wordName(word) || "address")} ${some}</span>`;
}

/** The codes of one word, row by row: `row 5, chunks 0 to 3: 0100 1110 ...`. */
function codesText(result, elements) {
  return [...new Set(elements.map(([row]) => row))].map((row) => {
    const chunks = elements.filter((element) => element[0] === row).map((element) => element[1]);
    const codes = chunks.map((chunk) => result.selection.code(row, chunk).toString(2).padStart(4, "0"));
    return `row ${row}, chunks ${chunks[0]} to ${chunks[chunks.length - 1]}: ${codes.join(" ")}`;
  });
}

function heldText(result, name, row, column) {
  if (name === "a") return nameOfA(result.selection, row, column);
  if (name === "address") return `matrix ${row} row ${column}`;
  if (name.startsWith("scale")) return `factor ${column} of ${name === "scale_a" ? "row" : "column"} ${row}`;
  return `${name.toUpperCase()}[${row}][${column}]`;
}
