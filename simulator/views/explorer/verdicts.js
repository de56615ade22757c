"use strict";
// What metadata does: codes that are not defined, with rule and place, and the elements of D that change.

const ruleText = (rule) => `${rule.rule} (${rule.section})`;
const LISTED = 40; // findings
const NAMED = 12; // elements of D

/** The list of codes that are not defined, and what is shown in their stead. */
function findingsText(model, selection) {
  const { findings } = selection;
  const copies = differencesText(selection);
  const all = `All ${model.rows * model.chunks} codes that selector ${model.selector} reads are defined.`;
  if (!findings.length) return `<span class="good">${all}</span>${copies}`;
  const rules = [...new Set(findings.map((finding) => finding.rule))];
  const reasons = rules.map((name) => `<div><b>${escaped(name)}</b>: ${escaped(ruleText(DATA.rules[name]))}</div>`).join("");
  const items = findings.slice(0, LISTED).map(({ row, chunk, code: value, rule }) => {
    const text = `row ${row}, chunk ${chunk}: ${binary(value)}, ${placesOf(model, "e", row, chunk)}, ${rule}; ${effectText(model, row, chunk, value)}`;
    return `<li data-operand="e" data-row="${row}" data-column="${chunk}" data-rule="${rule}">${escaped(text)}</li>`;
  });
  if (findings.length > LISTED) items.push(`<li>and ${findings.length - LISTED} more</li>`);
  const count = `<b class="bad">${findings.length} code${findings.length > 1 ? "s are" : " is"} not defined.</b>`;
  return `${count} Shown is ${escaped(model.form.source)}.${reasons}<ul tabindex="0" aria-label="codes that are not defined">${items.join("")}</ul>${copies}`;
}

/** What an undefined code does: the columns that it picks, or the halves that it joins. */
function effectText(model, row, chunk, value) {
  const { chunk: width, columns, joined, halves } = model.sparsity;
  const first = chunk * width;
  const half = (i) => `${i % 2 ? "high" : "low"} half of ${first + (i >> 1)}`;
  if (joined[value]) return `joins ${half(halves[value][1])} and ${half(halves[value][0])}`;
  return `picks columns ${columns[value].map((column) => first + column).join(", ")}`;
}

/** Copies in Tensor Memory that should be the same. */
function differencesText({ differs }) {
  if (!differs.length) return "";
  const some = differs.slice(0, 8).map(([row, chunk]) => `row ${row} chunk ${chunk}`);
  return `<div class="bad">${escaped(ruleText(DATA.rules["tmem-copies-differ"]))}: ${some.join(", ")}${differs.length > 8 ? ", ..." : ""}</div>`;
}

/** The elements of D that differ from those of the reset metadata. */
function changesText(model, result) {
  const { columns } = model.view;
  const changed = [...result.d.keys()].filter((i) => result.d[i] !== result.before[i]);
  if (!changed.length) return "D is as with the metadata reset.";
  const rows = [...new Set(changed.map((i) => Math.floor(i / columns)))];
  const some = changed.slice(0, NAMED).map((i) => {
    const name = `D[${Math.floor(i / columns)}][${i % columns}]`;
    return `<span class="nobreak">${name} ${shown(result.before[i])} &rarr; ${shown(result.d[i])}</span>`;
  });
  const where = rows.length > 16 ? `${rows.slice(0, 16).join(", ")}, ...` : rows.join(", ");
  const count = `<b>${changed.length} of ${result.d.length} elements of D change</b> (row${rows.length > 1 ? "s" : ""} ${where})`;
  return `${count}: ${some.join("; ")}${changed.length > NAMED ? "; ..." : ""}`;
}
