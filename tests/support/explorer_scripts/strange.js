async function run() {
  return [view.model.form.opcode, view.model.selector, view.at, view.result.words[4], small()];
}
