// The chart of a conversation: the size of its prompt at each request, without pruning and with it.

import { shape } from "./dom.js";
import { count, counted, tokens } from "./words.js";

const LEFT = 44, TOP = 10, BOTTOM = 24, TICK = 7; // pixels
const STEPS = [1, 2, 5, 10];

/** Draw the points of a conversation to fill an SVG element; return a function that finds the request at an x. */
export function draw(svg, points, zone) {
  const width = svg.clientWidth, height = svg.clientHeight, low = height - BOTTOM;
  const most = 1.05 * Math.max(1, ...points.map(point => Math.max(point.before, point.after)));
  const step = (width - LEFT) / points.length;
  const x = point => LEFT + (point.request - points[0].request) * step;
  const y = value => low - (low - TOP) * Math.min(1, value / most);
  const drawn = [...scale(most, y, width), ...requests(points, x, step, low, width)];
  drawn.push(area(points, "before", "cleared", x, y, step, low), area(points, "after", "sent", x, y, step, low));
  drawn.push(line(points, x, y, step), ...ticks(points, x, step, low));
  if (zone && zone < most) drawn.push(shape("line", { class: "zone", x1: LEFT, x2: width, y1: y(zone), y2: y(zone) }));
  const pointed = shape("rect", { class: "pointed", y: TOP, width: Math.max(1, step), height: low - TOP, visibility: "hidden" });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...drawn, pointed);
  return left => mark(pointed, points[Math.floor((left - LEFT) / step)], x);
}

/** Describe a request. */
export function told(point) {
  const took = `${Math.max(1, Math.round(1_000 * point.seconds))} ms`;
  const cleared = point.cleared ? ` ${counted(point.cleared, "result")} cleared,` : "";
  const cold = point.is_cold && point.cleared ? " The cache had expired, so clearing cost nothing extra." : "";
  return `Request ${count(point.request)}: ${count(point.after)} tokens sent, ${count(point.before)} without pruning;${cleared} ${took}.${cold}`;
}

function mark(pointed, point, x) {
  pointed.setAttribute("visibility", point ? "visible" : "hidden");
  if (point) pointed.setAttribute("x", x(point));
  return point;
}

/** Yield grid lines at round numbers of tokens, with labels. */
function* scale(most, y, width) {
  const size = round(most / 4);
  for (let value = 0; value <= most; value += size) {
    yield shape("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) });
    yield shape("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, tokens(value));
  }
}

/** Yield the numbers of some requests, as many as fit. */
function* requests(points, x, step, low, width) {
  const every = round((points.length * 56) / Math.max(1, width - LEFT));
  for (const point of points) {
    if (point.request % every && point.request !== 1) continue;
    const middle = x(point) + step / 2;
    if (middle > width - 12 || (point.request === 1 && every > 1 && step * every < 40)) continue;
    yield shape("text", { x: middle, y: low + 17, "text-anchor": "middle" }, count(point.request));
  }
}

/** Round up to 1, 2, 5, 10, 20 … */
function round(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, number)));
  return STEPS.map(each => each * power).find(each => each >= number);
}

const stairs = (points, field, x, y, step) =>
  points.flatMap(point => [[x(point), y(point[field])], [x(point) + step, y(point[field])]]);

const path = corners => corners.map(([left, top]) => `${left.toFixed(1)} ${top.toFixed(1)}`).join("L");

function area(points, field, name, x, y, step, low) {
  const bars = points.map(point => `M${path([[x(point), low], ...stairs([point], field, x, y, step), [x(point) + step, low]])}Z`);
  return shape("path", { class: name, d: bars.join("") });
}

function line(points, x, y, step) {
  return shape("path", { class: "unpruned", d: `M${path(stairs(points, "before", x, y, step))}` });
}

/** Yield a mark below each request that cleared something. */
function* ticks(points, x, step, low) {
  for (const point of points.filter(each => each.cleared)) {
    const middle = x(point) + step / 2;
    yield shape("line", { class: "tick", x1: middle, x2: middle, y1: low, y2: low + TICK });
  }
}
