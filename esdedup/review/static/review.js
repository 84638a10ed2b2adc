// Keys of the pages. An element with data-key is clicked by its key; within an item, only while the
// item has the focus. Elements with data-item are the items that j and k walk through. data-search
// is the field that / goes to.
"use strict";

const WRITING = "input, textarea, select, [contenteditable]";

function visible(element) {
  return element.offsetParent !== null && !element.disabled;
}

function walk(step) {
  const items = [...document.querySelectorAll("[data-item]")].filter(visible);
  if (!items.length) return;
  const at = items.findIndex((item) => item.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : items.length - 1) : at + step;
  const item = items[Math.min(Math.max(next, 0), items.length - 1)];
  item.focus();
  item.scrollIntoView({ block: "nearest" });
}

function showKeys() {
  const keys = document.getElementById("keys");
  if (keys.open) keys.close();
  else keys.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.repeat) return;
  if (event.target instanceof Element && event.target.closest(WRITING)) return;
  if (event.key === "?") {
    event.preventDefault();
    showKeys();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "j" || event.key === "k") {
    event.preventDefault();
    walk(event.key === "j" ? 1 : -1);
  } else if (event.key === "/") {
    event.preventDefault();
    const search = document.querySelector("[data-search]");
    if (search) search.focus();
    else window.location.assign(document.querySelector("nav [data-search-page]").href + "#text");
  } else {
    const item = document.activeElement && document.activeElement.closest("[data-item]");
    if (event.key === "Enter" && item !== document.activeElement) return;
    const found = [...document.querySelectorAll(`[data-key="${CSS.escape(event.key)}"]`)]
      .filter((each) => [item, null].includes(each.closest("[data-item]")))
      .find(visible);
    if (!found) return;
    event.preventDefault();
    found.click();
  }
});

document.addEventListener("click", (event) => {
  const opening = event.target instanceof Element && event.target.closest("[data-open]");
  if (opening) showKeys();
});

// A file is sent as text, in the field that data-into names.
document.addEventListener("change", async (event) => {
  const { into } = event.target.dataset;
  if (into) document.getElementById(into).value = await event.target.files[0].text();
});

// A key that is pressed while the next page loads must not send a form again.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});

let leaving = false;
window.addEventListener("beforeunload", () => {
  leaving = true;
});

// Show the progress of a job, and its result when it ends.
async function follow(shown) {
  try {
    const answer = await fetch(shown.dataset.progress);
    if (answer.status !== 200) {
      // Reloading would stop the page that a person opened just now.
      if (leaving) setTimeout(follow, 3000, shown);
      else window.location.reload();
      leaving = false;
      return;
    }
    shown.innerHTML = await answer.text();
    setTimeout(follow, 700, shown);
  } catch {
    shown.textContent = document.body.dataset.gone;
  }
}

// While a person moves the slider, its line moves, and the pairs at the border follow.
let moved = 0;

async function showBorder(slider) {
  moved += 1;
  const latest = moved;
  const answer = await fetch(`${slider.dataset.border}?other=${slider.value}`);
  if (answer.ok && latest === moved) {
    document.getElementById("border").innerHTML = await answer.text();
  }
}

document.addEventListener("input", (event) => {
  const slider = event.target;
  if (!slider.dataset.border) return;
  const line = document.getElementById("other-line");
  const { left, scale, floor } = line.dataset;
  const x = Number(left) + (Number(slider.value) - Number(floor)) * Number(scale);
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
  document.getElementById("other-value").textContent = slider.value;
  clearTimeout(slider.waiting);
  slider.waiting = setTimeout(showBorder, 150, slider);
});

document.addEventListener("DOMContentLoaded", () => {
  const shown = document.querySelector("[data-progress]");
  if (shown) setTimeout(follow, 300, shown);
  const focus = document.querySelector("[data-focus]");
  if (focus) focus.focus();
  else if (window.location.hash === "#text") document.getElementById("text")?.focus();
});
