// The chart of prompts over requests: stacked columns, with a line for the unpruned prompts.

import { levels, linear, rectangle, roundUp, ticks } from "./chart.js";
import { shape } from "./dom.js";
import { count, tokens } from "./numbers.js";

export const LEFT = 44; // pixels, for the labels of the vertical axis
const TOP = 10, BOTTOM = 24, TICK = 7, LABEL = 56; // pixels; LABEL is the room of a request's number

/**
 * Return the picture of prompts. A column goes from request `from` to request `to`, is stacked up to each of its `tops`,
 * and has a `text`; those with `isMarked` get a tick below. `layers` are the classes of what is between the tops.
 */
export function prompts(width, { columns, layers, height, limit = 0, name = "" }) {
  const first = columns[0].from, last = columns.at(-1).to, low = height - BOTTOM;
  const most = 1.05 * Math.max(1, ...columns.flatMap(column => column.tops));
  const x = linear(first, last, LEFT, width), y = linear(0, most, low, TOP);
  const shapes = levels(ticks(0, most, 4, 1), y, LEFT, width, tokens);
  shapes.push(...requests(first, last, x, low + 17, width));
  layers.forEach((layer, place) => {
    const bars = columns.map(({ from, to, tops }) => rectangle(x(from), y(tops[place]), x(to), y(tops[place - 1] ?? 0)));
    shapes.push(shape("path", { class: layer, d: bars.join("") }));
  });
  const stairs = columns.flatMap(({ from, to, tops }) => [`${x(from).toFixed(1)} ${y(tops.at(-1)).toFixed(1)}`, `${x(to).toFixed(1)} ${y(tops.at(-1)).toFixed(1)}`]);
  shapes.push(shape("path", { class: "unpruned", d: `M${stairs.join("L")}` }));
  for (const { from, to } of columns.filter(each => each.isMarked)) {
    const middle = x((from + to) / 2);
    shapes.push(shape("line", { class: "tick", x1: middle, x2: middle, y1: low, y2: low + TICK }));
  }
  shapes.push(shape("path", { class: "axis", d: `M${LEFT} ${TOP}V${low}H${width}` }));
  if (limit && limit < most) shapes.push(shape("line", { class: "zone", x1: LEFT, x2: width, y1: y(limit), y2: y(limit) }));
  if (name) shapes.push(shape("text", { class: "name", x: LEFT + 6, y: TOP + 16 }, name));
  const spots = columns.map(({ from, to, text }) => ({ x: x(from), y: TOP, width: x(to) - x(from), height: low - TOP, text }));
  return { height, shapes, spots };
}

/** Return the numbers of some requests, each in the middle of its column; the first one if there is room. */
export function requests(first, last, x, bottom, width) {
  const step = roundUp(Math.max(1, ((last - first) * LABEL) / Math.max(1, width - LEFT)));
  const numbers = Array.from({ length: last - first }, (_, place) => first + place);
  return numbers
    .filter(each => (each % step === 0 || (each === first && x(first + step) - x(first) > 40)) && x(each + 0.5) < width - 10)
    .filter((each, place, all) => place === 0 || each === first || x(each) - x(all[place - 1]) > 24)
    .map(each => shape("text", { x: x(each + 0.5), y: bottom, "text-anchor": "middle" }, count(each)));
}
