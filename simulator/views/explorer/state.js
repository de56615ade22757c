"use strict";
// What a link shares: form, choices, metadata and what is chosen, as text behind the # of the address.

/** Metadata as text: `default`, `random:SEED` or eight hex digits for every word, then `LANE:HEX` or `LANE.COLUMN:HEX` for single ones. */
function wordsFrom(model, text) {
  const [base, ...edits] = (text || "default").split(",");
  const seed = /^random:(\d+)$/.exec(base);
  let words = model.defaultWords;
  if (seed) words = model.randomWords(Number(seed[1]));
  else if (/^[0-9a-fA-F]{1,8}$/.test(base)) words = new Uint32Array(model.wordCount).fill(parseInt(base, 16));
  words = Uint32Array.from(words);
  for (const edit of edits) {
    const found = /^(\d+)(?:\.(\d+))?:([0-9a-fA-F]{1,8})$/.exec(edit);
    const i = found ? Number(found[1]) * model.wordsOfLane + Number(found[2] || 0) : -1;
    if (i >= 0 && i < words.length) words[i] = parseInt(found[3], 16);
  }
  return words;
}

const hex = (word) => word.toString(16).toUpperCase().padStart(8, "0");

/** The text of metadata after one word has been set. */
function withWord(model, text, i, word) {
  const [base, ...edits] = (text || "default").split(",");
  const name = model.wordsOfLane > 1 ? `${Math.floor(i / model.wordsOfLane)}.${i % model.wordsOfLane}` : String(i);
  const rest = edits.filter((edit) => !edit.startsWith(`${name}:`));
  const same = wordsFrom(model, [base, ...rest].join(","))[i] === word;
  return [base, ...rest, ...(same ? [] : [`${name}:${hex(word)}`])].join(",");
}

/** `d.5.3`, `lane.23` or nothing. */
function atFrom(model, text) {
  const [name, ...numbers] = (text || "").split(".");
  const [row, column] = numbers.map(Number);
  if (name === "lane") return Number.isInteger(row) && row >= 0 && row < (model.tmem ? 128 : 32) ? { lane: row } : null;
  const operand = model.operands[name === "logical" ? "a" : name];
  if (!operand || (name === "logical" && !model.sparsity)) return null;
  const columns = name === "logical" ? model.view.k : operand.columns;
  return row >= 0 && row < operand.rows && column >= 0 && column < columns ? { name, row, column } : null;
}

const atText = (at) => (!at ? "" : at.lane !== undefined ? `lane.${at.lane}` : `${at.name}.${at.row}.${at.column}`);

const FIELDS = ["form", "m", "n", "base", "selector", "scale_a", "scale_b", "e", "at", "step", "compare", "memory", "cta", "moment", "place", "zoom", "quiz", "tour", "palette", "cells", "theme"];

/** The fragment -> fields that it names; unknown ones are dropped. */
function readFragment(text) {
  const found = {};
  for (const part of text.replace(/^#/, "").split("&")) {
    const [name, ...value] = part.split("=");
    if (FIELDS.includes(name)) {
      try {
        found[name] = decodeURIComponent(value.join("="));
      } catch {
        found[name] = value.join("=");
      }
    }
  }
  return found;
}

/** Fields -> the fragment, in a fixed order, without what is as it would be anyway. */
function writeFragment(fields) {
  const written = FIELDS.filter((name) => fields[name] !== undefined && fields[name] !== "");
  return `#${written.map((name) => `${name}=${encodeURIComponent(fields[name]).replace(/%3A/g, ":").replace(/%2C/g, ",")}`).join("&")}`;
}
