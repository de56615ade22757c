"use strict";
// D in Tensor Memory: up to 128 x 256 cells, of which only those in sight are drawn.

class CanvasPanel {
  constructor(name, title) {
    Object.assign(this, { name, title, lit: new Set(), chosen: null, operand: null });
    this.element = document.createElement("section");
    this.element.className = "panel tmem";
    this.element.dataset.panel = `tmem-${name}`;
  }

  render(model, result) {
    Object.assign(this, { model, result });
    const same = this.operand === model.operands[this.name] && this.small === small();
    this.operand = model.operands[this.name];
    this.small = small();
    if (!same) this.build();
    this.draw();
  }

  /** The box: as wide as the window allows, with the canvas in place of what scrolls. */
  build() {
    const { operand } = this;
    [this.width, this.height] = this.small ? [Math.max(4, Math.min(12, Math.floor(1000 / operand.words))), 5] : [50, 26];
    [this.left, this.top] = [34, 18];
    const [width, height] = [this.left + this.width * operand.words, this.top + this.height * operand.lanes];
    const label = `role="application" tabindex="0" aria-roledescription="grid" aria-label="${escaped(this.title)}: arrow keys move"`;
    const sizer = `<div class="sizer" style="width:${width}px;height:${height}px"><canvas ${label}></canvas></div>`;
    this.element.innerHTML = `${heading(this, copiesText(operand), "")}<div class="scroll">${sizer}</div>`;
    const save = this.element.querySelector("[data-save]");
    save.textContent = "PNG";
    save.setAttribute("aria-label", `PNG of the panel ${this.title}`);
    this.box = this.element.querySelector(".scroll");
    this.canvas = this.element.querySelector("canvas");
    this.box.addEventListener("scroll", () => this.draw());
    this.canvas.addEventListener("click", (event) => this.click(event));
    this.canvas.addEventListener("keydown", (event) => this.press(event));
  }

  /** The lane and column under a point of the canvas, or null. */
  under(x, y) {
    const column = Math.floor((x + this.box.scrollLeft - this.left) / this.width);
    const lane = Math.floor((y + this.box.scrollTop - this.top) / this.height);
    const inside = x >= this.left && y >= this.top && column >= 0 && column < this.operand.words && lane >= 0 && lane < this.operand.lanes;
    return inside ? { lane, column } : null;
  }

  /** Where on the canvas a cell is, as `under` takes it. */
  point(lane, column) {
    return [this.left + (column + 0.5) * this.width - this.box.scrollLeft, this.top + (lane + 0.5) * this.height - this.box.scrollTop];
  }

  click(event) {
    const found = this.under(event.offsetX, event.offsetY);
    const element = found && this.operand.element(found.lane, found.column, 0);
    if (element) choose({ name: this.name, row: element[0], column: element[1] });
  }

  /** Arrows, Home, End and pages move what is chosen, from cell to cell that holds something. */
  press(event) {
    const move = MOVES[event.key];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const { operand } = this;
    const mine = view.at && view.at.name === this.name ? operand.place(view.at.row, view.at.column) : null;
    let [lane, column] = mine ? [mine.lane, mine.word] : [0, 0];
    for (let tries = 0; tries < operand.lanes; tries++) {
      if (mine || tries) [lane, column] = [limited(lane + move[0], operand.lanes), limited(column + move[1], operand.words)];
      const element = operand.element(lane, column, 0);
      if (!element) continue;
      this.canvas.setAttribute("aria-label", spoken(operand, this.name, element[0], element[1], { lane, word: column, low: 0, high: 31 }));
      return choose({ name: this.name, row: element[0], column: element[1] }, true);
    }
  }

  light(keys, chosen) {
    Object.assign(this, { lit: keys, chosen });
    const wanted = chosen !== null && keys.has(chosen) ? chosen : keys.size ? keys.values().next().value : null;
    if (wanted !== null) {
      const place = this.operand.place(Math.floor(wanted / WIDTH), wanted % WIDTH);
      const [x, y] = this.point(place.lane, place.word);
      if (x < this.left || x + this.width > this.box.clientWidth) this.box.scrollLeft += x - this.box.clientWidth / 2;
      if (y < this.top || y + this.height > this.box.clientHeight) this.box.scrollTop += y - this.box.clientHeight / 2;
    }
    this.draw();
  }

  /** Draws what is in sight; on paper what was. */
  draw() {
    const { canvas, box, operand, width, height } = this;
    if (!paper.on || !this.seen)
      this.seen = {
        left: box.scrollLeft,
        top: box.scrollTop,
        w: Math.min(box.clientWidth || 900, this.left + width * operand.words),
        h: Math.min(box.clientHeight || 400, this.top + height * operand.lanes),
      };
    const { left, top, w, h } = this.seen;
    const scale = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [w * scale, h * scale];
    [canvas.style.width, canvas.style.height] = [`${w}px`, `${h}px`];
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    this.ink = isDark() ? "#ffffff" : "#000000";
    this.paper = isDark() ? "#16181c" : "#ffffff";
    pen.fillStyle = this.paper;
    pen.fillRect(0, 0, w, h);
    const font = getComputedStyle(document.body).getPropertyValue("--narrow");
    const firstLane = Math.floor(top / height);
    const firstColumn = Math.floor(left / width);
    for (let lane = firstLane; lane < operand.lanes && this.top + lane * height - top < h; lane++)
      for (let column = firstColumn; column < operand.words && this.left + column * width - left < w; column++)
        this.cell(pen, font, lane, column);
    this.headings(pen, font, w, h, firstLane, firstColumn);
  }

  cell(pen, font, lane, column) {
    const { width, height, operand } = this;
    const [x, y] = [this.left + column * width - this.seen.left, this.top + lane * height - this.seen.top];
    const element = operand.element(lane, column, 0);
    if (!element) return;
    const key = keyOf(element[0], element[1]);
    const lit = this.lit.has(key);
    pen.fillStyle = colourOf(lane, true);
    pen.fillRect(x, y, width, height);
    const i = element[0] * this.model.view.columns + element[1];
    const [before, after] = [this.result.before[i], this.result.d[i]];
    pen.strokeStyle = "#999999";
    pen.lineWidth = 0.5;
    if (!this.small) pen.strokeRect(x, y, width, height);
    if (!this.small) {
      pen.fillStyle = this.ink;
      pen.textAlign = "center";
      pen.font = `10px ${font}`;
      pen.fillText(`${element[0]},${element[1]}`, x + width / 2, y + 11, width - 2);
      pen.font = `bold 11px ${font}`;
      pen.fillText(before === after ? shown(after) : `${shown(before)}\u2192${shown(after)}`, x + width / 2, y + 22, width - 2);
    }
    if (this.small && !lit && before !== after) {
      pen.fillStyle = this.ink;
      pen.fillRect(x + width / 2 - 1, y + height / 2 - 1, 2, 2);
    } else if (lit || before !== after) {
      pen.strokeStyle = this.ink;
      pen.lineWidth = this.small || !lit ? 1 : key === this.chosen ? 3 : 1.5;
      pen.setLineDash(before === after || this.small ? [] : [4, 2]);
      pen.strokeRect(x + 1, y + 1, width - 2, height - 2);
      pen.setLineDash([]);
    }
  }

  headings(pen, font, w, h, firstLane, firstColumn) {
    pen.fillStyle = this.paper;
    pen.fillRect(0, 0, w, this.top);
    pen.fillRect(0, 0, this.left, h);
    pen.fillStyle = this.ink;
    pen.font = `10px ${font}`;
    pen.textAlign = "center";
    const every = this.small ? 16 : 1;
    for (let column = firstColumn; column < this.operand.words; column++) {
      const x = this.left + (column + 0.5) * this.width - this.seen.left;
      if (x > this.left && column % every === 0) pen.fillText(this.small ? column : `col${column}`, x, 12);
    }
    for (let lane = firstLane; lane < this.operand.lanes; lane++) {
      const y = this.top + (lane + 0.5) * this.height - this.seen.top + 3;
      if (y > this.top + 4 && lane % every === 0) pen.fillText(`L${lane}`, this.left / 2, y);
    }
  }
}
