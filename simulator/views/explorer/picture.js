"use strict";
// A panel as an SVG file, made from the table that is shown.

function asSvg(panel) {
  const table = panel.querySelector("table");
  const origin = table.getBoundingClientRect();
  const title = panel.querySelector("h2").firstChild.textContent;
  const parts = [];
  for (const cell of table.querySelectorAll("th, td")) {
    const box = cell.getBoundingClientRect();
    const style = getComputedStyle(cell);
    const [x, y] = [box.left - origin.left, box.top - origin.top + 20];
    const pruned = cell.classList.contains("pruned");
    const fill = pruned ? "url(#pruned)" : cell.tagName === "TH" ? "none" : style.backgroundColor;
    const stroke = cell.tagName === "TH" ? "none" : "#888888";
    const data = Object.entries(cell.dataset)
      .map(([name, value]) => ` data-${name}="${escaped(value)}"`)
      .join("");
    const wide = cell.classList.contains("chosen") ? 3 : cell.classList.contains("lit") ? 1.8 : 0.5;
    const size = `x="${x}" y="${y}" width="${box.width}" height="${box.height}"`;
    parts.push(`<rect ${size} fill="${fill}" stroke="${wide > 1 ? "#000000" : stroke}" stroke-width="${wide}"${data}/>`);
    const lines = cell.innerText.split("\n").filter(Boolean);
    const middle = y + box.height / 2 - (lines.length - 1) * 5 + 3;
    lines.forEach((line, i) => parts.push(`<text x="${x + box.width / 2}" y="${middle + 10 * i}">${escaped(line)}</text>`));
  }
  const [width, height] = [origin.width + 2, origin.height + 22];
  const stripes = '<rect width="6" height="6" fill="#fff"/><rect width="1.2" height="6" fill="#999"/>';
  const hatch = `<pattern id="pruned" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">${stripes}</pattern>`;
  const font = 'font-family="Arial Narrow, Arial, Helvetica, sans-serif" font-size="9" text-anchor="middle"';
  const name = escaped(`${view.model.form.opcode}: ${title}`);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" ${font}>`,
    `<defs>${hatch}</defs><rect width="100%" height="100%" fill="#ffffff"/>`,
    `<text x="2" y="12" font-size="11" text-anchor="start">${name}</text>${parts.join("")}</svg>`,
  ].join("");
}

function download(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function savePanel(section) {
  const name = `${view.model.form.opcode.replace(/[^A-Za-z0-9_]+/g, "_")}_${section.dataset.panel}`;
  const canvas = section.querySelector("canvas");
  if (canvas) canvas.toBlob((blob) => download(`${name}.png`, "image/png", blob));
  else download(`${name}.svg`, "image/svg+xml", asSvg(section));
}
