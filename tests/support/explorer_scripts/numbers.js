async function run() {
  return TEST.map(([opcode, selector, words]) => {
    const model = new Model(
      DATA.forms.find((form) => form.opcode === opcode),
      { selector },
    );
    const grid = (rows, columns, value) => range(rows).map((row) => range(columns).map((column) => value(row, column)));
    const columns = model.view.columns;
    return {
      a: grid(model.rows, model.stored, (row, s) => model.a(row, s)),
      b: grid(model.view.k, columns * model.view.blocks, (k, n) => model.b(k, n)),
      c: grid(model.rows, columns, (row, n) => model.c(row, n)),
      d: words.map((list) => [...model.result(Uint32Array.from(list)).d]),
      default: model.sparsity ? [...model.defaultWords] : [],
      random: model.sparsity ? [...model.randomWords(1)] : [],
    };
  });
}
