async function run() {
  const lit = (name) => [...panelOf(name).querySelectorAll("td.lit")].map((cell) => [...numbersOf(cell), cell.dataset.bits]);
  return TEST.map(([opcode, fields]) => {
    showForm(opcode);
    for (const [name, value] of Object.entries(fields)) set(document.querySelector(`[data-field=${name}]`), value);
    const shot = () => ({
      a: lit("tmem-a"),
      e: lit("tmem-e"),
      d: [...view.panels.find((p) => p.name === "d").lit].map((key) => [Math.floor(key / WIDTH), key % WIDTH]),
      rows: panelOf("logical").querySelector("tbody th").textContent,
    });
    click(cellOf("tmem-e", 21, 3));
    const code = shot();
    click(document.querySelector('[data-choose-lane="53"]'));
    const { m, n, base, tmem, selector, ids } = view.model;
    return { opcode, m, n, base, tmem, selector, ids, code, lane: shot(), words: [...view.result.words] };
  });
}
