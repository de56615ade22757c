"use strict";
// One form with all that its opcode leaves open, and metadata: what is selected, what is not defined, and the numbers of D.

const CODE_BITS = 4;

/** A sequence of numbers in [0, 1) that a seed determines. */
function sequence(seed) {
  let state = (seed * 2654435761 + 1) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

class Model {
  /** `open`: m, n, base, selector, scale_a, scale_b; what the form has not is set to what it has. */
  constructor(form, open) {
    this.form = form;
    const near = (values, wanted) => (values.includes(wanted) ? wanted : values[0]);
    const views = form.views;
    this.m = near(
      views.map((v) => v.m),
      open.m || 128,
    );
    this.n = near(
      views.filter((v) => v.m === this.m).map((v) => v.n),
      open.n || 64,
    );
    const left = views.filter((v) => v.m === this.m && v.n === this.n);
    this.base = near(
      left.map((v) => v.base),
      open.base || 0,
    );
    this.view = left.find((v) => v.base === this.base);
    this.selectors = form.selectors || [];
    this.selector = near(this.selectors, open.selector || 0) || 0;
    this.ids = {};
    this.operands = {};
    for (const [name, numbers] of Object.entries(this.view.operands)) {
      let key = "";
      if (name === "e") key = String(this.selector);
      else if (!("" in numbers)) key = this.ids[name] = near(Object.keys(numbers), open[name]);
      this.operands[name] = operandOf(numbers[key]);
    }
    this.sparsity = form.sparsity ? DATA.sparsities[form.sparsity] : null;
    this.metadata = this.selectors.map((selector) => operandOf(this.view.operands.e[String(selector)]));
    this.tmem = Boolean(this.view.layout);
    this.group = Boolean(form.group); // four warps that execute one instruction
    this.multiplies = this.view.k > 0;
    this.rows = this.view.rows * this.view.blocks;
    this.stored = this.sparsity ? this.view.k / 2 : this.view.k;
    this.chunks = this.sparsity ? this.view.k / this.sparsity.chunk : 0;
    this.factors = this.operands.scale_a ? this.operands.scale_a.columns : 0;
    this.wordsOfLane = this.tmem ? 2 : 1; // of metadata
  }

  // Metadata in lanes: words[lane * wordsOfLane + word]

  get wordCount() {
    return (this.tmem || this.group ? 128 : 32) * this.wordsOfLane;
  }

  /** Words in which every code that any selector reads is what `choose(row, chunk, selector)` says. */
  filled(choose) {
    const words = new Uint32Array(this.wordCount);
    this.metadata.forEach((operand, selector) => {
      for (let row = 0; row < operand.rows; row++)
        for (let chunk = 0; chunk < operand.columns; chunk++) {
          const code = choose(row, chunk, selector);
          for (let copy = 0; copy < operand.copies; copy++) {
            const place = operand.place(row, chunk, copy);
            words[place.lane * this.wordsOfLane + place.word] |= code << place.low;
          }
        }
    });
    return words;
  }

  /** The metadata that a reset gives: defined codes with ascending indices, all of them, in turn. */
  get defaultWords() {
    const ascending = this.form.codes.filter((code) => this.sparsity.stored === 1 || (code & 3) < code >> 2);
    return (this._defaultWords = this._defaultWords || this.filled((row, chunk, selector) => ascending[(row + chunk + selector) % ascending.length]));
  }

  /** Random defined codes. */
  randomWords(seed) {
    const next = sequence(seed);
    return this.filled(() => this.form.codes[Math.floor(next() * this.form.codes.length)]);
  }

  /** What the words of metadata select. */
  select(words) {
    const { rows, chunks, sparsity } = this;
    const codes = new Uint8Array(rows * chunks);
    const differs = [];
    for (let row = 0; row < rows; row++)
      for (let chunk = 0; chunk < chunks; chunk++) {
        const found = range(this.operands.e.copies).map((copy) => {
          const place = this.operands.e.place(row, chunk, copy);
          return (words[place.lane * this.wordsOfLane + place.word] >>> place.low) & 15;
        });
        codes[row * chunks + chunk] = found[0];
        if (found.some((code) => code !== found[0])) differs.push([row, chunk]);
      }
    const code = (row, chunk) => codes[row * chunks + chunk];
    /** Logical columns that stored column s of a row stands for: one, or both of a chunk whose halves are joined. */
    const columns = (row, s) => {
      if (!sparsity) return [s];
      const chunk = Math.floor(s / sparsity.stored);
      const base = chunk * sparsity.chunk;
      if (sparsity.joined[code(row, chunk)]) return range(sparsity.chunk).map((i) => base + i);
      return [base + sparsity.columns[code(row, chunk)][s % sparsity.stored]];
    };
    const findings = [];
    codes.forEach((value, i) => {
      if (this.form.verdicts[value]) findings.push({ row: Math.floor(i / chunks), chunk: i % chunks, code: value, rule: this.form.verdicts[value] });
    });
    return { code, columns, findings, differs };
  }

  /** Stored columns of a row that stand for logical column k. */
  holders(selection, row, k) {
    if (!this.sparsity) return [k];
    const first = Math.floor(k / this.sparsity.chunk) * this.sparsity.stored;
    return range(this.sparsity.stored)
      .map((i) => first + i)
      .filter((s) => selection.columns(row, s).includes(k));
  }

  /** The column of B that D[row][n] takes: of stacked products that of the row's own. */
  columnOfB(row, n) {
    return this.view.blocks > 1 ? n + this.view.columns * Math.floor(row / this.view.rows) : n;
  }

  // Numbers: small, so that every type has them and sums are exact

  get bits() {
    return Boolean(this.form.operation);
  }

  a(row, s) {
    const value = 1 + ((row + s) % 3);
    return this.bits ? value % 2 : value;
  }

  b(k, n) {
    const { unit, chunk } = this.sparsity || { unit: 1, chunk: 4 };
    const value = 1 + ((Math.floor(k / unit) + Math.floor(k / chunk) + n + Math.floor(n / this.view.columns)) % 4);
    return this.bits ? value % 2 : value;
  }

  c(row, n) {
    return 1 + ((row + n) % 4);
  }

  /** What stored column s of a row is multiplied with, for column n of B. */
  factor(selection, row, s, n) {
    const ks = selection.columns(row, s);
    if (ks.length === 1) return this.b(ks[0], n);
    const code = selection.code(row, Math.floor(s / this.sparsity.stored));
    return this.sparsity.values[code][this.b(ks[0], n) - 1][this.b(ks[1], n) - 1];
  }

  /** One product, or for bits the one bit that is counted. */
  term(a, b) {
    if (!this.bits) return a * b;
    return this.form.operation.startsWith("xor") ? a ^ b : a & b;
  }

  /** D, row by row. */
  multiply(selection) {
    const { rows, stored } = this;
    const columns = this.view.columns;
    const d = new Float64Array(rows * columns);
    for (let row = 0; row < rows; row++) {
      for (let n = 0; n < columns; n++) d[row * columns + n] = this.c(row, n);
      for (let s = 0; s < stored; s++) {
        const a = this.a(row, s);
        const ks = selection.columns(row, s);
        for (let n = 0; n < columns; n++) {
          const b = ks.length === 1 ? this.b(ks[0], this.columnOfB(row, n)) : this.factor(selection, row, s, n);
          d[row * columns + n] += this.term(a, b);
        }
      }
    }
    return d;
  }

  /** Selection, D, and D of the reset metadata, for these words. */
  result(words) {
    const selection = this.select(words || new Uint32Array(0));
    const d = this.multiplies ? this.multiply(selection) : new Float64Array(0);
    if (!this._before) this._before = this.sparsity ? this.multiply(this.select(this.defaultWords)) : d;
    return { words, selection, d, before: this._before };
  }

  /** The code of each 4 bits of a word of metadata: {selector, row, chunk, copy}, or null where none is read. */
  readers(lane, word) {
    return range(32 / CODE_BITS).map((part) => {
      for (const selector of [this.selector, ...this.selectors]) {
        const found = this.metadata[selector].element(lane, word, part);
        if (found) return { selector, row: found[0], chunk: found[1], copy: found[2] };
      }
      return null;
    });
  }

  /** Lanes whose words this selector reads. */
  lanesOf(selector) {
    const operand = this.metadata[selector];
    const found = new Set();
    for (let row = 0; row < operand.rows; row++)
      for (let chunk = 0; chunk < operand.columns; chunk++)
        for (let copy = 0; copy < operand.copies; copy++) found.add(operand.place(row, chunk, copy).lane);
    return [...found].sort((x, y) => x - y);
  }
}
