"use strict";
// Lanes to click on, the selector, the bits of one lane's metadata, and the picker of forms.

const $ = (id) => document.getElementById(id);
const small = () => view.fields.cells === "small";
const colourOf = (lane, tmem, dark = isDark()) => {
  const colours = DATA.palettes[view.fields.palette] || DATA.palettes[DATA.palette];
  const colour = colours[DATA.numbers[colours.length][tmem ? "tmem" : "warp"][lane]];
  return dark ? darkened(colour) : colour;
};

/** Rules that colour the lanes: `.l9` of a warp, `.m70` of Tensor Memory; on paper as on a light page. */
function colourRules() {
  const rules = (dark) => [
    ...range(32).map((lane) => `.l${lane}{background-color:${colourOf(lane, false, dark)}}`),
    ...range(128).map((lane) => `.m${lane}{background-color:${colourOf(lane, true, dark)}}`),
    ...DATA.roles.map((role, i) => (role.colour === null ? "" : `.o${i}{background-color:${roleColour(role, dark)}}`)),
  ];
  const dark = isDark();
  const wanted = `${view.fields.palette} ${dark}`;
  if ($("colours").dataset.shows === wanted) return;
  $("colours").dataset.shows = wanted;
  $("colours").textContent = dark ? `${rules(true).join("")}@media print{${rules(false).join("")}}` : rules(false).join("");
}

/** Buttons for 32 lanes, or for 128 in four quarters; a dot marks those whose metadata the selector picks. */
function drawLanes(model) {
  const picked = new Set(model.sparsity ? model.lanesOf(model.selector) : []);
  const count = model.tmem ? 128 : 32;
  const html = [];
  for (let lane = 0; lane < count; lane++) {
    if (model.tmem && lane % 32 === 0) html.push(`<span class="warp">warp ${lane / 32}</span>`);
    const what = picked.has(lane) ? "its metadata is read" : model.sparsity ? "its metadata is not read with this selector" : "";
    const name = `${model.tmem ? "" : "T"}${lane}`;
    const classes = `lane ${model.tmem ? "m" : "l"}${lane}${picked.has(lane) ? " picked" : ""}`;
    html.push(`<button class="${classes}" data-choose-lane="${lane}" tabindex="-1" title="${what}" aria-label="${name}: lane ${lane}${what && `, ${what}`}">${name}</button>`);
  }
  $("lanes").innerHTML = html.join("");
  $("lanes").className = model.tmem ? "quarters" : "strip";
}

/** `T0 T1 T4 T5 ...` as a rule where there is one. */
function lanesText(model, selector) {
  const lanes = model.lanesOf(selector);
  if (model.tmem) {
    const words = new Set(range(model.chunks).map((chunk) => model.metadata[selector].place(0, chunk).word));
    return words.size > 1 ? "both columns of the pair" : `column ${[...words][0]} of the pair`;
  }
  const rests = [...new Set(lanes.map((lane) => lane % 4))];
  return lanes.length === rests.length * 8
    ? rests.length === 4
      ? "all lanes"
      : `lanes ${rests.map((rest) => (rest ? `4g + ${rest}` : "4g")).join(", ")}`
    : lanes.map((lane) => `T${lane}`).join(" ");
}

/** What the opcode leaves open, as buttons and lists. */
function drawOptions(model) {
  const html = [];
  const list = (name, values, value, text) => {
    const items = values.map((v) => `<option${String(v) === String(value) ? " selected" : ""}>${v}</option>`);
    return `<label>${text} <select data-field="${name}">${items.join("")}</select></label>`;
  };
  const unique = (values) => [...new Set(values)];
  if (model.tmem) {
    const views = model.form.views;
    const ofM = views.filter((v) => v.m === model.m);
    html.push(list("m", unique(views.map((v) => v.m)), model.m, "M"), list("n", unique(ofM.map((v) => v.n)), model.n, "N"));
    const bases = unique(ofM.map((v) => v.base));
    if (bases.length > 1) html.push(list("base", bases, model.base, "base lane"));
    html.push(`<span>data path layout <b>${model.view.layout}</b>, K ${model.view.k}</span>`);
  }
  if (model.selectors.length) {
    const buttons = model.selectors.map(
      (s) => `<button data-field="selector" data-option="${s}"${s === model.selector ? ' class="on"' : ""}>${s}: ${lanesText(model, s)}</button>`,
    );
    html.push(`<span class="selector"><span title="it reads the metadata of underlined lanes">selector</span> ${buttons.join("")}</span>`);
  }
  for (const name of Object.keys(model.ids))
    html.push(list(name, Object.keys(model.view.operands[name]), model.ids[name], model.tmem ? `${name} id` : `${name} byte-id.thread-id`));
  $("options").innerHTML = html.join("");
}

/** The lane whose metadata the ruler shows: that of what is chosen. */
function rulerLane(model, at, found) {
  if (at && at.lane !== undefined) return at.lane;
  const key = at && at.name === "e" ? keyOf(at.row, at.column) : found.e && found.e.size ? found.e.values().next().value : null;
  if (key !== null && key !== undefined) return model.operands.e.place(Math.floor(key / WIDTH), key % WIDTH).lane;
  return model.lanesOf(model.selector)[0];
}

/** The metadata of a lane, bit by bit: highest first, as numbers are written. */
function drawRuler(model, result, lane, lit) {
  $("metadata").hidden = !model.sparsity;
  if (!model.sparsity) return;
  const html = [];
  for (let word = 0; word < model.wordsOfLane; word++) {
    const i = lane * model.wordsOfLane + word;
    const value = result.words[i];
    const name = model.tmem ? `L${lane} e.col${word}` : `T${lane} e`;
    const input = `<input data-word="${i}" value="${hex(value)}" maxlength="10" spellcheck="false" aria-label="metadata of ${name}">`;
    const spread = `<button data-all="${i}">to all ${model.tmem ? "cells" : "lanes"}</button>`;
    html.push(`<div class="word"><b>${name}</b> = 0x${input} ${spread}</div>`);
    const readers = model.readers(lane, word);
    let bits = [];
    let owners = [];
    for (let part = 7; part >= 0; part--) {
      const reader = readers[part];
      const here = reader && reader.selector === model.selector;
      const on = here && lit && lit.has(keyOf(reader.row, reader.chunk)) ? " lit" : "";
      const fill = here ? `${model.tmem ? "m" : "l"}${lane}` : "other";
      const bad = here && model.form.verdicts[(value >>> (4 * part)) & 15] ? " bad" : "";
      for (let bit = 4 * part + 3; bit >= 4 * part; bit--) {
        const set = (value >>> bit) & 1;
        const whose = reader ? `row ${reader.row} chunk ${reader.chunk}${here ? "" : `, selector ${reader.selector}`}` : "not read";
        const label = `${name} bit ${bit} is ${set}, ${whose}; press to flip`;
        const button = `<button data-flip="${bit}" data-index="${i}" tabindex="-1" title="bit ${bit}: click to flip" aria-label="${label}">${set}</button>`;
        bits.push(`<td class="${fill}${on}${bit % 4 === 3 ? " cut" : ""}">${button}<small>${bit}</small></td>`);
      }
      const text = !reader
        ? "not read"
        : `r${reader.row} c${reader.chunk}${reader.copy ? `<br>copy ${reader.copy}` : ""}${here ? "" : `<br>sel ${reader.selector}`}`;
      const data = here ? ` data-operand="e" data-row="${reader.row}" data-column="${reader.chunk}"` : "";
      owners.push(`<td colspan="4" class="cut ${fill}${on}${bad}"${data}>${text}</td>`);
      if (part % 4) continue;
      const label = `bits ${4 * part + 15} to ${4 * part} of ${name}`;
      html.push(`<table class="ruler" aria-label="${label}"><tr>${bits.join("")}</tr><tr>${owners.join("")}</tr></table>`);
      [bits, owners] = [[], []];
    }
  }
  $("ruler").innerHTML = html.join("");
}

// The picker

const FILTERS = ["family", "shape", "type", "ordered"];

/** Opcode without the parts that every form has. */
const brief = (opcode) => opcode.replace(".sync.aligned", "").replace(".row.col", "");

/** Forms that pass the filters but for one of them, and hold every word of the text. */
function matching(without = "") {
  const words = $("find").value.trim().toLowerCase().split(/[\s]+/).filter(Boolean);
  return DATA.forms.filter((form) => {
    const text = `${form.opcode} ${brief(form.opcode)}`.toLowerCase();
    return (
      words.every((word) => text.includes(word) || text.includes(brief(word))) &&
      FILTERS.every((name) => name === without || !$(name).value || String(form[name]) === $(name).value)
    );
  });
}

/** The lists of the picker: each filter offers what the others leave. */
function drawPicker() {
  for (const name of FILTERS) {
    const values = [...new Set(matching(name).map((form) => String(form[name])))];
    const before = $(name).value;
    const label = { family: "any family", shape: "any shape", type: "any type of A", ordered: "ordered or not" }[name];
    const text = (value) => (name === "ordered" ? (value === "true" ? "::ordered_metadata" : "not ordered") : value);
    $(name).innerHTML =
      `<option value="">${label}</option>${values.map((v) => `<option value="${v}"${v === before ? " selected" : ""}>${text(v)}</option>`).join("")}`;
  }
  const forms = matching();
  const current = view.model && view.model.form.opcode;
  const options = forms.map((form) => `<option value="${form.opcode}"${form.opcode === current ? " selected" : ""}>${brief(form.opcode)}</option>`);
  const none = forms.some((form) => form.opcode === current)
    ? ""
    : `<option value="" selected>${forms.length ? `${forms.length} forms: choose one` : "no such form"}</option>`;
  $("forms").innerHTML = none + options.join("");
  $("forms").title = `${forms.length} of ${DATA.forms.length} forms`;
}

/** Marks the form that is shown in the list, which may have to be made. */
function markForm() {
  const current = view.model.form.opcode;
  const list = $("forms");
  const has = [...list.options].some((option) => option.value === current);
  if (has && !list.querySelector('option[value=""]')) list.value = current;
  else drawPicker();
}
