/** Questions of many seeds; and a right and a wrong answer given on the page. */
async function run() {
  const models = new Map();
  const asked = TEST.map(([opcode, seed]) => {
    const model = models.get(opcode) || new Model(DATA.forms.find((form) => form.opcode === opcode), {});
    models.set(opcode, model);
    const result = model.result(model.sparsity ? model.defaultWords : null);
    const question = questionOf(model, result, seed);
    return question && [opcode, question.text, question.answer, question.answers, [...(result.words || [])]];
  });
  show(readFragment(`#form=${TEST[0][0]}`));
  document.querySelector("[data-action=quiz]").click();
  const blank = getComputedStyle(document.querySelector("#panels td[data-lane]")).color;
  const steps = [];
  for (const right of [true, false]) {
    const { answer } = questionOf(view.model, view.result, quizSeed());
    const buttons = [...document.querySelectorAll("[data-answer]")];
    buttons.find((button) => (button.dataset.answer === answer) === right).click();
    steps.push([document.getElementById("quiz").textContent, Boolean(view.at), document.body.classList.contains("asking")]);
    document.querySelector("[data-action=ask]").click();
  }
  document.querySelector('#quiz [data-action="quiz"]').click();
  return { asked, blank, steps, ended: document.getElementById("quiz").hidden };
}
