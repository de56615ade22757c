"use strict";
// A first look around: stops that put the page into a state, and say what is to be seen there. What they name is asked of the model.

const TOUR_FORM = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32";
const [TOUR_ROW, TOUR_S] = [5, 6]; // the stored element that the tour follows
const BROKEN = "default,20:DC1898FE"; // two codes of lane 20 with bits flipped

/** The stops: what the page shows, and a text from the model and what it selects. */
const STOPS = [
  {
    at: "",
    text: (model) =>
      `<b>One instruction.</b> A warp of 32 lanes multiplies: D = A \u00d7 B + C, with A of ${model.rows} x ${model.view.k}. Of every ${model.sparsity.chunk} neighbouring columns of A only ${model.sparsity.stored} hold numbers; the hatched ones were pruned. So half of the multiplications can be left out. How does the hardware know which?`,
  },
  {
    at: `a.${TOUR_ROW}.${TOUR_S}`,
    text: (model, { selection }) =>
      `<b>A is stored without its holes</b>, half as wide. The chosen cell, column ${TOUR_S} of row ${TOUR_ROW} as stored, is ${nameOfA(selection, TOUR_ROW, TOUR_S)}: above, the same element lights up where it belongs. Colours are lanes.`,
  },
  {
    at: (model) => `lane.${model.operands.a.place(TOUR_ROW, TOUR_S).lane}`,
    text: (model) =>
      `<b>A lane's share.</b> T${model.operands.a.place(TOUR_ROW, TOUR_S).lane} holds that element, and all that is lit now: pieces of A, B, C and D, each in a register of its own. No lane has a whole row. The box below lists them.`,
  },
  {
    at: `a.${TOUR_ROW}.${TOUR_S}`,
    step: "3",
    text: (model) =>
      `<b>Down to the bits.</b> ${code(placesOf(model, "a", TOUR_ROW, TOUR_S))}: lane, register, bits. Below, <i>why</i> takes an element there in steps, with the formulas; <i>play</i> shows them one after another. Try it, then go on.`,
  },
  {
    at: (model) => `e.${TOUR_ROW}.${chunkOf(model, TOUR_S)}`,
    text: (model, { selection }) => {
      const c = chunkOf(model, TOUR_S);
      return `<b>The metadata.</b> A code of four bits says which ${model.sparsity.stored} of ${model.sparsity.chunk}: here ${code(binary(selection.code(TOUR_ROW, c)))}. It is in ${code(placesOf(model, "e", TOUR_ROW, c))}, a register of another lane. Only the underlined lanes' metadata is read: the <i>selector</i> says which those are.`;
    },
  },
  {
    at: `d.${TOUR_ROW}.2`,
    text: (model) =>
      `<b>What a code does.</b> D[${TOUR_ROW}][2] is a sum of ${model.stored} products, not ${model.view.k}. Of column 2 of B only the lit elements take part: those that the codes of row ${TOUR_ROW} select. Each product is listed below.`,
  },
  {
    at: (model) => `e.${TOUR_ROW}.1`,
    e: BROKEN,
    text: (model, result) =>
      `<b>What if a bit is wrong?</b> Some bits of T20 are flipped. PTX does not define the code ${code(binary(result.selection.code(TOUR_ROW, 1)))}, whose two indices are equal; the chip takes the same row of B twice and says nothing. ${result.d.filter((value, i) => value !== result.before[i]).length} elements of D change: they are dashed. Flip bits yourself; <i>reset</i> repairs them.`,
  },
  {
    at: `a.${TOUR_ROW}.${TOUR_S}`,
    compare: "on",
    text: () =>
      "<b>Three generations.</b> The same element of the same tile in Ampere's, Hopper's and Blackwell's instruction. The code and the row of B are the same. Hopper's warps hold A as Ampere's do, but four work together, and B stays in shared memory. Blackwell has D, and here A, in Tensor Memory: a row is a lane.",
  },
  {
    at: "",
    text: () =>
      `<b>That was all.</b> There are ${DATA.forms.length} forms in the list above. The <i>quiz</i> asks about the one that is shown. <i>copy link</i> shares what you see; <i>undo</i> takes back what you did.`,
  },
];

const tourStop = () => (/^\d+$/.test(view.fields.tour || "") && Number(view.fields.tour) < STOPS.length ? Number(view.fields.tour) : null);

/** Goes to a stop: all that the page shows is set, so that stops can be taken in any order. */
function toStop(number) {
  pause();
  if (number < 0 || number >= STOPS.length) return go({ tour: "", step: "", compare: "" });
  const form = DATA.forms.find((f) => f.opcode === TOUR_FORM);
  const { at, e = "default", step = "", compare = "" } = STOPS[number];
  const place = typeof at === "function" ? at(new Model(form, {})) : at;
  go({ tour: String(number), form: TOUR_FORM, m: "", n: "", base: "", selector: "", scale_a: "", scale_b: "", quiz: "", at: place, e, step, compare });
  const next = $("tour").querySelector("[data-stop]:last-of-type");
  if (next) next.focus({ preventScroll: true });
  window.scrollTo({ top: 0 });
}

/** The text of the stop, and the way on. */
function drawTour() {
  const number = tourStop();
  $("tour").hidden = number === null;
  if (number === null) return;
  const last = number === STOPS.length - 1;
  const back = number ? `<button data-stop="${number - 1}">back</button>` : "";
  const on = last ? `${back}<button data-stop="-1">close</button>` : `<button data-stop="-1">end</button>${back}<button data-stop="${number + 1}">next</button>`;
  const words = view.model.form.opcode === TOUR_FORM ? STOPS[number].text(view.model, view.result) : "Another form is shown. <i>next</i> goes on with the tour's.";
  $("tour").innerHTML = `<div role="status"><h2>Tour, ${number + 1} of ${STOPS.length}</h2><p>${words}</p></div>${on}`;
}
