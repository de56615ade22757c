"use strict";
// A quiz about the form that is shown. A question and its answers follow from the seed in the address, so a link asks the same again.

const quiz = { right: 0, asked: 0, given: null };

/** Kinds of questions; each makes {text, answer, other: a random answer, at, why}, or null where the form has no such thing. */
const QUESTIONS = [
  (model, result, pick) => whereQuestion(model, result, pick, "lane", (operand, place) => (operand.tmem ? "L" : "T") + place.lane, "Which lane holds"),
  (model, result, pick) => {
    const { a } = model.operands;
    return a && a.parts * a.words > 1 ? whereQuestion(model, result, pick, "bits", (operand, place) => `${operand.wordName(place.word)}${operand.bitsName(place)}`, "Which bits of its lane hold") : null;
  },
  (model, { selection }, pick) => {
    if (!model.sparsity) return null;
    const { e } = model.operands;
    const [row, chunk] = [pick(e.rows), pick(e.columns)];
    const width = model.sparsity.chunk;
    const name = (r, c) => e.nameOf(e.place(r, c));
    return {
      text: `Which bits of the metadata choose among A[${row}][${chunk * width}..${(chunk + 1) * width - 1}]?`,
      answer: name(row, chunk),
      other: () => name(pick(e.rows), pick(e.columns)),
      at: { name: "e", row, column: chunk },
      why: `${codeText(model, selection, row, chunk)}.${formulaLines(model, "e", row, chunk)}`,
    };
  },
  (model, result, pick) => {
    if (!model.sparsity || !model.multiplies) return null;
    const [row, s] = [pick(model.rows), pick(model.stored)];
    const ks = result.selection.columns(row, s);
    if (ks.length > 1) return null;
    const chunk = chunkOf(model, s);
    const value = result.selection.code(row, chunk);
    return {
      text: `The code of row ${row}, chunk ${chunk} is ${binary(value)}. Which row of B does stored column ${s} multiply?`,
      answer: `row ${ks[0]}`,
      other: () => `row ${limited(chunk * model.sparsity.chunk - 2 + pick(model.sparsity.chunk + 4), model.view.k)}`,
      at: { name: "a", row, column: s },
      why: DESCRIBE.a(model, result, { row, column: s }),
    };
  },
  (model, result, pick) => {
    const { d } = model.operands;
    const [row, column] = [pick(d.rows), pick(d.columns)];
    const name = (r, c) => d.nameOf(d.place(r, c));
    const why = `D[${row}][${column}] is ${code(name(row, column))}.${formulaLines(model, "d", row, column)}`;
    return { text: `Where is D[${row}][${column}]?`, answer: name(row, column), other: () => name(pick(d.rows), pick(d.columns)), at: { name: "d", row, column }, why };
  },
];

/** Of an element of A, as the instruction means it where the form is sparse. */
function whereQuestion(model, result, pick, kind, name, words) {
  const { a } = model.operands;
  if (!a) return null;
  const [row, s] = [pick(a.rows), pick(a.columns)];
  const what = model.sparsity ? `stored column ${s} of row ${row} of A, ${nameOfA(result.selection, row, s)}` : `A[${row}][${s}]`;
  return {
    text: `${words} ${what}?`,
    answer: name(a, a.place(row, s)),
    other: () => name(a, a.place(pick(a.rows), pick(a.columns))),
    at: { name: "a", row, column: s },
    why: DESCRIBE.a(model, result, { row, column: s }),
  };
}

/** The question of a seed: four answers at most, in an order that the seed determines. */
function questionOf(model, result, seed) {
  const next = sequence(seed);
  const pick = (count) => Math.floor(next() * count);
  let question = null;
  for (let i = pick(QUESTIONS.length), tries = 0; !question && tries < 25; i++, tries++) question = QUESTIONS[i % QUESTIONS.length](model, result, pick);
  if (!question) return null;
  const answers = new Set([question.answer]);
  for (let tries = 0; answers.size < 4 && tries < 60; tries++) answers.add(question.other());
  const order = [...answers].map((answer) => [next(), answer]).sort(([x], [y]) => x - y);
  return { ...question, answers: order.map(([, answer]) => answer) };
}

const quizSeed = () => (/^\d+$/.test(view.fields.quiz || "") ? Number(view.fields.quiz) : null);

/** While a question is open: the element that it is about, as what the matrices light up; else null. */
function askedStep() {
  if (quizSeed() === null || quiz.given !== null) return null;
  const question = questionOf(view.model, view.result, quizSeed());
  const { name, row, column } = question ? question.at : {};
  return question && { title: "", lights: [[name, row, column]] };
}

/** The question, or what was right about the answer; matrices are blank while a question is open. */
function drawQuiz() {
  const seed = quizSeed();
  const asking = seed !== null && quiz.given === null;
  document.body.classList.toggle("asking", asking);
  for (const id of ["panels", "lanes", "metadata", "steps"]) $(id).inert = asking;
  document.querySelector("[data-action=quiz]").classList.toggle("on", seed !== null);
  $("quiz").hidden = seed === null;
  if (seed === null) return;
  const question = questionOf(view.model, view.result, seed);
  if (!question) {
    $("quiz").textContent = "There is nothing to ask about this form.";
    return;
  }
  const { text, answer, answers, why: reason } = question;
  const mark = (a) => (quiz.given === null ? "" : a === answer ? ' class="right"' : a === quiz.given ? ' class="wrong"' : "");
  const buttons = answers.map((a) => `<button data-answer="${escaped(a)}"${mark(a)}${quiz.given === null ? "" : " disabled"}>${escaped(a)}</button>`);
  const verdict = quiz.given === null ? "" : `<p role="status"><b>${quiz.given === answer ? "Right." : `No: it is ${escaped(answer)}.`}</b> ${reason}</p>`;
  const score = `<span class="score">${quiz.right} of ${quiz.asked} right</span>`;
  const controls = `<button data-action="ask">${quiz.given === null ? "another" : "next"}</button><button data-action="quiz">end</button> ${score}`;
  $("quiz").innerHTML = `<h2>Quiz</h2><p>${escaped(text)}</p><div class="answers">${buttons.join("")}</div>${verdict}<div>${controls}</div>`;
}

/** Takes an answer, counts it, and shows what was asked about. */
function answerQuiz(given) {
  const question = questionOf(view.model, view.result, quizSeed());
  if (!question || quiz.given !== null) return;
  quiz.given = given;
  quiz.asked += 1;
  if (given === question.answer) quiz.right += 1;
  choose(question.at, true);
  drawQuiz();
  $("quiz").querySelector("[data-action=ask]").focus();
}

function ask() {
  quiz.given = null;
  const seed = (quizSeed() === null ? Date.now() : quizSeed() * 7 + 1) % 1000003;
  go({ quiz: String(seed), at: "", step: "", tour: "" }, true);
  const first = $("quiz").querySelector("[data-answer]");
  if (first) first.focus();
}

function toggleQuiz() {
  if (quizSeed() === null) {
    [quiz.right, quiz.asked] = [0, 0];
    ask();
  } else {
    quiz.given = null;
    go({ quiz: "" }, true);
  }
}
