"use strict";
// What is seen as a picture: one panel, or all matrices with their explanation, as SVG; PNG is that SVG, drawn.

const LINE = 14; // pixels from line to line of the explanation
const LETTER = 6.2; // and of a letter of it

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const words = (x, y, size, text, more = "") => `<text x="${x}" y="${y}" font-size="${size}" text-anchor="start"${more}>${escaped(text)}</text>`;

/** The cells of one panel, at (left, top) of the picture; a canvas goes in as it is drawn. */
function panelSvg(panel, left, top) {
  const canvas = panel.querySelector("canvas");
  const table = canvas || panel.querySelector("table");
  const heading = panel.querySelector("h2");
  const title = words(left + 2, top + 12, 11, heading ? heading.firstChild.textContent : table.getAttribute("aria-label"));
  if (!canvas) return title + tableSvg(table, left, top + 20, frameOf(panel));
  const { width, height } = canvas.getBoundingClientRect();
  return `${title}<image x="${left}" y="${top + 20}" width="${width}" height="${height}" href="${canvas.toDataURL()}"/>`;
}

/** What a picture shows of a panel: all of a matrix; of Tensor Memory, 128 lanes high, what its box shows. */
const frameOf = (panel) => panel.querySelector(panel.classList.contains("tmem") ? ".scroll" : "table");

/** The cells of a table, in their places and with their marks; of a table in a frame those that are whole in it. */
function tableSvg(table, left, top, frame = table) {
  const origin = frame.getBoundingClientRect();
  const head = table.tHead ? table.tHead.getBoundingClientRect().height : 0;
  const inside = (box, cell) => frame === table || (box.right <= origin.right + 1 && (cell.closest("thead") || (box.top >= origin.top + head - 1 && box.bottom <= origin.bottom + 1)));
  const parts = [];
  for (const cell of table.querySelectorAll("th, td")) {
    const box = cell.getBoundingClientRect();
    if (!box.width || !inside(box, cell)) continue;
    const style = getComputedStyle(cell);
    const [x, y] = [box.left - origin.left + left, box.top - origin.top + top];
    const has = (name) => cell.classList.contains(name);
    const heads = cell.tagName === "TH" || has("corner");
    const fill = has("pruned") ? "url(#pruned)" : heads ? "none" : style.backgroundColor;
    const data = Object.entries(cell.dataset)
      .map(([name, value]) => ` data-${name}="${escaped(value)}"`)
      .join("");
    const wide = has("chosen") ? 3 : has("lit") ? 1.8 : has("changed") ? 1 : 0.5;
    const size = `x="${x}" y="${y}" width="${box.width}" height="${box.height}"`;
    const line = `stroke="${wide > 0.5 ? colour("strong") : heads ? "none" : colour("line")}" stroke-width="${wide}"`;
    parts.push(`<rect ${size} fill="${fill}" ${line}${has("changed") ? ' stroke-dasharray="3 2"' : ""}${data}/>`);
    const lines = style.fontSize === "0px" ? [] : cell.innerText.split("\n").filter(Boolean);
    const step = parseFloat(style.fontSize);
    const middle = y + box.height / 2 - ((lines.length - 1) * step) / 2 + step / 3;
    const weight = has("lit") || has("bad") ? ' font-weight="bold"' : "";
    const mark = has("bad") ? ` fill="${colour("bad")}" text-decoration="underline"` : "";
    lines.forEach((text, i) => parts.push(`<text x="${x + box.width / 2}" y="${middle + step * i}" font-size="${step}"${weight}${mark}>${escaped(text)}</text>`));
  }
  return parts.join("");
}

/** A whole SVG file around its parts, in the colours of the page. */
function framed(parts, width, height) {
  const paper = colour("page");
  const stripes = `<rect width="6" height="6" fill="${paper}"/><rect width="1.2" height="6" fill="${colour("hatch")}"/>`;
  const hatch = `<pattern id="pruned" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">${stripes}</pattern>`;
  const font = `font-family="Arial Narrow, Arial, Helvetica, sans-serif" font-size="10" text-anchor="middle" fill="${colour("ink")}"`;
  const size = `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`;
  const name = escaped(view.model.form.opcode);
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${font}><title>${name}</title><defs>${hatch}</defs><rect width="100%" height="100%" fill="${paper}"/>${parts.join("")}</svg>`;
}

function asSvg(panel) {
  const origin = sizeOf(panel);
  const name = words(2, 12, 12, view.model.form.opcode);
  return framed([name, panelSvg(panel, 0, 16)], Math.max(origin.width + 4, 420), origin.height + 42);
}

/** Text in lines of so many letters, broken between words. */
function wrapped(text, letters) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    if (lines[lines.length - 1].length + word.length >= letters) lines.push("");
    lines[lines.length - 1] += `${word} `;
  }
  return lines;
}

const sizeOf = (panel) => (panel.querySelector("canvas") || frameOf(panel)).getBoundingClientRect();

/** The forms that are compared, beside each other: facts, and the map of A under them. Gives the parts, and how wide and high they are. */
function cardsSvg(top) {
  const parts = [];
  let [left, bottom] = [8, top];
  for (const card of comparing() ? document.querySelectorAll("#compare article") : []) {
    const [title, opcode] = [card.querySelector("h3").innerText, card.querySelector("code").innerText.trim()];
    const facts = [...card.querySelectorAll("dt")].map((dt) => `${dt.innerText}: ${dt.nextElementSibling.innerText}`);
    const lines = [opcode, ...facts];
    parts.push(words(left, top + LINE, 12, title, ' font-weight="bold"'));
    lines.forEach((line, i) => parts.push(words(left, top + LINE * (i + 2), 11, line)));
    const below = top + LINE * (lines.length + 2);
    const map = card.querySelector(".panel");
    parts.push(panelSvg(map, left, below));
    left += Math.max(sizeOf(map).width, LETTER * Math.max(...lines.map((line) => line.length))) + 20;
    bottom = Math.max(bottom, below + sizeOf(map).height + 40);
  }
  return { parts, right: left, bottom };
}

/** All panels in their places on the page (whole, where a box scrolls), the bits of the lane's metadata, and under all what is said. */
function viewSvg() {
  drawPending();
  const panels = [...document.querySelectorAll("#panels > :not(#compare) .panel")].filter((panel) => panel.getClientRects().length);
  const cards = cardsSvg(24);
  const parts = [words(8, 16, 13, view.model.form.opcode), ...cards.parts];
  let [left, bottom] = [8, cards.bottom];
  for (const at of [...new Set(panels.map((panel) => Math.round(panel.getBoundingClientRect().left)))].sort((x, y) => x - y)) {
    const mine = panels.filter((panel) => Math.round(panel.getBoundingClientRect().left) === at);
    let top = cards.bottom;
    for (const panel of mine) {
      parts.push(panelSvg(panel, left, top));
      top += sizeOf(panel).height + 32;
    }
    bottom = Math.max(bottom, top);
    left += Math.max(...mine.map((panel) => sizeOf(panel).width)) + 16;
  }
  const width = Math.max(700, left, cards.right);
  let top = bottom + LINE;
  for (const text of [$("info"), $("changes"), $("legality")].flatMap((box) => saidIn(box)).flatMap((text) => wrapped(text, width / LETTER))) {
    parts.push(words(8, top, 12, text.trim()));
    top += LINE;
  }
  for (const table of view.model.sparsity ? document.querySelectorAll("#ruler table") : []) {
    parts.push(words(8, top + 4, 11, table.getAttribute("aria-label")), tableSvg(table, 8, top + 10));
    top += table.getBoundingClientRect().height + 2 * LINE;
  }
  return { svg: framed(parts, Math.ceil(width), Math.ceil(top)), width: Math.ceil(width), height: Math.ceil(top) };
}

/** The lines of a box, without what is folded. */
const saidIn = (box) =>
  box.innerText
    .split("\n")
    .filter(Boolean)
    .filter((line) => ![...box.querySelectorAll("details, p:has(button)")].some((fold) => fold.innerText.includes(line)));

/** The picture as the pixels of a PNG, twice as fine as the page. */
async function asPng({ svg, width, height }, scale = 2) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * scale, height * scale];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function download(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const fileName = (part) => `${view.model.form.opcode.replace(/[^A-Za-z0-9_]+/g, "_")}_${part}`;

function savePanel(section) {
  const canvas = section.querySelector("canvas");
  const name = fileName(section.dataset.panel);
  if (canvas) canvas.toBlob((blob) => download(`${name}.png`, "image/png", blob));
  else download(`${name}.svg`, "image/svg+xml", asSvg(section));
}

async function saveView(kind) {
  const picture = viewSvg();
  if (kind === "svg") download(`${fileName("view")}.svg`, "image/svg+xml", picture.svg);
  else download(`${fileName("view")}.png`, "image/png", await asPng(picture));
}
