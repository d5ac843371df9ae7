// The chosen conversation: a summary, the chart, figures, cleared results and decisions.

import { draw, told } from "./chart.js";
import { list } from "./cleared.js";
import { arrange, at, element, say } from "./dom.js";
import { count, counted, judged, percent, saving, tokens, when } from "./words.js";

const DECISIONS = 100; // the newest are shown

let shown = null, requestAt = () => undefined;

/** Show a conversation with its details. */
export function show(session) {
  shown = session;
  say(at("title"), `${session.client} · ${session.model}`);
  at("title").title = `${session.agent}\n${session.name}`;
  say(at("saving"), saving(session));
  at("saving").className = `saving ${judged(session.saved)}`;
  chart();
  figures(session);
  list(session);
  lines(at("decisions"), session.decisions.slice(-DECISIONS).reverse());
  at("decided").hidden = !session.decisions.length;
  lines(at("notes"), session.notes.map(each => `${each.note} (${counted(each.requests, "request")})`));
  at("noted").hidden = !session.notes.length;
  say(at("prices"), prices(session.saved.prices));
}

function chart() {
  requestAt = draw(at("chart"), shown.points, shown.safe_zone);
  say(at("chart-words"), told(shown.points.at(-1)));
}

function point(event) {
  const found = requestAt(event.clientX - at("chart").getBoundingClientRect().left);
  if (found) say(at("chart-words"), told(found));
}

at("chart").addEventListener("pointermove", point);
at("chart").addEventListener("pointerdown", point);
at("chart").addEventListener("pointerleave", () => shown && chart());
new ResizeObserver(() => shown && chart()).observe(at("chart"));

function figures(session) {
  const { tokens: sums, prompt, points } = session;
  const times = points.map(each => each.seconds).sort((one, other) => one - other);
  const median = times.length ? times[Math.floor(times.length / 2)] : 0;
  const smaller = sums.before ? `${percent(1 - sums.after / sums.before)} less than ${tokens(sums.before)}` : "";
  const rows = [
    ["requests", count(session.requests), `since ${when(session.started)}`],
    ["last prompt", tokens(prompt.after), `${tokens(prompt.before)} without pruning`],
    ["sent in total", tokens(sums.after), smaller],
    ["results cleared", count(session.results_cleared), `safe zone ${tokens(session.safe_zone)}`],
    ["pruning takes", `${Math.max(1, Math.round(1_000 * median))} ms`, "median"],
    ["refused · failed", `${count(session.refused)} · ${count(session.failed)}`, "by the provider · without an answer"],
  ];
  if (session.cache.from) rows.push(["cache lives", session.cache.life, session.cache.from]);
  if (session.saved.cold) rows.push(["saved when cold", tokens(session.saved.cold), "at no extra cost: the cache had expired"]);
  at("figures").replaceChildren(
    ...rows.map(([name, value, beside]) => element("div", "", element("dt", "", name), element("dd", "", value, element("small", "", beside)))),
  );
}

/** Set the lines of a list. */
function lines(parent, texts) {
  if (parent.children.length !== texts.length) arrange(parent, texts.map(() => element("li")));
  texts.forEach((text, place) => say(parent.children[place], text));
}

function prices({ write, read, note }) {
  const priced = `${write} for a token written to the provider’s cache and ${read} for one read from it`;
  return `Input tokens are weighted by price: ${priced}${note ? ` (${note})` : ""}. Savings are what smaller prompts cost less, minus what was written to the cache again after each change, and minus the cost of cleared results that were fetched again.`;
}
