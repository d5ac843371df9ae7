// Claude Code's microcompact, cut out of the released program, over our conversations. See by_node.py.
//
//     cd FOLDER && npm pack @anthropic-ai/claude-code@2.1.104 && tar xzf anthropic-ai-claude-code-*.tgz
//     PYTHONPATH=tests/support python tests/originals/by_node.py claude_microcompact.mjs FOLDER
//
// The program calls it before each request of a turn, and sends the messages that it returns with the later requests of
// the turn. A turn begins with the messages of the session, which are never edited: with its flag on, the program sends
// the old results of a resumed session cleared in the first turn, and in full in the second. A flag of Anthropic's
// servers turns the function on; here the flag has the program's default values, but is on.
import { readFileSync } from "node:fs";

const program = readFileSync(`${process.argv[2]}/package/cli.js`, "utf8");
const cut = (pattern) => {
  const found = program.match(pattern);
  if (!found) throw new Error(`this release of Claude Code is built differently: no ${pattern}`);
  return found;
};

// Names of the program change with each release; they are found by the code around them.
const name = "[\\w$]+";
const [, flag, defaults] = cut(`function (${name})\\(\\)\\{return ${name}\\("tengu_slate_heron",${name}\\)\\}var ${name};var ${name}=${name}\\(\\(\\)=>\\{${name}\\(\\);${name}=(\\{[^}]*\\})`);
const [source, original] = cut(`function ${name}\\(q\\)\\{if\\(!q\\.content\\)return 0;.*?async function (${name}).*?\\[TIME-BASED MC\\].*?\\}\\}(?=var )`);
const [, cleared, image, tools] = cut(`var (${name})="\\[Old tool result content cleared\\]",(${name})=2000,(${name}),`);
const [, read, shells, ...others] = cut(`[;}]${tools.replaceAll("$", "\\$")}=new Set\\(\\[(${name}),\\.\\.\\.(${name}),(${name}),(${name}),(${name}),(${name}),(${name}),(${name})\\]`);
const text = (variable) => cut(`[ ,;]${variable.replaceAll("$", "\\$")}="([^"]*)"`)[1];
const list = cut(`[ ,;(]${shells.replaceAll("$", "\\$")}=\\[(${name}),(${name})\\]`).slice(1);
const clearable = new Set([read, ...list, ...others].map(text));
const [, estimate, estimated] = cut(`function (${name})(\\(q,K=4\\)\\{return Math\\.round\\(q\\.length/K\\)\\})`);

const settings = { ...new Function(`return (${defaults.replaceAll("!1", "false")})`)(), enabled: true };
const known = {
  [flag]: () => settings,
  [estimate]: new Function(`return function ${estimated}`)(),
  [cleared]: "[Old tool result content cleared]",
  [image]: 2000,
  [tools]: clearable,
};
// Other names are those of the program's telemetry, log and state of the screen.
const scope = new Proxy(known, {
  has: (_, key) => typeof key === "string" && (key in known || !(key in globalThis)),
  get: (_, key) => (key in known ? known[key] : () => undefined),
});
const microcompact = new Function("scope", `with (scope) { ${source}; return ${original}; }`)(scope);

const NAMES = { bash: "Bash", read: "Read", grep: "Grep", edit: "Edit" };

function converted({ role, content, tool_calls, tool_call_id }, timestamp) {
  if (role === "tool") return { type: "user", message: { content: [{ type: "tool_result", tool_use_id: tool_call_id, content }] } };
  if (role !== "assistant") return { type: role, message: { content } };
  const calls = (tool_calls ?? []).map(({ id, function: { name, arguments: input } }) =>
    ({ type: "tool_use", id, name: NAMES[name] ?? name, input: JSON.parse(input) }));
  return { type: role, timestamp, message: { content: [...(content ? [{ type: "text", text: content }] : []), ...calls] } };
}

async function requests({ messages, pauses, starts }) {
  const session = [], sent = [];
  let turn = [], at = 0;
  for (const start of starts) {
    const timestamp = new Date(Date.now() - (pauses[start] ?? 0) * 1000).toISOString();
    const added = messages.slice(at, start).map((message) => converted(message, timestamp));
    at = start;
    session.push(...added);
    turn = messages[start - 1].role === "user" ? [...session] : [...turn, ...added];
    turn = (await microcompact(turn, {}, "repl_main_thread")).messages;
    const shown = new Map(turn.flatMap(({ message: { content } }) => (Array.isArray(content) ? content : []))
      .filter(({ type }) => type === "tool_result").map((block) => [block.tool_use_id, block.content]));
    sent.push(Object.fromEntries(messages.slice(0, start).flatMap(({ tool_call_id, content }, index) =>
      (shown.get(tool_call_id) ?? content) === content ? [] : [[index, shown.get(tool_call_id)]])));
  }
  return sent;
}

const sent = {};
for (const [name, known] of Object.entries(JSON.parse(readFileSync(0)))) sent[name] = await requests(known);
const { enabled, gapThresholdMinutes: minutes, keepRecent: keep } = settings;
if (minutes !== 60 || keep !== 5 || clearable.size !== 9) throw new Error("this release has other defaults");
const policies = { claude_code_microcompact: { parameters: {}, sent } };
console.log(JSON.stringify({ original: "@anthropic-ai/claude-code 2.1.104", policies }));
