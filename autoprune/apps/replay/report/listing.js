// The list of conversations: sorted by what a button names, and its first ones until all are asked for. Decodes their data.

import { arrange, at, element } from "./dom.js";
import { count } from "./numbers.js";

const FIRST = 20; // conversations
const KEYS = [["saving", "what it would save"], ["cost", "cost"], ["date", "date"]];

/** Add the buttons to the list of conversations. */
export function sortable() {
  const list = at("conversations");
  if (!list || list.children.length < 2) return;
  const rows = [...list.children], more = element("button", "more");
  let key = KEYS[0][0], shown = FIRST;
  const show = () => {
    rows.sort((one, other) => one.dataset[key] - other.dataset[key]);
    arrange(list, rows);
    rows.forEach((row, place) => (row.hidden = place >= shown && !row.open));
    buttons.forEach((each, place) => each.setAttribute("aria-pressed", KEYS[place][0] === key));
    more.hidden = rows.length <= shown;
  };
  const buttons = KEYS.map(([name, text]) => button(element("button", "", text), () => ([key] = [name], show())));
  at("sort").append("Sort by ", ...buttons);
  list.after(button(more, () => ((shown = Infinity), show())));
  more.textContent = `Show all ${count(rows.length)}`;
  show();
}

function button(made, act) {
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

/** Return the data in a script element: gzip in base64. */
export async function unpack(node) {
  const bytes = Uint8Array.from(atob(node.textContent), each => each.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
