// The page: polls the state, lists the conversations, and shows the chosen one.

import { arrange, at, element, say } from "./dom.js";
import { count, counted, tokens } from "./numbers.js";
import { show } from "./session.js";
import { ago, briefly, clock, judged } from "./words.js";

const EVERY = 1_500, AGAIN = 4_000; // milliseconds until the next request, after an answer and after a failure
const RECENT = 300; // seconds: a conversation counts as active

const items = new Map();
let chosen = null, isPicked = false, mark = "", latest = null, timer;

async function ask() {
  clearTimeout(timer);
  const found = await fetchState();
  if (found) render(found);
  timer = setTimeout(ask, document.hidden ? AGAIN : found === null ? AGAIN : EVERY);
}

/** Fetch the state; undefined if it has not changed, null if there is no answer. */
async function fetchState() {
  try {
    const wanted = `?session=${encodeURIComponent(chosen ?? "")}`;
    const answer = await fetch(`/autoprune/state${wanted}`, { headers: mark ? { "If-None-Match": mark } : {} });
    trouble(answer.status === 403 ? "The proxy was restarted: open the address that it printed." : "");
    if (answer.status === 304) return undefined;
    if (!answer.ok) return null;
    mark = answer.headers.get("ETag");
    return await answer.json();
  } catch {
    trouble("The proxy does not answer. This is the last state that it reported.");
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
  say(at("sessions"), counted(state.sessions.length, "conversation"));
  arrange(at("list"), state.sessions.map(itemOf));
  const full = state.sessions.find(each => each.name === chosen);
  if (full.points) show(full);
}

/** Return the conversation to show if none was picked: the longest of the recently active ones. */
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
    `${counted(requests, "request")}, ${count(passed)} of them forwarded unpruned`,
    ...(why ? [`last reason: ${why}`] : []),
    `${count(refused)} refused, ${count(failed)} failed`,
    briefly(saved) || "nothing saved so far",
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
  say(name, `${session.client} · ${session.model} · ${clock(session.started)}`);
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
