"use strict";
// The slider selects a time in the timeline. The graph shows the state at that time.
const slider = document.getElementById("slider");
const when = document.getElementById("when");
const lines = document.getElementById("lines");
const scroll = lines.parentElement;
const width = Number(lines.getAttribute("width"));
const now = document.createElementNS(lines.namespaceURI, "line");
now.id = "now";
now.setAttribute("y1", "0");
now.setAttribute("y2", lines.getAttribute("height"));
lines.appendChild(now);

// Returns the last change of each object up to position x.
function until(changes, x) {
  const last = new Map();
  for (const [at, what, how] of changes) {
    if (at > x) break;
    last.set(what, how);
  }
  return last;
}

function redraw() {
  const x = (Number(slider.value) / 1000) * width;
  const up = until(cables, x);
  document.querySelectorAll(".cable").forEach((line) => {
    const ends = up.get(Number(line.id.slice(1))) || 0;
    line.classList.toggle("half", ends === 1);
    line.classList.toggle("down", ends === 0);
  });
  const hangs = until(parents, x);
  document.querySelectorAll(".parent").forEach((line) => {
    const node = Number(line.id.slice(1));
    const parent = hangs.has(node) ? hangs.get(node) : -1;
    const here = document.getElementById("n" + node);
    const there = document.getElementById("n" + parent) || here;
    line.setAttribute("x2", there.getAttribute("cx"));
    line.setAttribute("y2", there.getAttribute("cy"));
    here.classList.toggle("none", parent < 0 && !here.classList.contains("root"));
  });
  let label = "the beginning";
  for (const [at, roundTrips] of ticks) {
    if (at > x) break;
    label = roundTrips + " round trips";
  }
  when.textContent = label;
  now.setAttribute("x1", x);
  now.setAttribute("x2", x);
}

slider.addEventListener("input", () => {
  redraw();
  scroll.scrollLeft = (Number(slider.value) / 1000) * width - scroll.clientWidth / 2;
});
// A click on the timeline moves the slider there.
lines.addEventListener("click", (event) => {
  const x = event.clientX - lines.getBoundingClientRect().left;
  slider.value = Math.round((x / width) * 1000);
  redraw();
});
document.querySelectorAll(".choices input").forEach((box) => {
  box.addEventListener("change", () => {
    const chosen = `.arrow.${box.value}, .mark.${box.value}`;
    lines.querySelectorAll(chosen).forEach((shape) => shape.classList.toggle("hidden", !box.checked));
  });
});
redraw();
