// What all charts share: scales with round ticks, and spots that pointer and arrow keys select, each with a tooltip.

import { element, shape } from "./dom.js";

const KEYS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
const ROUND = [1, 2, 5, 10];
const GAP = 8, WIDEST = 300, LEAST_ROOM = 100; // pixels: between a spot and its tooltip, of a tooltip, beside a spot

/** Return an svg element for a chart. `label` is what screen readers say of it. */
export const canvas = label => shape("svg", { role: "img", tabindex: 0, "aria-label": label });

/**
 * A chart in an svg element. It redraws itself when its width changes, and follows the pointer and the arrow keys.
 *
 * `picture(width)` returns the `height`, the `shapes` and the `spots` of the chart. Spots are rectangles with a `text`,
 * in the order of the arrow keys.
 */
export class Chart {
  #svg; #picture;
  #tip = element("div", "tip");
  #mark = shape("rect", { class: "pointed", visibility: "hidden" });
  #spots = [];
  #selected = -1;
  #width = 0;

  constructor(svg, picture) {
    [this.#svg, this.#picture] = [svg, picture];
    this.#tip.setAttribute("role", "status");
    this.#tip.hidden = true;
    svg.after(this.#tip);
    for (const name of ["pointermove", "pointerdown"]) svg.addEventListener(name, event => this.#follow(event));
    svg.addEventListener("pointerleave", () => this.#select(-1));
    svg.addEventListener("keydown", event => this.#step(event));
    svg.addEventListener("focus", () => svg.matches(":focus-visible") && this.#selected < 0 && this.#select(this.#spots.length - 1));
    svg.addEventListener("blur", () => this.#select(-1));
    // A chart in a closed <details> has no width; it is drawn when it gets one.
    new ResizeObserver(() => this.#svg.getBoundingClientRect().width !== this.#width && this.draw()).observe(svg);
  }

  draw() {
    this.#width = this.#svg.getBoundingClientRect().width;
    if (!this.#width) return;
    const { height, shapes, spots } = this.#picture(this.#width);
    this.#spots = spots;
    this.#svg.setAttribute("viewBox", `0 0 ${this.#width} ${height}`);
    this.#svg.replaceChildren(...shapes, this.#mark);
    this.#select(Math.min(this.#selected, spots.length - 1));
  }

  #follow(event) {
    const box = this.#svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) * this.#width) / box.width, y = ((event.clientY - box.top) * this.#width) / box.width;
    this.#select(this.#spots.findLastIndex(spot => x >= spot.x && x < spot.x + spot.width && y >= spot.y && y < spot.y + spot.height));
  }

  #step(event) {
    if (event.key === "Escape") return this.#select(-1);
    const step = KEYS[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.#select(within(this.#selected + step, 0, this.#spots.length - 1));
  }

  #select(place) {
    const spot = this.#spots[place];
    this.#selected = spot ? place : -1;
    this.#tip.hidden = !spot;
    this.#mark.setAttribute("visibility", spot ? "visible" : "hidden");
    if (spot) this.#show(spot);
  }

  #show({ x, y, width, height, text }) {
    for (const [name, value] of Object.entries({ x, y, width: Math.max(1, width), height: Math.max(1, height) })) this.#mark.setAttribute(name, value);
    if (this.#tip.textContent !== text) this.#tip.textContent = text;
    const box = this.#svg.getBoundingClientRect(), frame = this.#tip.offsetParent.getBoundingClientRect();
    const scale = box.width / this.#width;
    const left = box.left - frame.left + scale * x, right = left + scale * width;
    const top = box.top - frame.top + scale * y, bottom = top + scale * height;
    // A tooltip is beside a tall spot, on the side with more room and no wider than that room, and else below or above
    // the spot. So it never covers the spot.
    const room = Math.max(left, frame.width - right) - GAP, isBeside = height >= width && room >= LEAST_ROOM;
    this.#tip.style.maxWidth = `${Math.min(WIDEST, isBeside ? room : frame.width)}px`;
    const own = this.#tip.getBoundingClientRect(), lowest = box.bottom - frame.top - own.height;
    const isRight = right + GAP + own.width <= frame.width;
    const beside = isRight ? right + GAP : left - GAP - own.width;
    const below = bottom + GAP <= lowest ? bottom + GAP : top - GAP - own.height;
    this.#tip.style.left = `${isBeside ? beside : within((left + right - own.width) / 2, 0, frame.width - own.width)}px`;
    this.#tip.style.top = `${isBeside ? within(top, 0, lowest) : below}px`;
  }
}

const within = (value, low, high) => Math.max(low, Math.min(high, value));

/** Return a function from values between `low` and `high` to pixels between `from` and `to`. */
export const linear = (low, high, from, to) => value => from + ((value - low) / (high - low || 1)) * (to - from);

/** Return the smallest of 1, 2, 5 times a power of ten that is at least `number`. */
export function roundUp(number) {
  const power = 10 ** Math.floor(Math.log10(number));
  return ROUND.map(each => each * power).find(each => each >= number * 0.999_999);
}

/** Return round numbers between `low` and `high`, at most `most` or so, and at least `least` apart. */
export function ticks(low, high, most, least = 1e-9) {
  const step = roundUp(Math.max((high - low) / most, least));
  const first = Math.ceil(low / step - 1e-6), last = Math.floor(high / step + 1e-6);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

/** Return horizontal grid lines with labels to the left of them. */
export function levels(values, y, left, right, label) {
  return values.flatMap(value => [
    shape("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }),
    shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, label(value)),
  ]);
}

/** Return the outline of a closed shape for the `d` of a path. */
export const outline = corners => `M${corners.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}Z`;

export const rectangle = (left, top, right, bottom) => outline([[left, top], [right, top], [right, bottom], [left, bottom]]);
