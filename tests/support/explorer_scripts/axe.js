async function run() {
  const found = [];
  for (const hash of TEST) {
    show(readFragment(hash));
    document.getElementById("about").open = true;
    document.querySelectorAll(".menu").forEach((menu, i) => (menu.open = i === 0));
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    for (const { id, nodes } of violations) found.push([hash, id, nodes.length, nodes[0].html.slice(0, 200), nodes[0].failureSummary.slice(0, 300)]);
  }
  return found;
}
