// The charts of one session: its prompts and the life of its results under a strategy, and where its tokens are.

import { levels, linear, rectangle, ticks } from "./chart.js";
import { LEFT, prompts, requests } from "./columns.js";
import { shape } from "./dom.js";
import { count, counted, percent, tokens } from "./numbers.js";

const MOST_COLUMNS = 150; // two pixels each, in the narrowest chart
const UPPER = 160, LOWER = 176, TOP = 10, BOTTOM = 40; // pixels
const CROSS = 3.5; // pixels
const MOST_TOOLS = 8;
const NAMES = 122, ROW = 24, BAR = 17, BELOW = 40; // pixels of bar charts
const LONGEST = 19; // characters of a bar's name
const SOURCES = { head: "system and tools" }; // what is sent before the messages
const CLASSES = [[300, "under 300"], [1_000, "300 to 1k"], [3_000, "1k to 3k"], [10_000, "3k to 10k"], [Infinity, "10k and more"]];

const sum = numbers => numbers.reduce((whole, each) => whole + each, 0);

/** Return a session's prompts under a strategy in words, for screen readers. */
export function describe(session, outcome) {
  const { cleared, missed } = outcome;
  const saved = count(sum(cleared.map(each => each.saved)));
  const results = counted(session.results.length, "result");
  const sizes = `The last prompt has ${count(outcome.prompts.at(-1))} tokens, unpruned ${count(session.unpruned.at(-1))}.`;
  return `${count(cleared.length)} of ${results} were cleared, ${saved} tokens, and missed ${counted(missed.length, "time")}. ${sizes}`;
}

/** Return the picture of what was read from the cache, written and cleared of each prompt. */
export function promptSizes(width, { unpruned }, { prompts: sizes, held }) {
  const step = Math.ceil(sizes.length / MOST_COLUMNS);
  const written = at => sizes[at] - held[at];
  const columns = [];
  for (let from = 0; from < sizes.length; from += step) {
    const to = Math.min(from + step, sizes.length);
    // Of several requests that share a column, the one that wrote most is drawn, so that no broken cache is hidden.
    const at = Array.from({ length: to - from }, (_, place) => from + place).reduce((best, each) => (written(each) > written(best) ? each : best));
    const cleared = Math.max(0, unpruned[at] - sizes[at]);
    const text = `Request ${count(at)}: ${count(sizes[at])} tokens\n${count(held[at])} from the cache, ${count(written(at))} written\n${count(cleared)} cleared`;
    columns.push({ from, to, tops: [held[at], sizes[at], sizes[at] + cleared], text });
  }
  return prompts(width, { columns, layers: ["cached", "written", "cleared"], height: UPPER, name: "prompt, tokens" });
}

/** Return the picture of each result as a bar, as high as its tokens, from its first prompt until it was cleared. */
export function resultLives(width, { results, unpruned }, { cleared, missed }) {
  const last = unpruned.length, bottom = LOWER - BOTTOM;
  const edges = [0];
  for (const each of results) edges.push(edges.at(-1) + each.tokens);
  const x = linear(0, Math.max(1, last), LEFT, width), y = linear(0, Math.max(1, edges.at(-1)), bottom, TOP);
  const gone = new Map(cleared.map(each => [each.result, each]));
  const lost = new Set(missed.map(([result, at]) => `${result}/${at}`));
  const bar = (number, from, to) => rectangle(x(from), y(edges[number + 1]), x(to), y(edges[number]));
  const carried = results.flatMap((each, number) => (each.sent < last ? [bar(number, each.sent, gone.get(number)?.request ?? last)] : []));
  const middle = number => y((edges[number] + edges[number + 1]) / 2);
  const dots = results.flatMap((each, number) => each.needed.filter(([at]) => !lost.has(`${number}/${at}`)).map(([at]) => [number, at]));
  const shapes = [
    ...levels(ticks(0, Math.max(1, edges.at(-1)), 4, 1), y, LEFT, width, tokens),
    ...requests(0, last, x, bottom + 16, width),
    shape("text", { x: (LEFT + width) / 2, y: bottom + 33, "text-anchor": "middle" }, "request"),
    shape("path", { class: "cleared", d: [...gone.values()].map(each => bar(each.result, each.request, last)).join("") }),
    shape("path", { class: "cached", d: carried.join("") }),
    ...dots.map(([number, at]) => shape("circle", { class: "needed", cx: x(at + 0.5), cy: middle(number), r: 1.5 })),
    shape("path", { class: "missed", d: missed.map(([number, at]) => times(x(at + 0.5), middle(number))).join("") }),
    shape("path", { class: "axis", d: `M${LEFT} ${TOP}V${bottom}H${width}` }),
    shape("text", { class: "name", x: LEFT + 6, y: TOP + 16 }, "results, tokens"),
  ];
  const spots = results.map((each, number) => ({
    x: x(Math.min(each.sent, last)), y: y(edges[number + 1]), width: x(last) - x(Math.min(each.sent, last)), height: y(edges[number]) - y(edges[number + 1]),
    text: lifeOf(each, gone.get(number), missed.filter(([result]) => result === number).map(([, at]) => at)),
  }));
  return { height: LOWER, shapes, spots };
}

const times = (x, y) => `M${x - CROSS} ${y - CROSS}L${x + CROSS} ${y + CROSS}M${x - CROSS} ${y + CROSS}L${x + CROSS} ${y - CROSS}`;

function lifeOf({ tool, target, tokens: size, sent, needed }, cleared, missed) {
  const lines = [`${tool} ${target}`, `${count(size)} tokens, in the prompt from request ${count(sent)}`];
  if (needed.length) lines.push(`needed at ${needed.map(([at]) => count(at)).join(", ")}`);
  if (cleared) lines.push(`cleared at ${count(cleared.request)}`);
  if (missed.length) lines.push(`missed at ${missed.map(count).join(", ")}`);
  return lines.join("\n");
}

/** Return the tokens and the number of results of each tool, the tool with the most tokens first. */
const byTool = results => grouped(results, each => each.tool).sort((one, other) => other.tokens - one.tokens);

/** Return a map from keys to the items that have them, in the order of the items. */
export function groups(items, keyOf) {
  const known = new Map();
  for (const item of items) known.has(keyOf(item)) ? known.get(keyOf(item)).push(item) : known.set(keyOf(item), [item]);
  return known;
}

const grouped = (results, keyOf) => [...groups(results, keyOf)].map(([name, members]) => ({
  name, tokens: sum(members.map(each => each.tokens)), beside: counted(members.length, "result"),
}));

/** Return bars of a session's tokens by their source; those of results by tool. */
export function byPart({ parts, results }) {
  const whole = Math.max(1, sum(Object.values(parts))), tools = byTool(results), rest = tools.slice(MOST_TOOLS);
  const bars = Object.entries(parts).filter(([name, size]) => name !== "tool results" && size).map(([name, size]) => ({ name: SOURCES[name] ?? name, tokens: size }));
  bars.push(...tools.slice(0, MOST_TOOLS).map(tool => ({ ...tool, name: `results: ${tool.name}` })));
  if (rest.length) bars.push({ name: counted(rest.length, "other tool"), tokens: sum(rest.map(each => each.tokens)) });
  return bars.map(bar => ({ ...bar, beside: percent(bar.tokens / whole) }));
}

/** Return bars of a session's results by their size. */
export function bySize({ results }) {
  const known = new Map(grouped(results, each => CLASSES.find(([below]) => each.tokens < below)[1]).map(bar => [bar.name, bar]));
  return CLASSES.map(([, name]) => known.get(name) ?? { name, tokens: 0, beside: "0 results" });
}

/** Return the picture of horizontal bars: values with a `name`, `tokens` and a text `beside` the bar. */
export function barsOf(width, bars) {
  const height = TOP + BELOW + ROW * bars.length, bottom = height - BELOW, right = width - 12;
  const most = 1.45 * Math.max(1, ...bars.map(bar => bar.tokens)), x = linear(0, most, NAMES, right);
  const shapes = ticks(0, most, 4, 1).flatMap(value => [
    shape("line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: bottom }),
    shape("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, tokens(value)),
  ]);
  shapes.push(shape("text", { x: (NAMES + right) / 2, y: bottom + 33, "text-anchor": "middle" }, "tokens"));
  bars.forEach(({ name, tokens: size, beside }, place) => {
    const top = TOP + ROW * place, text = name.length <= LONGEST ? name : `${name.slice(0, LONGEST - 1)}…`;
    shapes.push(shape("text", { x: NAMES - 6, y: top + 16, "text-anchor": "end" }, text));
    shapes.push(shape("path", { class: "cached", d: rectangle(NAMES, top + 4, x(size), top + 4 + BAR) }));
    shapes.push(shape("text", { x: x(size) + 6, y: top + 16 }, beside));
  });
  shapes.push(shape("path", { class: "axis", d: `M${NAMES} ${TOP}V${bottom}H${right}` }));
  const spots = bars.map(({ name, tokens: size, beside }, place) => ({
    x: 0, y: TOP + ROW * place, width: right, height: ROW, text: `${name}\n${count(size)} tokens, ${beside}`,
  }));
  return { height, shapes, spots };
}
