// Prunes pi's requests by `autoprune proxy`, without a change of the provider's address.
// The proxy decides. Only contents of tool results change, and only in the copy that pi sends.

const PROXY = process.env.AUTOPRUNE_PROXY ?? "http://127.0.0.1:8484";
const TOKEN = process.env.AUTOPRUNE_TOKEN;
const TIMEOUT_MS = 5_000;

export default function (pi: any) {
	let hasWarned = false;

	pi.on("context", async (event: any, ctx: any) => {
		const sent = event.messages.map(toAnthropic).filter((each: any) => each?.content.length);
		try {
			const headers: Record<string, string> = {
				"content-type": "application/json",
				"user-agent": "pi-coding-agent", // the proxy knows when this client compacts
				"x-session-id": ctx.sessionManager.getSessionId(),
				...(TOKEN && { "x-autoprune-token": TOKEN }),
			};
			const active = pi.getActiveTools();
			const tools = pi.getAllTools().filter((each: any) => active.includes(each.name));
			const body = {
				model: ctx.model?.id,
				system: ctx.getSystemPrompt(),
				tools: tools.map(({ name, description, parameters }: any) => ({ name, description, parameters })),
				messages: sent,
				fold: false, // folded messages could not be matched
			};
			const signal = AbortSignal.timeout(TIMEOUT_MS);
			const request = { method: "POST", headers, body: JSON.stringify(body), signal };
			const answer = await fetch(`${PROXY}/v1/compress`, request);
			if (!answer.ok) throw new Error(`status ${answer.status}: ${await answer.text()}`);
			const { messages, note } = await answer.json();
			if (note) throw new Error(note);
			hasWarned = false;
			return { messages: withResults(event.messages, results(messages)) };
		} catch (error: any) {
			const text = `autoprune: not pruned by ${PROXY}: ${error.cause?.message || error.message}`;
			if (!hasWarned) ctx.hasUI ? ctx.ui.notify(text, "warning") : console.error(text);
			hasWarned = true;
		}
	});
}

// In Anthropic's format: Chat Completions have no thinking, and newer Claude models bind it to the results before it.
function toAnthropic(message: any) {
	if (message.role === "toolResult") {
		const { toolCallId: tool_use_id, content, isError: is_error } = message;
		return { role: "user", content: [{ type: "tool_result", tool_use_id, content: content.map(block), is_error }] };
	}
	if (message.excludeFromContext || ["error", "aborted"].includes(message.stopReason)) return; // pi does not send it
	const { command, output, summary, content = summary ?? `${command}\n${output}` } = message;
	const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
	return { role: message.role === "assistant" ? "assistant" : "user", content: blocks.map(block) };
}

function block(part: any) {
	if (part.type === "toolCall") return { type: "tool_use", id: part.id, name: part.name, input: part.arguments };
	if (part.type === "image")
		return { type: "image", source: { type: "base64", media_type: part.mimeType, data: part.data } };
	if (part.type === "thinking") return { type: "thinking", thinking: part.thinking, signature: "" };
	return { type: "text", text: part.text };
}

const results = (messages: any[]) =>
	messages.flatMap(({ content }) => content).filter((each) => each.type === "tool_result");

// By position, since some servers use an id again; an answer with another id at this position changes nothing.
function withResults(messages: any[], pruned: any[]) {
	let at = 0;
	return messages.map((message) => (message.role === "toolResult" ? withResult(message, pruned[at++]) : message));
}

function withResult(message: any, pruned: any) {
	const before = JSON.stringify(message.content.map(block));
	if (pruned?.tool_use_id !== message.toolCallId || JSON.stringify(pruned.content) === before) return message;
	return { ...message, content: pruned.content.map(fromAnthropic) };
}

const fromAnthropic = ({ type, text, source }: any) =>
	type === "image" ? { type, mimeType: source.media_type, data: source.data } : { type, text };
