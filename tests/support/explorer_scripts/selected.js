async function run() {
  return TEST.map(([opcode, open, words]) => {
    const model = new Model(
      DATA.forms.find((form) => form.opcode === opcode),
      open,
    );
    return words.map((list) => {
      const selection = model.select(Uint32Array.from(list));
      const rows = range(model.rows);
      const columns = rows.map((row) => range(model.stored).map((s) => selection.columns(row, s)));
      return {
        columns: TEST.short ? [] : columns,
        findings: selection.findings,
        codes: rows.map((row) => range(model.chunks).map((chunk) => selection.code(row, chunk))),
      };
    });
  });
}
