"use strict";
// One evaluator for every mapping: a mapping is its list of digits (see isa/mapping.py), and nothing here knows where any element lives.

const digit = (value, step, size) => Math.floor(value / step) % size;

/** Coordinates by name -> places by name. */
function positions(mapping, at) {
  const found = {};
  for (const [place] of mapping.places) found[place] = 0;
  for (const [place, step, , value] of mapping.fixed) found[place] += step * value;
  for (const [place, step, size, axis, stride] of mapping.digits) found[place] += digit(at[axis], stride, size) * step;
  return found;
}

/** Places by name -> coordinates by name (of places that `holds` says yes to). */
function coordinates(mapping, at) {
  const found = {};
  for (const [axis] of mapping.axes) found[axis] = 0;
  for (const [place, step, size, axis, stride] of mapping.digits) found[axis] += digit(at[place], step, size) * stride;
  return found;
}

/** Whether anything is held at these places. */
const holds = (mapping, at) => mapping.fixed.every(([place, step, size, value]) => digit(at[place], step, size) === value);

const product = (sizes) => sizes.reduce((left, right) => left * right, 1);
const range = (count) => Array.from({ length: count }, (_, i) => i);

/** One operand of one form: bits of words of lanes <-> row, column, copy. As `simulator.layout.Operand`. */
class Operand {
  constructor(record) {
    const { formulas, ...rest } = record;
    Object.assign(this, rest, { formulaOf: formulas, placeOf: [] }); // places are worked out once each
    this.digits = DATA.mappings[record.mapping];
    const named = (...names) => (this.digits.places.find(([place]) => names.includes(place)) || [""])[0];
    this.lane = named("lane", "thread");
    this.reg = named("register", "column");
    this.part = named("element", "code", "byte", "part");
    const size = (name) => (this.digits.places.find(([place]) => place === name) || ["", 1])[1];
    [this.lanes, this.words, this.parts] = [size(this.lane), size(this.reg), size(this.part)];
    this.axes = this.digits.axes.map(([axis]) => axis);
    const shape = this.digits.axes.map(([, count]) => count);
    if (this.used) shape[0] = this.used;
    [this.rows, this.columns, this.copies] = [shape[0], shape[1] || 1, shape[2] || 1];
  }

  /** Coordinates in the order of the axes. */
  at(...values) {
    return Object.fromEntries(this.axes.map((axis, i) => [axis, values[i]]));
  }

  /** Where an element is: lane, word, lowest and highest bit. */
  place(row, column, copy = 0) {
    const key = (row * this.columns + column) * this.copies + copy;
    return this.placeOf[key] || (this.placeOf[key] = this.evaluated(row, column, copy));
  }

  evaluated(row, column, copy) {
    const found = positions(this.digits, this.at(row, column, copy));
    const low = (this.part ? found[this.part] : 0) * this.bits;
    return { lane: found[this.lane], word: this.reg ? found[this.reg] : 0, low, high: low + this.bits - 1 };
  }

  /** What a part of a word holds: [row, column, copy], or null. */
  element(lane, word, part) {
    const at = { [this.lane]: lane };
    if (this.reg) at[this.reg] = word;
    if (this.part) at[this.part] = part;
    if (!holds(this.digits, at)) return null;
    const found = coordinates(this.digits, at);
    const element = [0, 1, 2].map((i) => (this.axes[i] === undefined ? 0 : found[this.axes[i]]));
    return element[0] < this.rows ? element : null;
  }

  get letter() {
    return this.tmem ? "L" : "T";
  }

  /** `a1`, `e`, `d.col3`; empty for addresses. */
  wordName(word) {
    if (this.name === "address") return "";
    return this.tmem ? `${this.name}.col${word}` : this.name + (this.reg ? word : "");
  }

  bitsName(place) {
    return this.bits >= this.word_bits || this.name === "address" ? "" : `[${place.high}:${place.low}]`;
  }

  /** `T9 a1[31:16]`, as the other tables of the project write it. */
  nameOf(place) {
    return `${this.letter}${place.lane} ${this.wordName(place.word)}${this.bitsName(place)}`.trim();
  }

  /** The same in the few letters that a cell has room for: register, and half or bits. */
  short(place) {
    const half = this.bits === 16 && this.word_bits === 32;
    const word = this.name.startsWith("scale") ? "s" : this.tmem ? `c${place.word}` : this.wordName(place.word);
    if (this.bits === 1) return `${word}[${place.low}]`;
    return word + (half ? (place.low ? ".hi" : ".lo") : this.bitsName(place));
  }

  /** The printed formulas of the places (or of the coordinates), with numbers in place of the names: [name, formula, with numbers, value]. */
  formulas(element, ofPlaces = true) {
    const at = this.at(...element);
    const place = positions(this.digits, at);
    const [names, values, known] = ofPlaces ? [this.digits.places, place, at] : [this.digits.axes, at, place];
    const numbers = { ...this.chosen, ...known };
    return names.map(([name]) => [name, this.formulaOf[name], substituted(this.formulaOf[name], numbers), values[name]]);
  }
}

/** A formula with numbers in place of the names. */
const substituted = (formula, numbers) => formula.replace(/[a-z_]+/g, (name) => (name in numbers ? String(numbers[name]) : name));

const OPERANDS = [];
/** The operand of a number. */
const operandOf = (number) => (OPERANDS[number] = OPERANDS[number] || new Operand(DATA.operands[number]));
