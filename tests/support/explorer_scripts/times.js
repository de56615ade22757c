/** First paint, and how long a switch of forms takes until what is in sight is laid out anew, as a visitor has it: panels below the others come later. */
async function run() {
  pending.later = true;
  const shown = performance.now();
  const paint = await new Promise((told) => {
    const seen = () => performance.getEntriesByType("paint").find((entry) => entry.name === "first-contentful-paint");
    const look = (tries) => (seen() || !tries ? told(seen() ? seen().startTime : -1) : setTimeout(look, 50, tries - 1));
    look(40);
  });
  const once = (opcode) => {
    const start = performance.now();
    show(readFragment(`#form=${opcode}`));
    document.body.getBoundingClientRect();
    return performance.now() - start;
  };
  const found = new Map(TEST.map((opcode) => [opcode, []]));
  for (let i = 0; i < 10; i++)
    for (const opcode of TEST) {
      found.get(opcode).push(once(opcode));
      await wait();
      drawPending();
    }
  return { paint, shown, switches: [...found].map(([opcode, [first, ...times]]) => [opcode, first, times.sort((x, y) => x - y)]) };
}
