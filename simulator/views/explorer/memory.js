"use strict";
// Tensor Memory over a run: a slider over the moments at which what it holds changes, the columns over time, and all lanes and columns at one moment.

const [LANES, COLUMNS] = [128, 512];
const CLOSED = { memory: "", cta: "", moment: "", place: "", zoom: "" };
const ZOOMED = 64; // columns of a part that is shown alone

const runShown = () => DATA.runs.find((run) => run.name === view.fields.memory) || null;
const roleColour = (role, dark) => {
  const colour = DATA.palettes[view.fields.palette === "bw" ? "bw" : "safe"][role.colour]; // as `tcsim tmem`
  return dark ? darkened(colour, 0.42) : colour;
};
const ALLOCATED = DATA.roles.length - 1;

const ctaOf = (run) => (run.ctas.includes(Number(view.fields.cta || NaN)) ? Number(view.fields.cta) : run.ctas[0]);

/** The number of the change that is shown: the last that is not after the moment of the link, or the first at which most is held. */
function changeOf(run) {
  const wanted = view.fields.moment || "";
  if (!/^\d+$/.test(wanted)) {
    const held = run.changes.map((place) => heldAt(run, place).length);
    return held.indexOf(Math.max(...held));
  }
  const later = run.changes.findIndex((place) => run.moments[place][0] > Number(wanted));
  return later < 0 ? run.changes.length - 1 : Math.max(0, later - 1);
}

/** Intervals of the CTA that is shown, with names: what is drawn over the others comes last. */
function intervalsOf(run) {
  const cta = ctaOf(run);
  const named = run.intervals.map(([of, role, lanes, start, stop, first, last], number) => ({ number, of, role, lanes, start, stop, first, last }));
  return named.filter((each) => each.of === cta).sort((x, y) => (x.role === ALLOCATED ? -1 : x.role) - (y.role === ALLOCATED ? -1 : y.role));
}

const heldAt = (run, place) => intervalsOf(run).filter((each) => each.first <= place && place <= each.last);

const addressOf = (lane, column) => `0x${(lane * 65536 + column).toString(16).padStart(8, "0")}`;
const runWords = (first, last) => (first === last ? `${first}` : `${first} to ${last}`);
const lanesWords = (each) => each.lanes.map(([first, last]) => runWords(first, last)).join(", ");

/** An instruction in words: `tcgen05.cp, line 45`. */
function momentWords(run, place) {
  const [, line, opcode] = run.moments[place];
  return opcode ? `${opcode}, line ${line}` : "the start";
}

/** What one cell holds, in words. */
function cellWords(run, place, lane, column) {
  const here = heldAt(run, place).filter((each) => each.start <= column && column < each.stop && each.lanes.some(([first, last]) => first <= lane && lane <= last));
  const where = `lane ${lane}, column ${column}, address ${addressOf(lane, column)}`;
  const top = here[here.length - 1];
  if (!top) return `${where}: not allocated`;
  if (top.role === ALLOCATED) return `${where}: allocated by ${momentWords(run, top.first)}, holds nothing`;
  const begun = top.first ? `written first by ${momentWords(run, top.first)}` : "there from the start";
  return `${where}: ${DATA.roles[top.role].name}, ${begun}; last touched by ${momentWords(run, top.last)}`;
}

const share = (part, whole) => `${+((100 * part) / whole).toFixed(4)}%`;

/** A box of the map or of the strip, in percent of what it lies in. */
const boxHtml = (each, left, top, width, height, name) =>
  `<div class="held o${each.role}${each.role === ALLOCATED ? " allocated" : ""}" data-interval="${each.number}" style="left:${left};top:${top};width:${width};height:${height}">${name ? `<span>${escaped(name)}</span>` : ""}</div>`;

/** The columns that the map shows: the first, and the one behind the last. */
function columnsShown() {
  const part = /^[0-7]$/.test(view.fields.zoom || "") ? Number(view.fields.zoom) : null;
  return part === null ? [0, COLUMNS] : [ZOOMED * part, ZOOMED * (part + 1)];
}

/** All lanes, and all columns or a part of them, after one instruction. */
function mapHtml(run, place) {
  const [left, right] = columnsShown();
  const boxes = heldAt(run, place).flatMap((each) => {
    const [start, stop] = [Math.max(each.start, left), Math.min(each.stop, right)];
    if (start >= stop) return [];
    return each.lanes.map(([first, last]) => {
      const fits = each.role !== ALLOCATED && (stop - start) / (right - left) >= 1 / 20 && last - first >= 15;
      return boxHtml(each, share(start - left, right - left), share(first, LANES), share(stop - start, right - left), share(last + 1 - first, LANES), fits ? DATA.roles[each.role].name : "");
    });
  });
  const lanes = range(4).map((i) => `<b style="top:${25 * i}%">L${32 * i}</b>`);
  const step = (right - left) / 8;
  const columns = range(8).map((i) => `<b style="left:${12.5 * i}%">${left + step * i}</b>`);
  return `<div class="columns" aria-hidden="true">${columns.join("")}</div><div class="lanes" aria-hidden="true">${lanes.join("")}</div><div id="cells-held" class="frame" tabindex="0" role="application" aria-roledescription="map" aria-label="128 lanes by columns ${left} to ${right - 1}: arrow keys move by a lane or a column, page keys by a warp, Home and End to the edges" aria-describedby="cell-held">${boxes.join("")}<i id="pointer" hidden></i></div>`;
}

/** A line for each place that holds something, with the times over the changes from left to right, as wide as the slider. */
function timesHtml(run, change) {
  const count = run.changes.length;
  const before = (place) => run.changes.filter((each) => each < place).length;
  const until = (place) => run.changes.filter((each) => each <= place).length;
  const lines = new Map();
  for (const each of intervalsOf(run).filter((one) => one.role !== ALLOCATED)) {
    const name = `${DATA.roles[each.role].name} ${runWords(each.start, each.stop - 1)}`;
    const key = `${name} ${lanesWords(each)}`;
    if (!lines.has(key)) lines.set(key, { name, start: each.start, role: each.role, bars: [] });
    const from = before(each.first);
    lines.get(key).bars.push(boxHtml(each, share(from, count), "0", share(Math.max(until(each.last) - from, 1), count), "100%", ""));
  }
  const html = [...lines.values()].sort((x, y) => x.start - y.start || x.role - y.role).map(({ name, bars }) => `<span>${escaped(name)}</span><div class="bars">${bars.join("")}<i class="now" style="left:${share(change, count)};width:${share(1, count)}"></i></div>`);
  return html.join("");
}

/** What is held, in a table: the map in words. */
function heldHtml(run, place) {
  const rows = heldAt(run, place)
    .filter((each) => each.role !== ALLOCATED)
    .sort((x, y) => x.start - y.start || x.first - y.first)
    .map((each) => {
      const text = (of) => run.lines[run.moments[of][1]] || "";
      const when = (of) => `<td title="${escaped(text(of))}">${escaped(momentWords(run, of))}</td>`;
      return `<tr data-interval="${each.number}"><td><span class="chip o${each.role}"></span>${escaped(DATA.roles[each.role].name)}</td><td>${runWords(each.start, each.stop - 1)}</td><td>${lanesWords(each)}</td>${when(each.first)}${when(each.last)}</tr>`;
    });
  if (!rows.length) return "<p>Nothing is held.</p>";
  const heads = ["holds", "columns", "lanes", "written first by", "last touched by"].map((name) => `<th scope="col">${name}</th>`);
  return `<table class="facts"><thead><tr>${heads.join("")}</tr></thead><tbody>${rows.join("")}</tbody></table>`;
}

function legendHtml(run) {
  const used = new Set(run.intervals.map((each) => each[1]));
  const chips = DATA.roles.map((role, i) => (used.has(i) ? `<span class="chip o${i}${i === ALLOCATED ? " allocated" : ""}"></span>${i === ALLOCATED ? "allocated, holds nothing" : escaped(role.name)}` : ""));
  return `<p class="legend">${chips.join("")}<span class="chip free"></span>not allocated</p>`;
}

/** Draws the panel: all of it when it opens or shows another run, else what depends on the moment. */
function drawMemory() {
  const box = $("memory");
  const run = runShown();
  document.querySelector("[data-action=memory]").classList.toggle("on", Boolean(run));
  box.hidden = !run;
  if (!run) return box.replaceChildren();
  const key = `${run.name} ${ctaOf(run)}`;
  if (box.dataset.shows !== key || !box.firstChild) {
    box.dataset.shows = key;
    const option = (value, text, on) => `<option value="${escaped(String(value))}"${on ? " selected" : ""}>${escaped(text)}</option>`;
    const names = DATA.runs.map((each) => option(each.name, each.name, each === run));
    const pick = DATA.runs.length > 1 ? `<select id="run" aria-label="program">${names.join("")}</select>` : `<b>${escaped(run.name)}</b>`;
    const ctas = run.ctas.length > 1 ? ` <label>CTA <select data-field="cta">${run.ctas.map((cta) => option(cta, String(cta), cta === ctaOf(run))).join("")}</select></label>` : "";
    const missing = run.left_out ? ` <span class="bad">${run.left_out} later intervals are left out</span>` : "";
    box.innerHTML = `<h2>Tensor Memory over a run of ${pick}${ctas}: ${run.count} instructions touch it${missing}</h2>${legendHtml(run)}
<div class="time"><span><button data-action="earlier" aria-label="change before" title="change before">&larr;</button><button data-action="later" aria-label="change after" title="change after">&rarr;</button> time</span><input type="range" id="moment" min="0" max="${run.changes.length - 1}" step="1" aria-label="moment of change"></div>
<div id="times" class="time" aria-hidden="true"></div><p id="moment-text" role="status" aria-live="polite"></p><p><label>columns <select data-field="zoom"><option value="">0 to 511</option>${range(COLUMNS / ZOOMED).map((i) => `<option value="${i}">${ZOOMED * i} to ${ZOOMED * (i + 1) - 1}</option>`).join("")}</select></label></p><div id="map-box"></div><p id="cell-held" role="status" aria-live="polite"></p><div id="list-held"></div>`;
  }
  drawMoment(run);
}

function drawMoment(run) {
  const change = changeOf(run);
  const place = run.changes[change];
  const [number, line] = run.moments[place];
  const slider = $("moment");
  slider.value = String(change);
  document.querySelector("#memory [data-field=zoom]").value = columnsShown()[1] === COLUMNS && !columnsShown()[0] ? "" : String(columnsShown()[0] / ZOOMED);
  slider.setAttribute("aria-valuetext", `moment ${number}, after ${momentWords(run, place)}`);
  const text = run.lines[line];
  $("moment-text").innerHTML = `change ${change + 1} of ${run.changes.length}, moment ${number} of ${run.count}: after <b>${escaped(momentWords(run, place))}</b>${text ? ` <code>${escaped(text)}</code>` : ""}`;
  $("times").innerHTML = timesHtml(run, change);
  const held = document.activeElement === $("cells-held");
  $("map-box").innerHTML = mapHtml(run, place);
  $("list-held").innerHTML = heldHtml(run, place);
  for (const [name, by] of [["earlier", -1], ["later", 1]]) document.querySelector(`[data-action=${name}]`).disabled = change + by < 0 || change + by >= run.changes.length;
  if (held) $("cells-held").focus({ preventScroll: true });
  pointAt(placeOf());
}

/** The cell of the link: `LANE.COLUMN`. */
function placeOf() {
  const found = /^(\d+)\.(\d+)$/.exec(view.fields.place || "");
  return found && Number(found[1]) < LANES && Number(found[2]) < COLUMNS ? [Number(found[1]), Number(found[2])] : null;
}

/** Marks a cell of the map, and says what it holds. */
function pointAt(at) {
  const run = runShown();
  const pointer = $("pointer");
  const [left, right] = columnsShown();
  pointer.hidden = !at || at[1] < left || at[1] >= right;
  $("cell-held").textContent = at ? cellWords(run, run.changes[changeOf(run)], ...at) : "Point at a cell, or move in the map with the arrow keys: its address, what it holds, and who wrote it.";
  if (at) Object.assign(pointer.style, { left: share(at[1] - left, right - left), top: share(at[0], LANES), width: share(1, right - left), height: share(1, LANES) });
}

function toChange(by) {
  const run = runShown();
  if (run) toNumber(limited(changeOf(run) + by, run.changes.length));
}

/** Shows a change by its number; sliding is no step of the history. */
function toNumber(change) {
  const run = runShown();
  go({ moment: String(run.moments[run.changes[change]][0]) }, true);
}

/** The cell under a pointer. */
function cellUnder(event) {
  const map = $("cells-held");
  const box = map.getBoundingClientRect();
  const part = (at, size, count) => limited(Math.floor((at / size) * count), count);
  const [left, right] = columnsShown();
  return [part(event.clientY - box.top - map.clientTop, map.clientHeight, LANES), left + part(event.clientX - box.left - map.clientLeft, map.clientWidth, right - left)];
}

const STRIDES = { ...MOVES, PageUp: [-32, 0], PageDown: [32, 0] };

function startMemory() {
  const box = $("memory");
  const inMap = (event) => event.target.closest && event.target.closest("#cells-held");
  box.addEventListener("input", (event) => {
    if (event.target.id === "moment") toNumber(Number(event.target.value));
  });
  box.addEventListener("mousemove", (event) => {
    if (inMap(event)) pointAt(cellUnder(event));
    const row = event.target.closest("[data-interval]");
    for (const each of box.querySelectorAll("[data-interval]")) each.classList.toggle("lit", Boolean(row) && each.dataset.interval === row.dataset.interval);
  });
  box.addEventListener("mouseleave", () => {
    if (!runShown()) return;
    pointAt(placeOf());
    for (const each of box.querySelectorAll(".lit")) each.classList.remove("lit");
  });
  box.addEventListener("click", (event) => {
    const bars = event.target.closest(".bars");
    const run = runShown();
    if (inMap(event)) go({ place: cellUnder(event).join(".") }, true);
    if (!bars || !run) return;
    const { left, width } = bars.getBoundingClientRect();
    toNumber(limited(Math.floor(((event.clientX - left) / width) * run.changes.length), run.changes.length));
  });
  box.addEventListener("keydown", (event) => {
    const move = STRIDES[event.key];
    if (!inMap(event) || !move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    const [at, [left, right]] = [placeOf(), columnsShown()];
    const column = (from) => Math.min(Math.max(left, from), right - 1);
    go({ place: (at ? [limited(at[0] + move[0], LANES), column(at[1] + move[1])] : [0, left]).join(".") }, true);
  });
}
