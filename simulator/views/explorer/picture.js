"use strict";
// What is seen as a picture: one panel, or all matrices with their explanation, as SVG; PNG is that SVG, drawn.

const LINE = 14; // pixels from line to line of the explanation
const LETTER = 6.2; // and of a letter of it

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** The cells of one panel, at (left, top) of the picture; a canvas goes in as it is drawn. */
function panelSvg(panel, left, top) {
  const canvas = panel.querySelector("canvas");
  const table = canvas || panel.querySelector("table");
  const origin = table.getBoundingClientRect();
  const heading = panel.querySelector("h2");
  const title = heading ? heading.firstChild.textContent : table.getAttribute("aria-label");
  const parts = [`<text x="${left + 2}" y="${top + 12}" font-size="11" text-anchor="start">${escaped(title)}</text>`];
  if (canvas) {
    parts.push(`<image x="${left}" y="${top + 20}" width="${origin.width}" height="${origin.height}" href="${canvas.toDataURL()}"/>`);
    return parts.join("");
  }
  for (const cell of table.querySelectorAll("th, td")) {
    const box = cell.getBoundingClientRect();
    if (!box.width) continue;
    const style = getComputedStyle(cell);
    const [x, y] = [box.left - origin.left + left, box.top - origin.top + top + 20];
    const heads = cell.tagName === "TH" || cell.classList.contains("corner");
    const fill = cell.classList.contains("pruned") ? "url(#pruned)" : heads ? "none" : style.backgroundColor;
    const data = Object.entries(cell.dataset)
      .map(([name, value]) => ` data-${name}="${escaped(value)}"`)
      .join("");
    const wide = cell.classList.contains("chosen") ? 3 : cell.classList.contains("lit") ? 1.8 : 0.5;
    const size = `x="${x}" y="${y}" width="${box.width}" height="${box.height}"`;
    parts.push(`<rect ${size} fill="${fill}" stroke="${wide > 1 ? colour("strong") : heads ? "none" : colour("line")}" stroke-width="${wide}"${data}/>`);
    const lines = style.fontSize === "0px" ? [] : cell.innerText.split("\n").filter(Boolean);
    const step = parseFloat(style.fontSize);
    const middle = y + box.height / 2 - ((lines.length - 1) * step) / 2 + step / 3;
    const weight = cell.classList.contains("lit") ? ' font-weight="bold"' : "";
    lines.forEach((line, i) => parts.push(`<text x="${x + box.width / 2}" y="${middle + step * i}" font-size="${step}"${weight}>${escaped(line)}</text>`));
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
  const origin = (panel.querySelector("canvas") || panel.querySelector("table")).getBoundingClientRect();
  const name = `<text x="2" y="12" font-size="12" text-anchor="start">${escaped(view.model.form.opcode)}</text>`;
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

/** All panels in their places on the page (whole, where a box scrolls), and the explanation under them. */
function viewSvg() {
  const panels = [...document.querySelectorAll("#panels .panel")].filter((panel) => panel.getClientRects().length);
  const parts = [`<text x="8" y="16" font-size="13" text-anchor="start">${escaped(view.model.form.opcode)}</text>`];
  const columns = new Map(); // where the next panel of each column of the page begins
  const heights = new Map();
  let width = 700;
  const lefts = [...new Set(panels.map((panel) => Math.round(panel.getBoundingClientRect().left)))].sort((x, y) => x - y);
  let left = 8;
  for (const at of lefts) {
    const mine = panels.filter((panel) => Math.round(panel.getBoundingClientRect().left) === at);
    const sizes = mine.map((panel) => (panel.querySelector("canvas") || panel.querySelector("table")).getBoundingClientRect());
    columns.set(at, left);
    heights.set(at, 24);
    mine.forEach((panel, i) => {
      parts.push(panelSvg(panel, left, heights.get(at)));
      heights.set(at, heights.get(at) + sizes[i].height + 32);
    });
    left += Math.max(...sizes.map((size) => size.width)) + 16;
  }
  width = Math.max(width, left);
  let top = Math.max(24, ...heights.values()) + LINE;
  const paragraphs = $("info").innerText.split("\n").filter(Boolean);
  for (const line of paragraphs.flatMap((text) => wrapped(text, width / LETTER))) {
    parts.push(`<text x="8" y="${top}" font-size="12" text-anchor="start">${escaped(line.trim())}</text>`);
    top += LINE;
  }
  return { svg: framed(parts, Math.ceil(width), Math.ceil(top)), width: Math.ceil(width), height: Math.ceil(top) };
}

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
