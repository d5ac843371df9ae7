// Format figures as text. Tokens are abbreviated, money is in dollars, and a loss is called a loss.

import { count, counted, percent, tokens } from "./numbers.js";

/** Format dollars to the cent, and amounts below 10 cents to four places. */
export function money(dollars) {
  const size = Math.abs(dollars);
  return `$${size === 0 || size >= 0.1 ? size.toFixed(2) : size.toFixed(4)}`;
}

export const when = seconds =>
  new Date(1_000 * seconds).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });

/** Format the time of day: 14:05. */
export const clock = seconds =>
  new Date(1_000 * seconds).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

/** Format how long ago a moment was. */
export function ago(seconds) {
  const passed = Math.max(0, Date.now() / 1_000 - seconds);
  if (passed < 60) return "just now";
  return passed < 3_600 ? `${Math.floor(passed / 60)} min ago` : when(seconds);
}

/** Format what was saved or lost, with its price if known: 1.2M input tokens ($3.60). */
export function amount(saved) {
  const priced = saved.money === null ? "" : ` (${money(saved.money)})`;
  return `${tokens(Math.abs(saved.tokens))} input tokens${priced}`;
}

/** Format what was saved, for a list: "saved $3.60", "lost 1,200 tokens". */
export function briefly(saved) {
  const gain = saved.money ?? saved.tokens;
  const what = saved.money === null ? `${tokens(Math.abs(gain))} tokens` : money(gain);
  return gain ? `${gain < 0 ? "lost" : "saved"} ${what}` : "";
}

/** Return "good", "bad" or "", for a color. */
export const judged = saved => (saved.tokens > 0 ? "good" : saved.tokens < 0 ? "bad" : "");

/** Return a request as text. */
export function describe(point) {
  const took = `${Math.max(1, Math.round(1_000 * point.seconds))} ms`;
  const cleared = point.cleared ? ` ${counted(point.cleared, "result")} cleared,` : "";
  const cold = point.is_cold && point.cleared ? " The cache had expired: the rewrite cost nothing extra." : "";
  return `Request ${count(point.request)}: ${count(point.after)} tokens sent, ${count(point.before)} without pruning;${cleared} ${took}.${cold}`;
}

/** Return a sentence on what pruning has saved in a conversation. */
export function saving(session) {
  const { saved, prompt, results_cleared: cleared, safe_zone: zone } = session;
  if (saved.tokens > 0) return `Saved ${amount(saved)}: ${percent(saved.share)} of what its prompts would have cost.`;
  if (saved.tokens < 0) {
    const from = saved.pays_from;
    const pays = from === null ? "It will not pay by itself." : `It pays from request ${count(from)} on.`;
    return `This conversation has lost ${amount(saved)} so far: after cleared results, the cache is written again. ${pays}`;
  }
  if (cleared) return "Nothing saved and nothing lost so far.";
  const within = prompt.after <= zone ? `, within the safe zone of ${count(zone)}` : "";
  return `Nothing was cleared so far: the prompt has ${tokens(prompt.after)} tokens${within}.`;
}
