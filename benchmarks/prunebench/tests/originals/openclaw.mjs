// OpenClaw's cache-TTL pruning over our conversations. See by_node.py.
//
//     cd FOLDER && npm install --ignore-scripts openclaw@2026.9.6
//     PYTHONPATH=tests/support python tests/originals/by_node.py openclaw.mjs FOLDER
//
// It is called before each request as in its embedded runner, with the time of the previous answer as the last use of
// the cache. A window of 40,000 tokens makes our conversations long enough to be cleared.
import { readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const conversations = JSON.parse(readFileSync(0));  // before the package changes stdin
const dist = `${process.argv[2]}/node_modules/openclaw/dist`;
const holds = (name) => /export \{[^}]*\bpruneExpiredCacheTtlToolResults,/.test(readFileSync(`${dist}/${name}`, "utf8"));
const file = readdirSync(dist).find((name) => name.startsWith("tool-result-truncation") && holds(name));
const openclaw = await import(pathToFileURL(`${dist}/${file}`));
const WINDOW = 40_000;

function converted(message, tools) {
  const text = message.content ? [{ type: "text", text: message.content }] : [];
  if (message.role === "tool") {
    const toolCallId = message.tool_call_id;
    return { role: "toolResult", toolCallId, toolName: tools.get(toolCallId), content: text, isError: false };
  }
  if (message.role === "user") return { role: "user", content: message.content };
  const calls = (message.tool_calls ?? []).map((call) => {
    tools.set(call.id, call.function.name);
    return { type: "toolCall", id: call.id, name: call.function.name, arguments: JSON.parse(call.function.arguments) };
  });
  return { role: "assistant", content: [...text, ...calls] };
}

function requests({ messages, pauses, starts }) {
  const settings = openclaw.resolveCacheTtlPruningSettings({ mode: "cache-ttl", ttl: "1h" });
  const projectionState = {
    replacements: new Map(), frozen: new Set(), ambiguousBaseKeys: new Set(), sourceHashByKey: new Map(),
    restoredCacheTtl: new Map(),
  };
  const tools = new Map(), now = Date.now();
  const history = messages.map((message) => message.role === "system" ? null : converted(message, tools));
  return starts.map((start, number) => {
    const recorded = history.slice(0, start), sent = openclaw.pruneExpiredCacheTtlToolResults({
      messages: recorded.filter(Boolean), settings, contextWindowTokens: WINDOW, now, projectionState,
      lastCacheTouchAt: number ? now - (pauses[start] ?? 0) * 1000 : null, pruneNewRounds: true,
    });
    const shown = new Map(sent.filter(({ role }) => role === "toolResult").map((each) => [each.toolCallId, each]));
    return Object.fromEntries(messages.slice(0, start).flatMap(({ tool_call_id, content }, index) => {
      const text = shown.get(tool_call_id)?.content.map((block) => block.text).join("\n") ?? content;
      return text === content ? [] : [[index, text]];
    }));
  });
}

const sent = Object.fromEntries(Object.entries(conversations).map(([name, known]) => [name, requests(known)]));
const policies = { openclaw_cache_ttl: { parameters: { window: WINDOW }, sent } };
process.stdout.write(JSON.stringify({ original: "openclaw 2026.9.6", policies }), () => process.exit(0));
