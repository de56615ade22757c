async function run() {
  const options = (id) => [...document.getElementById(id).options].map((option) => option.value).filter(Boolean);
  const input = (text) => {
    const find = document.getElementById("find");
    find.value = text;
    find.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const found = [];
  set(document.getElementById("family"), "mma.sp");
  set(document.getElementById("type"), "bf16");
  set(document.getElementById("ordered"), "false");
  found.push(options("forms"));
  click(document.querySelector("[data-action=clear]"));
  input("mma.sp k64 e5m2 kind::f8f6f4");
  found.push(options("forms"));
  input("mma.sp.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16");
  found.push(options("forms"));
  document.getElementById("find").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  found.push([view.model.form.opcode]);
  input("nothing of the kind");
  found.push(options("forms"));
  input("");
  const times = [];
  for (const opcode of TEST) {
    const start = performance.now();
    showForm(opcode);
    document.body.getBoundingClientRect();
    times.push(performance.now() - start);
  }
  click(panelOf("a").querySelector("td"));
  const svg = asSvg(panelOf("a"));
  const parsed = new DOMParser().parseFromString(svg, "image/svg+xml");
  return { found, times, svg: [parsed.documentElement.tagName, parsed.querySelectorAll("rect[data-row]").length] };
}
