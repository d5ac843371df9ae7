// Qwen Code's clearing over our conversations. See by_node.py.
//
//     cd FOLDER && npm pack @qwen-code/qwen-code@0.24.4 && tar xzf qwen-code-*.tgz
//     PYTHONPATH=tests/support python tests/originals/by_node.py qwen_clearing.mjs FOLDER
//
// Its bundle does not export the function, so an export is added. It is called as in its client: with the time of the
// last answer when the user writes, and with the pending results (`sizeOnly`) when tools have answered.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const conversations = JSON.parse(readFileSync(0));  // before the package changes stdin
const chunks = `${process.argv[2]}/package/chunks`;
const holds = (name) => readFileSync(`${chunks}/${name}`, "utf8").includes("function microcompactHistory(");
const chunk = readdirSync(chunks).find((name) => name.startsWith("chunk-") && name.endsWith(".js") && holds(name));
const source = readFileSync(`${chunks}/${chunk}`, "utf8");
writeFileSync(`${chunks}/port-of-${chunk}`, `${source}\nexport { microcompactHistory as original };\n`);
const { original } = await import(pathToFileURL(`${chunks}/port-of-${chunk}`));
const settings = { toolResultsThresholdMinutes: 60, toolResultsNumToKeep: 5, toolResultsTotalCharsThreshold: 500_000 };
const NAMES = {
  shell: "run_shell_command", read: "read_file", grep: "grep_search", glob: "glob", edit: "edit", write: "write_file",
  web_fetch: "web_fetch", web_search: "web_search", skill: "skill",
};

function parts(message, tools, kinds) {
  if (message.role !== "tool") {
    const calls = (message.tool_calls ?? []).map((call) => {
      const name = NAMES[kinds[call.id]] ?? call.function.name;
      tools.set(call.id, name);
      return { functionCall: { id: call.id, name, args: JSON.parse(call.function.arguments) } };
    });
    return [...(message.content ? [{ text: message.content }] : []), ...calls];
  }
  const id = message.tool_call_id;
  return [{ functionResponse: { id, name: tools.get(id), response: { output: message.content } } }];
}

function clear(history, pending, pause) {
  if (!pending.length) return history;
  if (!pending[0].functionResponse) return original(history, Date.now() - pause * 1000, settings, {}).history;
  const opts = { sizeOnly: true, pendingContent: { role: "user", parts: pending } };
  return original(history, null, settings, opts).history;
}

function requests({ messages, pauses, starts, kinds }) {
  const tools = new Map(), sent = [];
  let history = [], at = 0;
  for (const start of starts) {
    while (at < start && messages[at].role !== "tool" && messages[at].role !== "user") {
      if (messages[at].role === "assistant") history.push({ role: "model", parts: parts(messages[at], tools, kinds) });
      at++;
    }
    const pending = messages.slice(at, start).flatMap((message) => parts(message, tools, kinds));
    at = start;
    history = clear(history, pending, pauses[start] ?? 0);
    const shown = new Map(history.flatMap((each) => each.parts).filter((part) => part.functionResponse)
      .map((part) => [part.functionResponse.id, part.functionResponse.response.output]));
    if (pending.length) history = [...history, { role: "user", parts: pending }];
    sent.push(Object.fromEntries(messages.slice(0, start).flatMap(({ tool_call_id, content }, index) =>
      (shown.get(tool_call_id) ?? content) === content ? [] : [[index, shown.get(tool_call_id)]])));
  }
  return sent;
}

const sent = Object.fromEntries(Object.entries(conversations).map(([name, known]) => [name, requests(known)]));
const policies = { qwen_clearing: { parameters: {}, sent } };
process.stdout.write(JSON.stringify({ original: "@qwen-code/qwen-code 0.24.4", policies }), () => process.exit(0));
