// Draws the charts of a report, and its sessions, from the JSON in the page.

import { Chart, canvas } from "./chart.js";
import { at, element } from "./dom.js";
import { MEASURES, describe as describeBills, frontier } from "./frontier.js";
import { barsOf, byPart, bySize, groups, describe as describeLife, promptSizes, resultLives } from "./lives.js";
import { sortable, unpack } from "./listing.js";
import { count, counted } from "./numbers.js";

const SMALL = 300; // tokens

/** Return a figure with a heading and charts, each as a label for screen readers and a picture. */
function figure(title, ...charts) {
  const made = element("figure", "", ...(title ? [element("figcaption", "", title)] : []));
  for (const [label, picture] of charts) {
    const svg = canvas(label);
    made.append(svg);
    new Chart(svg, picture);
  }
  return made;
}

function bills(points, parent) {
  const measures = MEASURES.filter(each => points[0][each.field]);
  parent.append(...measures.map(each => figure("", [describeBills(points, each), width => frontier(width, points, each)])));
}

/** Fill the details of a session. */
function open(session, parent) {
  const lives = session.outcomes.map(outcome => life(session, outcome));
  const rows = [["Where the tokens are", byPart(session)], ["Results by their tokens", bySize(session)]].map(([title, bars]) => {
    const words = bars.map(bar => `${bar.name}: ${count(bar.tokens)} tokens, ${bar.beside}`).join("; ");
    return figure(title, [`${title}. ${words}`, width => barsOf(width, bars)]);
  });
  const others = lives.slice(1).length ? [details("", lives.length === 2 ? "The same under the other strategy" : `The same under the other ${count(lives.length - 1)} strategies`, element("div", "charts", ...lives.slice(1)))] : [];
  parent.append(document.querySelector(".key.lives").cloneNode(true));
  parent.append(element("div", "charts", ...lives.slice(0, 1), ...rows), ...others, ...pauses(session), timeline(session));
}

function life(session, outcome) {
  const size = [`${outcome.label}: the prompt at each request. ${describeLife(session, outcome)}`, width => promptSizes(width, session, outcome)];
  return figure(outcome.label, size, [`${outcome.label}: how long each result stays`, width => resultLives(width, session, outcome)]);
}

function pauses({ cold }) {
  if (!cold.length) return [];
  const which = cold.length === 1 ? `Request ${cold[0]} came` : `Requests ${cold.join(", ")} came`;
  return [element("p", "", `${which} after a pause longer than the cache’s life: the whole prompt was written again, pruned or not.`)];
}

const details = (name, summary, ...children) => element("details", name, element("summary", "", ...[summary].flat()), ...children);

function timeline(session) {
  const fates = session.outcomes.filter(each => each.prunes).map(({ label, cleared, missed }) => ({
    label,
    cleared: new Map(cleared.map(each => [each.result, each])),
    missed: groups(missed, ([result]) => result),
  }));
  const rows = session.results.map((result, number) => {
    const known = fates.map(({ label, cleared, missed }) => ({ label, cleared: cleared.get(number), missed: (missed.get(number) ?? []).map(([, request]) => request) }));
    return row(result, known, session.has_texts);
  });
  const small = rows.filter(each => each.className).length;
  const head = element("div", "head", ...[["when", "request"], ["what", "tool and target"], ["size", "tokens"], ["fate", "what happened to it"]].map(([name, text]) => element("span", name, text)));
  const made = details("timeline", "Results, in order", ...(small ? [checkbox(small)] : []), head, element("ol", "", ...rows));
  made.open = true;
  return made;
}

function checkbox(small) {
  const input = element("input");
  input.type = "checkbox";
  return element("label", "small", input, ` also show the ${counted(small, "result")} under ${SMALL} tokens that no strategy missed`);
}

function row(result, fates, hasText) {
  const missed = fates.filter(each => each.missed.length).length, cleared = fates.filter(each => each.cleared).length;
  const among = number => (fates.length === 1 ? "" : ` in ${count(number)} of ${count(fates.length)}`);
  const marks = [
    result.failed && element("em", "", "failed"),
    result.needed.length && element("em", "needed", `needed ${count(result.needed.length)}×`),
    missed && element("em", "missed", `× missed${among(missed)}`),
    cleared && element("em", "cleared", `cleared${among(cleared)}${fates.length === 1 ? "" : " strategies"}`),
  ].filter(Boolean);
  const what = element("span", "what", element("b", "", result.tool), ` ${result.target}`);
  const summary = [element("span", "when", count(result.sent)), what, element("span", "size", count(result.tokens)), element("span", "fate", ...marks)];
  const made = details("", summary);
  // Most results are never opened, and a session may have thousands.
  made.addEventListener("toggle", () => made.children.length === 1 && made.append(...story(result, fates), ...(hasText ? text(result) : [])));
  return element("li", result.tokens < SMALL && !missed ? "small" : "", made);
}

/** Return what happened to a result under each strategy. */
function story(result, fates) {
  const needed = result.needed.map(([request, kinds]) => `${request} (${kinds})`).join(", ");
  const first = `Called at request ${result.request}, in the prompt from request ${result.sent}. ${needed ? `Needed at ${needed}.` : "No later action used it."}`;
  const touched = fates.filter(each => each.cleared || each.missed.length), whole = fates.filter(each => !touched.includes(each));
  if (!touched.length) return [element("p", "", first), element("p", "", "No strategy changed it.")];
  const lines = touched.map(({ label, cleared, missed }) => {
    const what = cleared ? `cleared at request ${cleared.request}, ${count(cleared.saved)} tokens saved: ${cleared.reason}` : "";
    return element("li", "", element("b", "", label), `: ${what}`, ...(missed.length ? [" ", element("em", "missed", `× missed at ${missed.join(", ")}`)] : []));
  });
  if (whole.length) lines.push(element("li", "", `Left whole by ${whole.map(each => each.label).join(", ")}.`));
  return [element("p", "", first), element("ul", "", ...lines)];
}

function text(result) {
  const shown = element("pre", "", result.text);
  shown.tabIndex = 0;
  shown.setAttribute("aria-label", "The result’s text");
  return [shown, ...(result.left_out ? [element("p", "", `${count(result.left_out)} characters in the middle are left out.`)] : [])];
}

async function fill(parent) {
  const node = at(`${parent.id}-data`);
  if (!parent.open || !node) return;
  const text = unpack(node);
  node.remove(); // so that it is filled once
  const wait = element("p", "note", "Reading …");
  parent.append(wait);
  try {
    open(await text, parent);
    wait.remove();
  } catch (error) {
    wait.textContent = `The charts cannot be shown: ${error.message}`;
  }
}

JSON.parse(at("data").textContent).forEach((points, place) => points.length && bills(points, at(`bill-${place}`)));
sortable();
for (const each of document.querySelectorAll(".session[id]")) {
  each.addEventListener("toggle", () => fill(each));
  fill(each);
}
