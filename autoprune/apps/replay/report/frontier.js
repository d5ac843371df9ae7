// The chart of bills against evidence: strategies with their intervals, and the frontier that none of them beats.

import { levels, linear, ticks } from "./chart.js";
import { shape } from "./dom.js";
import { percent } from "./numbers.js";

const LEFT = 52, RIGHT = 14, TOP = 18, BOTTOM = 44; // pixels
const NAMED = 480; // pixels: narrower charts have numbers for labels, and are lower
const LETTER = 6.4, LINE = 14; // pixels, the room that a label needs
const LONGEST = 34; // characters of a label
const LEFTMOST = 95; // percent: the axis begins there or before, so that small losses do not look large
const NEAR = 20; // pixels: a label farther from its point gets a line to it
const SPOT = 22; // pixels
// Where labels are tried, in this order: pixels right of and above the point, and the side of the label that is there.
const PLACES = [
  [9, 7, "start"], [9, -15, "start"], [-9, 7, "end"], [-9, -15, "end"], [9, 20, "start"], [-9, 20, "end"],
  [9, -28, "start"], [-9, -28, "end"], [0, 33, "middle"], [0, -41, "middle"], [-9, 46, "end"],
  [-9, -54, "end"], [-9, 60, "end"], [-9, -68, "end"],
];

export const MEASURES = [
  { field: "code", name: "code in view", words: "the share of the names, errors and old texts that later actions used" },
  { field: "edits", name: "edits whose old text is in view", words: "the share of the replaced texts, the strictest measure" },
  { field: "facts", name: "facts in view", words: "the share of the figures, names, quotes and keys in what the agent wrote" },
];

/** Return the chart in words, for screen readers. */
export function describe(points, { field, name, words }) {
  const rows = points.map(each => `${each.number} ${each.name}: bill ${each.bill[0].toFixed(3)}, ${percent(each[field][0], 1)}`);
  return `Bill against ${name}, ${words}. The lower right is best: cheap, and nothing lost. ${rows.join("; ")}`;
}

/** Return the picture of points: strategies with `number`, `name`, `kind`, and figures as [value, low, high]. */
export function frontier(width, points, { field, name }) {
  const height = width >= NAMED ? 400 : 320, right = width - RIGHT, bottom = height - BOTTOM;
  const low = Math.min(LEFTMOST, ...points.map(each => 100 * each[field][1]));
  const least = Math.min(...points.map(each => each.bill[1])), most = Math.max(1, ...points.map(each => each.bill[2]));
  const wide = 100 - low, high = Math.max(most - least, 0.1);
  const left = low - 0.06 * wide, end = 100 + 0.05 * wide, floor = Math.max(0, least - 0.12 * high), ceiling = most + 0.1 * high;
  const x = linear(left, end, LEFT, right), y = linear(floor, ceiling, bottom, TOP);
  const spots = points.map(each => ({ ...each, left: x(100 * each[field][0]), top: y(each.bill[0]) }));
  const limit = points.filter(each => each.kind === "clairvoyant").map(each => each.bill[0]).sort((one, other) => one - other)[0];
  const shapes = [
    ...band(limit, y, right, bottom),
    ...frame(ticks(left, 100, width >= NAMED ? 9 : 6), ticks(floor, ceiling, 8), x, y, right, bottom, name),
    ...bandName(limit, bottom),
    shape("line", { class: "unpruned dashed", x1: LEFT, x2: right, y1: y(1), y2: y(1) }),
    envelope(spots),
    ...spots.flatMap(each => point(each, each[field], x, y)),
    ...labels(spots, width, right, bottom),
  ];
  return { height, shapes, spots: spots.map(each => spot(each, field, name)) };
}

function frame(across, up, x, y, right, bottom, name) {
  const middle = (TOP + bottom) / 2, digits = Math.max(...up.map(value => (String(value).split(".")[1] ?? "").length));
  return [
    ...across.flatMap(value => [
      shape("line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: bottom }),
      shape("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, String(value)),
    ]),
    ...levels(up, y, LEFT, right, value => value.toFixed(digits)),
    shape("path", { class: "axis", d: `M${LEFT} ${TOP}V${bottom}H${right}` }),
    shape("text", { x: (LEFT + right) / 2, y: bottom + 34, "text-anchor": "middle" }, `${name}, %`),
    shape("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, "bill, share of no pruning"),
  ];
}

/** Return the band below the cheapest strategy that knows what comes later: no strategy that can be chosen is there. */
function band(limit, y, right, bottom) {
  if (limit === undefined) return [];
  return [shape("rect", { class: "limit", x: LEFT, y: y(limit), width: right - LEFT, height: Math.max(0, bottom - y(limit)) })];
}

const bandName = (limit, bottom) =>
  limit === undefined ? [] : [shape("text", { class: "label", x: LEFT + 4, y: bottom - 8 }, "cheaper than knowing what comes later")];

/** Return the frontier: the line through the choices that no other choice beats in both. */
function envelope(spots) {
  const kept = [];
  const choices = spots.filter(each => each.kind !== "clairvoyant").sort((one, other) => other.left - one.left || other.top - one.top);
  for (const each of choices) if (!kept.length || each.top > kept.at(-1).top + 1e-6) kept.push(each);
  const line = kept.map(({ left, top }, place) => (place ? `H${left.toFixed(1)}V${top.toFixed(1)}` : `M${left.toFixed(1)} ${top.toFixed(1)}`));
  return shape("path", { class: "envelope", d: line.join("") });
}

function point({ kind, left, top, bill }, share, x, y) {
  const size = 4.5;
  const marks = {
    choice: () => shape("circle", { class: kind, cx: left, cy: top, r: size }),
    reference: () => shape("rect", { class: kind, x: left - size, y: top - size, width: 2 * size, height: 2 * size }),
    clairvoyant: () => shape("path", { class: kind, d: `M${left - 6} ${top}L${left} ${top - 6}L${left + 6} ${top}L${left} ${top + 6}Z` }),
  };
  return [
    shape("line", { class: `${kind} interval`, x1: x(100 * share[1]), x2: x(100 * share[2]), y1: top, y2: top }),
    shape("line", { class: `${kind} interval`, x1: left, x2: left, y1: y(bill[1]), y2: y(bill[2]) }),
    marks[kind](),
  ];
}

/** Return a label for each point, where it covers no point and no other label, if there is such a place. */
function labels(spots, width, right, bottom) {
  const taken = spots.map(({ left, top }) => [left - 6, top - 6, left + 6, top + 6]);
  return spots.flatMap(({ number, name, left, top }) => {
    const text = width >= NAMED ? shortened(`${number} ${name}`) : String(number);
    const boxes = PLACES.map(place => boxAt(left, top, place, text));
    const fits = boxes.filter(box => box[0] > 40 && box[2] < right + 12 && box[1] > TOP - 14 && box[3] < bottom);
    const best = fits.find(box => !taken.some(other => cross(box, other))) ?? fits[0] ?? boxes[0];
    const [across, up, side] = PLACES[boxes.indexOf(best)];
    taken.push(best);
    const label = shape("text", { class: "label", x: left + across, y: top - up, "text-anchor": side }, text);
    const leader = shape("line", { class: "leader", x1: left, y1: top, x2: left + across, y2: top - up + (up > 0 ? 3 : -9) });
    return Math.abs(up) > NEAR ? [leader, label] : [label];
  });
}

function boxAt(x, y, [across, up, side], text) {
  const width = LETTER * text.length, left = x + across - { start: 0, end: width, middle: width / 2 }[side];
  return [left, y - up - LINE + 3, left + width, y - up + 3];
}

const cross = (one, other) => one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3];

const shortened = text => (text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1)}…`);

function spot({ number, name, left, top, bill, ...shares }, field, measure) {
  const within = ([value, low, high], write) => (write(low) === write(high) ? write(value) : `${write(value)} (${write(low)} to ${write(high)})`);
  const text = `${number} ${name}\nbill ${within(bill, value => value.toFixed(3))}\n${measure} ${within(shares[field], value => percent(value, 1))}`;
  return { x: left - SPOT / 2, y: top - SPOT / 2, width: SPOT, height: SPOT, text };
}
