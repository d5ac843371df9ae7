// The page: asks for the state again and again, lists the conversations, shows the chosen one.

import { arrange, at, element, say } from "./dom.js";
import { count, counted, tokens } from "./numbers.js";
import { show } from "./session.js";
import { ago, briefly, judged } from "./words.js";

const EVERY = 1_500, AGAIN = 4_000; // milliseconds, after an answer and without one
const RECENT = 300; // seconds

const items = new Map();
let chosen = null, isPicked = false, mark = "", latest = null, timer;

async function ask() {
  clearTimeout(timer);
  const found = await fetched();
  if (found) render(found);
  timer = setTimeout(ask, document.hidden ? AGAIN : found === null ? AGAIN : EVERY);
}

/** Return the state; undefined where it is as it was, null where it cannot be had. */
async function fetched() {
  try {
    const wanted = `?session=${encodeURIComponent(chosen ?? "")}`;
    const answer = await fetch(`/autoprune/state${wanted}`, { headers: mark ? { "If-None-Match": mark } : {} });
    trouble(answer.status === 403 ? "The proxy was started anew: open the address that it printed." : "");
    if (answer.status === 304) return undefined;
    if (!answer.ok) return null;
    mark = answer.headers.get("ETag");
    return await answer.json();
  } catch {
    trouble("The proxy does not answer. What stands here is the last that it said.");
    return null;
  }
}

function trouble(words) {
  say(at("trouble"), words);
  at("trouble").hidden = !words;
}

function render(state) {
  latest = state;
  whole(state);
  at("empty").hidden = state.sessions.length > 0;
  at("shown").hidden = !state.sessions.length;
  const first = leading(state.sessions);
  if (!first) return;
  if (!isPicked || !state.sessions.some(each => each.name === chosen)) choose(first.name);
  arrange(at("list"), state.sessions.map(itemOf));
  const full = state.sessions.find(each => each.name === chosen);
  if (full.points) show(full);
}

/** Return the conversation to show where nobody has picked one: of those of the last minutes the longest. */
function leading(sessions) {
  const newest = Math.max(...sessions.map(each => each.at));
  const recent = sessions.filter(each => each.at > newest - RECENT);
  return recent.reduce((best, each) => (!best || each.requests > best.requests ? each : best), null);
}

function choose(name) {
  if (name === chosen) return;
  chosen = name;
  mark = "";
  clearTimeout(timer);
  timer = setTimeout(ask, 0);
}

function whole({ upstream, strategy, requests, passed, why, refused, failed, saved }) {
  const parts = [
    `to ${upstream ?? "each request’s own vendor"}, pruned by ${strategy}`,
    `${counted(requests, "request")}, ${count(passed)} of them passed on as they came`,
    ...(why ? [`the last that could not be read: ${why}`] : []),
    `${count(refused)} refused, ${count(failed)} failed`,
    `${saved < 0 ? "lost" : "saved"} ${tokens(Math.abs(saved))} input tokens in all`,
  ];
  say(at("whole"), parts.join(" · "));
  say(at("address"), location.origin);
}

function itemOf(session) {
  if (!items.has(session.name)) items.set(session.name, made(session.name));
  const item = items.get(session.name), button = item.firstChild;
  const [name, size, saved] = button.children;
  button.title = `${session.agent}\n${session.name}`;
  button.setAttribute("aria-current", String(session.name === chosen));
  say(name, `${session.client} · ${session.model}`);
  const { requests, prompt } = session;
  say(size, `${ago(session.at)} · ${counted(requests, "request")}, ${tokens(prompt.after)} of ${tokens(prompt.before)} tokens`);
  say(saved, briefly(session.saved));
  saved.className = judged(session.saved);
  return item;
}

function made(name) {
  const button = element("button", "", element("b"), element("span"), element("span"));
  button.type = "button";
  button.addEventListener("click", () => {
    isPicked = true;
    choose(name);
    render(latest);
  });
  return element("li", "", button);
}

document.addEventListener("visibilitychange", () => document.hidden || ask());
ask();
