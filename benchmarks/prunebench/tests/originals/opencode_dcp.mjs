// The deduplication and error purging of Dynamic Context Pruning over our conversations. See by_node.py.
//
//     cd FOLDER && npm install --ignore-scripts --legacy-peer-deps @tarquinen/opencode-dcp@3.1.14 @opencode-ai/plugin
//     PYTHONPATH=tests/support python tests/originals/by_node.py opencode_dcp.mjs FOLDER
//
// Its bundle exports only the plugin, so an export is added. The functions are called in the order of its handler of
// messages, with the two strategies where versions before 3.0 called them: the plugin now calls them when the model
// compresses. A result with `failed` is an error; none of our conversations has one, see tests/policies.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const conversations = JSON.parse(readFileSync(0));
const dist = `${process.argv[2]}/node_modules/@tarquinen/opencode-dcp/dist`;
const names = "createSessionState, countTurns, syncToolCache, buildToolIdList, deduplicate, purgeErrors, prune";
writeFileSync(`${dist}/port.js`, `${readFileSync(`${dist}/index.js`, "utf8")}\nexport { ${names} };\n`);
const dcp = await import(pathToFileURL(`${dist}/port.js`));
const config = {
  manualMode: { enabled: false, automaticStrategies: true },
  turnProtection: { enabled: false, turns: 4 },
  protectedFilePatterns: [],
  compress: { mode: "range" },
  strategies: {
    deduplication: { enabled: true, protectedTools: [] },
    purgeErrors: { enabled: true, turns: 4, protectedTools: [] },
  },
};
const logger = { info() {}, debug() {}, warn: console.error, error: console.error };

const NAMES = { edit: "edit", write: "write", question: "question" };
const OTHERS = ["apply_patch", "multiedit"];  // are called so in opencode too

function converted(messages, kinds) {
  const history = [], tools = new Map();
  for (const [at, { role, content, tool_calls, tool_call_id, failed }] of messages.entries()) {
    if (role === "tool") {
      const { state } = tools.get(tool_call_id);
      Object.assign(state, failed ? { status: "error", error: content } : { status: "completed", output: content });
    } else if (role !== "system") {
      const parts = role === "assistant" ? [{ type: "step-start" }] : [];
      if (content) parts.push({ type: "text", text: content });
      for (const { id, function: { name, arguments: input } } of tool_calls ?? []) {
        const tool = OTHERS.includes(name.toLowerCase()) ? name.toLowerCase() : NAMES[kinds[id]] ?? name;
        const part = { type: "tool", tool, callID: id, state: { status: "pending", input: JSON.parse(input) } };
        tools.set(id, part);
        parts.push(part);
      }
      history.push({ info: { id: `msg_${at}`, role, sessionID: "ses", time: { created: at + 1 } }, parts });
    }
  }
  return { history, tools };
}

function requests({ messages, starts, kinds }) {
  const state = dcp.createSessionState();
  return starts.map((start) => {
    const { history, tools } = converted(messages.slice(0, start), kinds);
    state.currentTurn = dcp.countTurns(state, history);
    dcp.syncToolCache(state, config, logger, history);
    dcp.buildToolIdList(state, history);
    dcp.deduplicate(state, logger, config, history);
    dcp.purgeErrors(state, logger, config, history);
    dcp.prune(state, logger, config, history);
    const changes = {};
    for (const [index, { tool_call_id, tool_calls, content }] of messages.slice(0, start).entries()) {
      const shown = tools.get(tool_call_id)?.state;
      if (shown && (shown.output ?? shown.error) !== content) changes[index] = shown.output;
      const inputs = (tool_calls ?? []).map((call) => [call, tools.get(call.id).state.input]);
      const changed = inputs.filter(([call, input]) => JSON.stringify(JSON.parse(call.function.arguments)) !== JSON.stringify(input));
      if (changed.length) changes[index] = { arguments: Object.fromEntries(changed.map(([call, input]) => [call.id, input])) };
    }
    return changes;
  });
}

const sent = Object.fromEntries(Object.entries(conversations).map(([name, known]) => [name, requests(known)]));
const policies = { opencode_dcp: { parameters: {}, sent } };
process.stdout.write(JSON.stringify({ original: "@tarquinen/opencode-dcp 3.1.14", policies }), () => process.exit(0));
