/** The stops of the tour, taken by its own buttons: words, what is lit, and what else the page shows; then its end. */
async function run() {
  const tour = document.getElementById("tour");
  const lit = () => Object.fromEntries([...document.querySelectorAll("#panels .panel")].map((panel) => [panel.dataset.panel, [...panel.querySelectorAll("td.lit")].map((cell) => [+cell.dataset.row, +cell.dataset.column])]));
  const hidden = tour.hidden;
  document.querySelector('#info [data-stop="0"]').click();
  const stops = [];
  for (;;) {
    const box = tour.getBoundingClientRect();
    const changed = document.querySelectorAll("[data-panel=d] td.changed").length;
    stops.push({ words: tour.querySelector("p").textContent, lit: lit(), changed, cards: document.querySelectorAll("#compare:not([hidden]) article").length, seen: box.top >= 0 && box.bottom <= innerHeight });
    if (document.activeElement.textContent === "close") break;
    document.activeElement.click();
  }
  const linked = location.hash;
  document.activeElement.click();
  return { hidden, stops, linked, after: [tour.hidden, location.hash] };
}
