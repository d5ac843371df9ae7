// The list of cleared results, the newest first. Rows are kept when the list is updated, so open payloads stay open.

import { arrange, at, element, say } from "./dom.js";
import { count, counted } from "./numbers.js";

const MORE = 200; // rows shown at first, and added by the button
const LONGEST = 200_000; // characters of a payload

let owner = null, cleared = [], rows = new Map(), most = MORE;

/** Show the cleared results of a conversation. */
export function list(session) {
  if (owner !== session.name) [owner, rows, most] = [session.name, new Map(), MORE];
  cleared = session.cleared;
  render();
}

function render() {
  const shown = cleared.slice(-most).reverse();
  arrange(at("rows"), shown.map(rowOf));
  const hidden = cleared.length - shown.length;
  at("older").hidden = !hidden;
  say(at("older"), `Show ${count(Math.min(hidden, MORE))} older of ${count(hidden)}`);
  at("no-cleared").hidden = cleared.length > 0;
  at("cleared").hidden = !cleared.length;
}

at("older").addEventListener("click", () => {
  most += MORE;
  render();
});

function rowOf(each) {
  const key = `${each.request}/${each.id}`;
  if (!rows.has(key)) rows.set(key, made(each));
  return rows.get(key);
}

function made(each) {
  const what = element("span", "what", element("b", "", each.tool), " ", each.target);
  what.title = `${each.tool} ${each.target}`;
  const button = element("button");
  button.type = "button";
  name(button, each, false);
  const when = element("span", "when", count(each.request));
  const row = element("div", "row", when, what, element("span", "size", count(each.tokens)), element("span", "why", each.reason), button);
  const item = element("li", "", row);
  button.addEventListener("click", () => toggle(item, button, each));
  return item;
}

function name(button, each, isOpen) {
  button.textContent = isOpen ? "Hide" : "Show";
  button.setAttribute("aria-expanded", String(isOpen));
  button.setAttribute("aria-label", `${button.textContent} what ${each.tool} ${each.target} returned`);
}

/** Show the payload below a row, or hide it. */
async function toggle(item, button, each) {
  const isOpen = item.children.length > 1;
  name(button, each, !isOpen);
  if (isOpen) return item.lastElementChild.remove();
  const shown = element("pre", "", "Loading …");
  shown.tabIndex = 0;
  item.append(shown);
  shown.textContent = await recalled(each.id);
}

async function recalled(id) {
  try {
    const answer = await fetch(`/autoprune/recall/${encodeURIComponent(id)}`);
    const text = await answer.text();
    const left = text.length - LONGEST;
    return left > 0 ? `${text.slice(0, LONGEST)}\n… and ${counted(left, "character")} more` : text;
  } catch {
    return "The proxy does not answer.";
  }
}
