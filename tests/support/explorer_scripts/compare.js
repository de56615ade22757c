/** What the comparison says of elements, by instruction. */
async function run() {
  const found = [];
  for (const [opcode, row, s] of TEST) {
    show(readFragment(`#form=${opcode}&at=a.${row}.${s}&compare=on`));
    for (const card of document.querySelectorAll("#compare article")) {
      const facts = Object.fromEntries([...card.querySelectorAll("dt")].map((dt) => [dt.textContent, dt.nextElementSibling.textContent]));
      const chosen = card.querySelector("td.chosen");
      found.push([opcode, row, s, card.querySelector("code").textContent, facts, chosen && [+chosen.dataset.row, +chosen.dataset.column, +chosen.textContent]]);
    }
  }
  const cards = [...document.querySelectorAll("#compare article")];
  click(cards[cards.length - 1].querySelector('td[data-row="2"][data-column="3"]'));
  return { found, at: atText(view.at), chosen: [...document.querySelectorAll("#compare td.chosen")].map((cell) => [+cell.dataset.row, +cell.dataset.column]), operands: DATA.warpgroups.map((form) => {
    const model = new Model(form, {});
    return [form.opcode, range(64).flatMap((row) => range(model.operands.a.columns).map((s) => { const p = model.operands.a.place(row, s); return [row, s, p.lane, p.word, p.low]; })), range(64).flatMap((row) => range(8).map((n) => { const p = model.operands.d.place(row, n); return [row, n, p.lane, p.word]; }))];
  }) };
}
