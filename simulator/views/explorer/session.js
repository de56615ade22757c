"use strict";
// What the page remembers of a visit: steps that can be undone, and light or dark.

const steps = { past: [], future: [] };

/** Remembers the address that is left. */
function remember(hash) {
  steps.past.push(hash);
  steps.future.length = 0;
  markSteps();
}

/** Goes back (or forward again) by one change. */
function undo(from = steps.past, to = steps.future) {
  if (!from.length) return;
  to.push(location.hash);
  history.replaceState(null, "", from.pop() || location.pathname + location.search);
  markSteps();
  show(readFragment(location.hash));
}

const redo = () => undo(steps.future, steps.past);

function markSteps() {
  document.querySelector("[data-action=undo]").disabled = !steps.past.length;
  document.querySelector("[data-action=redo]").disabled = !steps.future.length;
}

const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

const paper = { on: false }; // while the page is printed, which is always light

const isDark = () => !paper.on && (view.fields.theme ? view.fields.theme === "dark" : systemDark.matches);

/** Light or dark, as the link, the choice or the system says. */
function applyTheme() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  $("theme").value = view.fields.theme || "";
}

/** The colour of a lane on a dark page: a third of its light, so that white text has a contrast of 7 or more. */
const darkened = (colour, light = 0.32) => `#${[1, 3, 5].map((i) => Math.round(light * parseInt(colour.slice(i, i + 2), 16)).toString(16).padStart(2, "0")).join("")}`;
