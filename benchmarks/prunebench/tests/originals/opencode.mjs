// opencode's prune, cut out of the released program, over our conversations. See by_node.py.
//
//     cd FOLDER && npm pack opencode-linux-x64@1.18.33 && tar xzf opencode-linux-x64-*.tgz
//     PYTHONPATH=tests/support python tests/originals/by_node.py opencode.mjs FOLDER
//
// The program calls the function when a loop of its agent has ended, so here after each answer without calls.
import { readFileSync } from "node:fs";

const program = readFileSync(`${process.argv[2]}/package/bin/opencode`, "latin1");
const start = program.indexOf('n.fn("SessionCompaction.prune")(') + 'n.fn("SessionCompaction.prune")('.length;
const source = program.slice(start, program.indexOf('),W=n.fn("SessionCompaction.process")', start));
const [, unit, estimate] = program.match(/Token:\(\)=>\w+\}\);var (\w+=4),\w+=(\(H\)=>Math\.max\(0,Math\.round\(H\.length\/\w+\)\))/);

const effect = (value) => ({ pipe() { return this; }, *[Symbol.iterator]() { return value; } });
const finish = (work) => { let step = work.next(); while (!step.done) step = work.next(); return step.value; };

function prune(messages) {
  const names = ["e", "o", "n", "qa", "Id", "Dl", "Na", "Fa"];
  const values = [
    { get: () => effect({ compaction: { prune: true } }) },
    { messages: () => effect(messages), updatePart: () => effect() },
    { logInfo: () => effect(), catchIf: () => undefined, succeed: effect },
    { isInstance: () => false },
    ["skill"],
    { estimate: new Function(`const ${unit}; return ${estimate}`)() },
    40_000,
    20_000,
  ];
  finish(new Function(...names, `return (${source})`)(...values)({ sessionID: "s" }));
}

function* requests({ messages, starts, kinds }) {
  const history = [], parts = new Map();
  let at = 0;
  for (const start of starts) {
    for (; at < start; at++) {
      const { role, content, tool_calls, tool_call_id } = messages[at];
      if (role === "tool") parts.get(tool_call_id).state = { status: "completed", output: content, time: {} };
      if (role === "user") history.push({ info: { role }, parts: [] });
      if (role !== "assistant") continue;
      const tools = (tool_calls ?? []).map((call) => ({ type: "tool", tool: kinds[call.id] === "skill" ? "skill" : call.function.name, id: call.id, state: {} }));
      for (const part of tools) parts.set(part.id, part);
      history.push({ info: { role }, parts: tools });
      if (!tools.length) prune(history);
    }
    const cleared = messages.slice(0, start).flatMap(({ role, tool_call_id }, index) =>
      role === "tool" && parts.get(tool_call_id).state.time.compacted ? [[index, "[Old tool result content cleared]"]] : []);
    yield Object.fromEntries(cleared);
  }
}

if (start < 100) throw new Error("this release of opencode is built differently");
const sent = {};
for (const [name, known] of Object.entries(JSON.parse(readFileSync(0)))) sent[name] = [...requests(known)];
const recorded = { parameters: {}, sent };
console.log(JSON.stringify({ original: "opencode-linux-x64 1.18.33", policies: { opencode_prune: recorded } }));
