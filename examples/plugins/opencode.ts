// Prunes opencode's requests by `autoprune proxy`, without a change of the provider's address.
// The proxy decides. Only contents of tool results change, in copies: opencode's own objects are never written to.

const PROXY = process.env.AUTOPRUNE_PROXY ?? "http://127.0.0.1:8484";
const TOKEN = process.env.AUTOPRUNE_TOKEN;
const TIMEOUT_MS = 5_000;

export const Autoprune = async ({ client }: any) => {
	const compacting = new Set<string>();
	// For their tokens. The system prompt, by session, is that of the request before.
	const systems = new Map<string, string>();
	const tools = new Map<string, object>();
	let hasWarned = false;

	async function prune(messages: any[]) {
		const { sessionID, model } = messages.findLast(({ info }) => info.role === "user").info;
		const headers: Record<string, string> = {
			"content-type": "application/json",
			"user-agent": "opencode", // the proxy knows when this client compacts
			"x-session-id": sessionID,
			...(TOKEN && { "x-autoprune-token": TOKEN }),
		};
		const body = {
			model: model.modelID,
			system: systems.get(sessionID),
			tools: [...tools.values()],
			messages: messages.flatMap(toAnthropic).filter(({ content }) => content.length),
			fold: false, // folded messages could not be matched
		};
		const signal = AbortSignal.timeout(TIMEOUT_MS);
		const request = { method: "POST", headers, body: JSON.stringify(body), signal };
		const answer = await fetch(`${PROXY}/v1/compress`, request);
		if (!answer.ok) throw new Error(`status ${answer.status}: ${await answer.text()}`);
		const pruned = await answer.json();
		if (pruned.note) throw new Error(pruned.note);
		return withResults(messages, pruned.messages);
	}

	async function warn(error: any) {
		const message = `autoprune: not pruned by ${PROXY}: ${error.message}`;
		await client.app.log({ body: { service: "autoprune", level: "warn", message } }).catch(() => {});
		await client.tui.showToast({ body: { message, variant: "warning" } }).catch(() => {});
	}

	return {
		"experimental.session.compacting": async ({ sessionID }: any) => void compacting.add(sessionID),
		"experimental.chat.system.transform": async ({ sessionID }: any, { system }: any) =>
			void systems.set(sessionID, system.join("\n")),
		"tool.definition": async ({ toolID: name }: any, { description, jsonSchema: parameters }: any) =>
			void tools.set(name, { name, description, parameters }),
		"experimental.chat.messages.transform": async (_: object, output: any) => {
			const session = output.messages[0]?.info.sessionID;
			if (!session || compacting.delete(session)) return; // a compaction gets the whole history
			try {
				output.messages.splice(0, Infinity, ...(await prune(output.messages)));
				hasWarned = false;
			} catch (error) {
				if (!hasWarned) await warn(error);
				hasWarned = true;
			}
		},
	};
};

// opencode sends an answer that the user interrupted if more of it is there than thinking.
const isLeftOut = ({ info, parts }: any) =>
	info.error &&
	!(info.error.name === "MessageAbortedError" && parts.some((part: any) => !/^(step-start|reasoning)$/.test(part.type)));
const isResult = (part: any) => part.type === "tool";

// In Anthropic's format: Chat Completions have no thinking, and newer Claude models bind it to the results before it.
function toAnthropic({ info, parts }: any): any[] {
	if (isLeftOut({ info, parts })) return [];
	const content = parts.flatMap(block);
	return [
		{ role: info.role, content },
		{ role: "user", content: parts.filter(isResult).map(result) },
	];
}

function block(part: any): any[] {
	if (part.type === "text" && !part.ignored) return [{ type: "text", text: part.text }];
	if (part.type === "file" && /^image\/|pdf$/.test(part.mime)) return [attachment(part)]; // others are not sent
	if (part.type === "tool") return [{ type: "tool_use", id: part.callID, name: part.tool, input: part.state.input }];
	return part.type === "reasoning" ? [{ type: "thinking", thinking: part.text, signature: "" }] : [];
}

function result({ callID, state }: any) {
	const text = state.time?.compacted ? "[Old tool result content cleared]" : (state.output ?? state.error ?? "");
	const content = [{ type: "text", text }, ...(state.attachments ?? []).map(attachment)];
	return { type: "tool_result", tool_use_id: callID, content, is_error: state.status !== "completed" };
}

function attachment({ mime, url }: any) {
	const [, data] = /^data:[^,]*;base64,(.*)$/s.exec(url) ?? [];
	const source = data === undefined ? { type: "url", url } : { type: "base64", media_type: mime, data };
	return { type: mime.startsWith("image/") ? "image" : "document", source };
}

// By position, since some servers use an id again; an answer with another id at this position changes nothing.
function withResults(messages: any[], answered: any[]) {
	const pruned = answered.flatMap(({ content }) => content).filter(({ type }) => type === "tool_result");
	let at = 0;
	return messages.map(({ info, parts }) => ({
		info,
		parts: isLeftOut({ info, parts }) ? parts : parts.map((part: any) => (isResult(part) ? withResult(part, pruned[at++]) : part)),
	}));
}

function withResult(part: any, pruned: any) {
	const before = result(part).content;
	if (pruned?.tool_use_id !== part.callID || JSON.stringify(pruned.content) === JSON.stringify(before)) return part;
	const { state } = part;
	const text = pruned.content.find(({ type }: any) => type === "text")?.text ?? "";
	const attachments = pruned.content.some(({ type }: any) => type !== "text") ? state.attachments : undefined;
	return { ...part, state: { ...state, [state.status === "error" ? "error" : "output"]: text, attachments } };
}
