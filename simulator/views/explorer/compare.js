"use strict";
// The same tile of A in the instructions of other generations: where does the chosen element lie in each? One choice drives all.

/** The forms that multiply the same tile: as many columns, the same element width and pattern. */
function relatives(model) {
  const bits = model.operands.a && model.operands.a.bits;
  if (!model.sparsity || !bits) return [];
  const type = model.form.types.a || model.form.type;
  const same = (form) => {
    if (form === model.form || form.sparsity !== model.form.sparsity) return false;
    const shown = form.views[form.views.length - 1];
    return shown.k === model.view.k && shown.operands.a && operandOf(shown.operands.a[""]).bits === bits;
  };
  const close = (form) => (sameType(form.types.a || form.type, type) ? 0 : 1);
  const order = (form) => 2 * close(form) + (form.opcode.includes("block_scale") ? 1 : 0);
  const seen = new Set();
  return [...DATA.forms, ...DATA.warpgroups]
    .filter((form) => CHIP[form.family] && form.sparsity && form.family !== model.form.family && same(form))
    .sort((x, y) => order(x) - order(y))
    .filter((form) => !seen.has(form.family) && seen.add(form.family))
    .sort((x, y) => GENERATIONS.indexOf(x.family) - GENERATIONS.indexOf(y.family));
}

/** Types as mma names them, and kinds as tcgen05 does: `f16` stands for bf16, `f8f6f4` for its formats, `i8` for both signs. */
const sameType = (x, y) => x === y || [x, y].every((name) => /^(bf16|f16)$/.test(name)) || [x, y].every((name) => /^(e\dm\d|f8f6f4)$/.test(name)) || [x, y].every((name) => /^([su]8|i8)$/.test(name));

const CHIP = { "mma.sp": "Ampere and later", "wgmma.sp": "Hopper", "tcgen05.mma.sp": "Blackwell" };
const GENERATIONS = Object.keys(CHIP);
const TILE = 16; // rows that a map shows

/** The same codes as the form that is shown, from row `first` on, in the words of another form; only what they select is needed. */
const translated = (model, selection, other, first) => other.select(other.filled((row, chunk) => selection.code((first + row) % model.rows, chunk)));

/** One form of the comparison in words and as a map of its stored A. */
function facts(model, selection, at, first) {
  const { form } = model;
  const a = model.operands.a;
  const title = `<h3>${escaped(form.family)} <small>${CHIP[form.family] || ""}</small></h3><code>${escaped(brief(form.opcode))}</code>`;
  if (!at) return `${title}<p>Choose an element of A.</p>`;
  const [row, s] = [at.row - first, at.s];
  const place = a.place(row, s);
  const who = model.group ? `warp ${Math.floor(place.lane / 32)}, lane ${place.lane % 32} (thread ${place.lane} of the warpgroup)` : a.tmem ? `lane ${place.lane} of Tensor Memory` : `lane ${place.lane}`;
  const e = model.operands.e.place(row, chunkOf(model, s));
  const which = first ? ` (row ${row} of this instruction, from row ${first} on)` : "";
  const list = [
    ["element", `A[${at.row}][${selection.columns(row, s).join("|")}]${which}`],
    ["lane", who],
    [a.tmem ? "column" : "register", a.wordName(place.word)],
    ["bits", `${place.high}:${place.low}`],
    ["code", `${binary(selection.code(row, chunkOf(model, s)))} in ${model.operands.e.nameOf(e)}`],
    ["row of B", selection.columns(row, s).join(" and ")],
    ["B itself", model.operands.b ? "in registers" : "in shared memory"],
    ["D", model.operands.d ? model.operands.d.nameOf(model.operands.d.place(row, 0)) : "in registers"],
    ["known", [...new Set([a, model.operands.e].map(({ evidence }) => evidence.split(":")[0]))].join(", metadata ")],
  ];
  return `${title}<dl>${list.map(([name, text]) => `<dt>${name}</dt><dd>${escaped(text)}</dd>`).join("")}</dl>`;
}

/** A map of stored A, the 16 rows around the choice, with the lanes; rows count as in the form that is shown. */
function mapOf(model, at, first, number) {
  const a = model.operands.a;
  const top = at ? TILE * Math.floor(at.row / TILE) : 0;
  const lines = range(Math.min(TILE, a.rows)).map((i) => {
    const row = top + i;
    const cells = range(a.columns).map((s) => {
      const place = a.place(row - first, s);
      const chosen = at && at.row === row && at.s === s;
      const data = `data-operand="a" data-row="${row}" data-column="${s}"`;
      return `<td class="l${place.lane % 32}${chosen ? " lit chosen" : ""}" ${data} tabindex="${(at ? chosen : !i && !s) ? 0 : -1}" aria-label="${place.lane}: ${spoken(a, "a", row, s, place)}">${place.lane}</td>`;
    });
    return `<tr><th scope="row">${row}</th>${cells.join("")}</tr>`;
  });
  const heads = range(a.columns).map((s) => `<th scope="col">${s}</th>`);
  const label = `stored A of ${model.form.family}: row by column`;
  return `<div class="scroll panel" data-panel="compare-${number}"><table class="cells" role="grid" aria-label="${label}"><thead><tr><th class="corner" scope="col">row</th>${heads.join("")}</tr></thead><tbody>${lines.join("")}</tbody></table></div>`;
}

const comparing = () => view.fields.compare === "on";

function drawCompare() {
  const box = $("compare");
  const { model, result } = view;
  document.querySelector("[data-action=compare]").classList.toggle("on", comparing());
  document.body.classList.toggle("comparing", comparing());
  box.hidden = !comparing();
  if (box.hidden) return;
  const others = relatives(model);
  if (!others.length) {
    box.innerHTML = "<p>No instruction of another generation multiplies the same tile as this form. Choose an mma.sp of f16, for example.</p>";
    return;
  }
  const at = exampleOf(model, result.selection, view.at);
  const models = [model, ...others.map((form) => new Model(form, { m: 128, n: 64 }))].sort((x, y) => GENERATIONS.indexOf(x.form.family) - GENERATIONS.indexOf(y.form.family));
  const cards = models.map((other, i) => {
    const first = at ? other.rows * Math.floor(at.row / other.rows) : 0;
    const selection = other === model ? result.selection : translated(model, result.selection, other, first);
    return `<article>${facts(other, selection, at, first)}${mapOf(other, at, first, i)}</article>`;
  });
  box.innerHTML = `<h2>The same tile of A, ${model.stored} stored of ${model.view.k} columns, in each instruction: choose an element in any (numbers: lanes)</h2><div class="cards">${cards.join("")}</div>`;
}
