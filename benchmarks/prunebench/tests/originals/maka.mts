// Run by maka.py, with tsx: prints what maka sends before each request, in Chat Completions form, by conversation.
// Arguments: a checkout of maka, and a file with the conversations, the starts of their requests, and ids.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [checkout, given] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${checkout}/packages/runtime/src/${name}.ts`).href);
const { rewriteActiveToolResultsInMessages } = await load('active-tool-result-prune');
const archive = await load('tool-result-archive');
const { sessionId, conversations } = JSON.parse(readFileSync(given, 'utf8'));
const sha256 = (text) => createHash('sha256').update(text).digest('hex');
const idOf = (identity) => archive.stableToolResultArchiveArtifactId({ ...identity, sessionId });

// The earlier turns, as the next one sends them: large results of turns before the last two are archived.
function earlier({ messages, turns, turnIds, eventIds, tools }, start, turn) {
  const events = [];
  for (let at = 0; at < start; at += 1) {
    const { role, content, tool_call_id: id } = messages[at];
    if (turns[at] >= turn || turns[at] === 0 || role === 'assistant') continue;
    const result = { kind: 'function_response', id, name: tools[id], result: content };
    const told = role === 'tool' ? result : { kind: 'text', text: content };
    events.push({ id: role === 'tool' ? eventIds[id] : `event ${at}`, turnId: turnIds[turns[at]], content: told });
  }
  const policy = { enabled: true, maxResultEstimatedTokens: 2048, minRecentTurnsFull: 2 };
  const archiveRefs = archive.collectStaleToolResultArchiveCandidates(events, policy, 4, 2).map((candidate) => {
    const ref = { ...candidate, bodySha256: sha256(candidate.serializedResult) };
    return { ...ref, artifactId: idOf(ref) };
  });
  const pruned = archive.pruneStaleToolResultsBeforeCompact(events, { ...policy, archiveRefs }, 4, 2).events;
  return new Map(pruned.map(({ content }) => [content.id, content.result]));
}

// The current turn, as maka projects it before a step; all completed steps can be pruned.
async function current({ messages, turns, turnIds, tools }, start, turn) {
  const now = messages.slice(0, start).filter((_, at) => turns[at] === turn);
  const steps = now.filter((each) => each.tool_calls);
  const calls = steps.flatMap((step, stepNumber) =>
    step.tool_calls.map((call) => ({
      toolCallId: call.id, toolName: call.function.name, input: JSON.parse(call.function.arguments), stepNumber,
    })));
  const results = now.filter((each) => each.role === 'tool').map(({ tool_call_id: id, content }) => ({
    role: 'tool',
    content: [{ type: 'tool-result', toolCallId: id, toolName: tools[id], output: { type: 'text', value: content } }],
  }));
  const { messages: sent } = await rewriteActiveToolResultsInMessages({
    messages: results,
    policy: { enabled: true, maxCurrentResultEstimatedTokens: 2048, minSupersededResultEstimatedTokens: 256, minStepNumber: 1 },
    stepNumber: steps.length,
    turnId: turnIds[turn],
    eligibleToolCallIds: new Set(calls.map((call) => call.toolCallId)),
    completedToolCalls: calls,
    archivedPlaceholders: new Map(),
    archiveToolResult: (candidate) => ({
      artifactId: idOf({
        ...candidate,
        runtimeEventId: `active:${candidate.turnId}:${candidate.toolCallId}:${candidate.bodySha256}`,
      }),
    }),
  });
  return new Map(sent.map(({ content: [part] }) => [part.toolCallId, part.output.value]));
}

const found = {};
for (const [name, known] of Object.entries(conversations)) {
  found[name] = [];
  for (const start of known.starts) {
    const turn = start ? known.turns[start - 1] : 0;
    const texts = new Map([...earlier(known, start, turn), ...(await current(known, start, turn))]);
    const changed = (each) => texts.get(each.tool_call_id) ?? each.content;
    const text = (value) => (typeof value === 'object' && value ? JSON.stringify(value) : value);
    found[name].push(known.messages.slice(0, start).map((each) =>
      each.role === 'tool' ? { ...each, content: text(changed(each)) } : each));
  }
}
process.stdout.write(JSON.stringify(found));
