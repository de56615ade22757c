async function run() {
  const forms = [];
  for (const form of DATA.forms)
    for (const v of form.views)
      for (const selector of form.selectors || [0])
        for (const [i, ids] of idsOf(v).entries()) {
          if (selector && i) continue;
          const model = new Model(form, { ...v, selector, ...ids });
          const operands = Object.fromEntries(Object.entries(model.operands).map(([name, operand]) => [name, OPERANDS.indexOf(operand)]));
          const { m, n, base, tmem } = model;
          forms.push({ opcode: form.opcode, m, n, base, tmem, selector: model.selector, ids: model.ids, operands });
        }
  const operands = DATA.operands.map((_, number) => {
    const operand = operandOf(number);
    const { rows, columns, copies } = operand;
    const found = { shape: [rows, columns, copies] };
    const places = new Uint8Array(4 * rows * columns * copies);
    let at = 0;
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++)
        for (let copy = 0; copy < copies; copy++) {
          const place = operand.place(row, column, copy);
          places.set([place.lane, place.word, place.low, place.high], at);
          at += 4;
        }
    found.places = bytes(places);
    let held = 0;
    for (let lane = 0; lane < operand.lanes; lane++)
      for (let word = 0; word < operand.words; word++)
        for (let part = 0; part < operand.parts; part++) {
          const element = operand.element(lane, word, part);
          if (!element) continue;
          const place = operand.place(...element);
          if (place.lane !== lane || place.word !== word || place.low !== part * operand.bits)
            throw new Error(`operand ${number}: ${element} is not at ${lane}, ${word}, ${part}`);
          held++;
        }
    const last = [rows - 1, columns - 1, copies - 1];
    return {
      ...found,
      held,
      last,
      name: operand.nameOf(operand.place(...last)),
      formulas: operand.formulas(last),
      back: operand.formulas(last, false),
    };
  });
  return { forms, operands };
}
function idsOf(v) {
  const keys = (name) => Object.keys(v.operands[name] || { "": 0 });
  return keys("scale_a").flatMap((a, i) =>
    keys("scale_b")
      .filter((b, j) => !i || !j)
      .map((b) => ({ scale_a: a, scale_b: b })),
  );
}
