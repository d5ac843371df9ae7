// The chosen conversation: a summary, the chart, figures, cleared results and decisions.

import { Chart } from "./chart.js";
import { list } from "./cleared.js";
import { prompts } from "./columns.js";
import { arrange, at, element, say } from "./dom.js";
import { count, counted, percent, tokens } from "./numbers.js";
import { describe, judged, saving, when } from "./words.js";

const DECISIONS = 100; // the newest are shown
const HEIGHT = 260; // pixels

let shown = null;

/** Show a conversation with its details. */
export function show(session) {
  shown = session;
  say(at("title"), `${session.client} · ${session.model}`);
  at("title").title = `${session.agent}\n${session.name}`;
  say(at("saving"), saving(session));
  at("saving").className = `saving ${judged(session.saved)}`;
  chart.draw();
  say(at("chart-words"), describe(session.points.at(-1)));
  figures(session);
  list(session);
  lines(at("decisions"), session.decisions.slice(-DECISIONS).reverse());
  at("decided").hidden = !session.decisions.length;
  lines(at("notes"), session.notes.map(each => `${each.note} (${counted(each.requests, "request")})`));
  at("noted").hidden = !session.notes.length;
  say(at("prices"), prices(session.saved.prices));
}

const chart = new Chart(at("chart"), picture);

/** Return the picture of the prompts of the conversation that is shown: what was sent, and what pruning kept out. */
function picture(width) {
  if (!shown) return { height: HEIGHT, shapes: [], spots: [] };
  const columns = shown.points.map(point => {
    const { request, before, after, cleared } = point;
    return { from: request, to: request + 1, tops: [after, before], text: describe(point), isMarked: cleared > 0 };
  });
  return prompts(width, { columns, layers: ["sent", "cleared"], height: HEIGHT, limit: shown.safe_zone });
}

function compactions({ compactions_avoided: avoided, compact_at: size }) {
  return avoided ? [["compactions avoided", count(avoided), `the client compacts at ${tokens(size)}`]] : [];
}

function figures(session) {
  const { tokens: sums, prompt, points } = session;
  const times = points.map(each => each.seconds).sort((one, other) => one - other);
  const median = times.length ? times[Math.floor(times.length / 2)] : 0;
  const smaller = sums.before ? `${percent(1 - sums.after / sums.before)} less than ${tokens(sums.before)}` : "";
  const rows = [
    ["requests", count(session.requests), `since ${when(session.started)}`],
    ["last prompt", tokens(prompt.after), `${tokens(prompt.before)} without pruning`],
    ["sent in total", tokens(sums.after), smaller],
    ["results cleared", count(session.results_cleared), `safe zone ${count(session.safe_zone)}`],
    ...compactions(session),
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
