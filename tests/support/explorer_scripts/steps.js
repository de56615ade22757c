/** Each step of an element, what it says and lights; playing; and the pictures. */
async function run() {
  show(readFragment(TEST));
  const steps = [];
  const lit = () => Object.fromEntries([...document.querySelectorAll("#panels .panel")].map((panel) => [panel.dataset.panel, [...panel.querySelectorAll("td.lit")].map((cell) => [+cell.dataset.row, +cell.dataset.column])]));
  for (let i = 0; i < stepsOf(view.model, view.result, view.at).length; i++) {
    press("]");
    steps.push([document.querySelector('[aria-current="step"]').textContent, document.getElementById("info").textContent, lit()]);
  }
  const shared = location.hash;
  press("]");
  const after = currentStep(stepsOf(view.model, view.result, view.at));
  press("p");
  const playing = [Boolean(why.timer), currentStep(stepsOf(view.model, view.result, view.at))];
  press("p");
  const picture = viewSvg();
  const parsed = new DOMParser().parseFromString(picture.svg, "image/svg+xml");
  const png = await asPng(picture, 1);
  const bitmap = await createImageBitmap(png);
  show(readFragment(`${location.hash}&e=default,20:DC1898FE&compare=on`));
  const marked = new DOMParser().parseFromString(viewSvg().svg, "image/svg+xml");
  const dashed = [...marked.querySelectorAll("rect[stroke-dasharray]")].map((rect) => [+rect.dataset.row, +rect.dataset.column]);
  const underlined = [...marked.querySelectorAll("text[text-decoration]")].map((text) => text.textContent);
  const cards = [...marked.querySelectorAll('text[font-weight="bold"][font-size="12"]')].map((text) => text.textContent);
  set(document.getElementById("theme"), "dark");
  const theme = [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor, /theme=dark/.test(location.hash)];
  return { steps, shared, after, playing, paused: !why.timer, cells: parsed.querySelectorAll("rect[data-lane]").length, wrong: parsed.querySelectorAll("parsererror").length, png: [png.type, bitmap.width === picture.width, bitmap.height === picture.height], marks: [dashed, underlined, cards], theme };
}
