// Gemini CLI's tool output masking over our conversations. See by_node.py.
//
//     cd FOLDER && npm install --ignore-scripts @google/gemini-cli-core@0.61.0
//     PYTHONPATH=tests/support python tests/originals/by_node.py gemini_masking.mjs FOLDER
//
// As in its client, the history at a request is everything before the messages that the request adds, and masked
// outputs replace those of the history. Files are written to a temporary folder, whose path is replaced by a fixed one.
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { pathToFileURL } from "node:url";

const conversations = JSON.parse(readFileSync(0));  // before the package changes stdin
const core = `${process.argv[2]}/node_modules/@google/gemini-cli-core/dist/src`;
const { ToolOutputMaskingService } = await import(pathToFileURL(`${core}/context/toolOutputMaskingService.js`));
const folder = mkdtempSync(`${tmpdir()}/masking-`);
Math.random = () => ({ toString: () => "0.00000abcdef" });
const config = {
  getToolOutputMaskingConfig: async () => ({
    protectionThresholdTokens: 50_000, minPrunableThresholdTokens: 30_000, protectLatestTurn: true,
  }),
  getSessionId: () => "00000000-0000-4000-8000-000000000000",
  storage: { getProjectTempDir: () => folder },
  getUsageStatisticsEnabled: () => false,
  getTelemetryLogPromptsEnabled: () => false,
  isInteractive: () => false,
  getExperiments: () => undefined,
  getContentGeneratorConfig: () => undefined,
};
const NAMES = {
  shell: "run_shell_command", skill: "activate_skill", question: "ask_user", plan_mode: "enter_plan_mode",
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

async function requests({ messages, starts, kinds }) {
  const service = new ToolOutputMaskingService(), tools = new Map(), sent = [];
  let history = [], at = 0;
  for (const start of starts) {
    let pending = start;
    while (pending > 0 && ["tool", "user"].includes(messages[pending - 1].role)) pending--;
    for (; at < pending; at++) {
      const { role } = messages[at];
      if (role === "system") continue;
      const added = parts(messages[at], tools, kinds), last = history.at(-1);
      if (role === "tool" && messages[at - 1].role === "tool") last.parts = [...last.parts, ...added];
      else history.push({ role: role === "assistant" ? "model" : "user", parts: added });
    }
    history = (await service.mask(history, config)).newHistory.map((each) => ({ ...each }));
    const shown = new Map(history.flatMap((each) => each.parts).filter((part) => part.functionResponse)
      .map((part) => [part.functionResponse.id, part.functionResponse.response.output]));
    sent.push(Object.fromEntries(messages.slice(0, start).flatMap(({ tool_call_id, content }, index) => {
      const output = shown.get(tool_call_id)?.replaceAll(folder, "/home/user/.gemini/tmp/project").toWellFormed();
      return output === undefined || output === content ? [] : [[index, output]];
    })));
  }
  return sent;
}

const sent = {};
for (const [name, known] of Object.entries(conversations)) sent[name] = await requests(known);
const policies = { gemini_tool_output_masking: { parameters: {}, sent } };
process.stdout.write(JSON.stringify({ original: "@google/gemini-cli-core 0.61.0", policies }), () => process.exit(0));
