"""Policies for thinking blocks after an edit, on models that bind them to everything before. Edits nothing.

Source: Anthropic's documentation, "Preserved thinking" and "Prefix checks on thinking blocks". On the models named here
a thinking block is valid only while the system prompt, the tools and the messages before it are unchanged; otherwise
the API answers with status 400. Claude Mythos 5.1 signs its blocks too, but does not check them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autoprune.conversation.edits import Reason
from autoprune.conversation.transcript import Path, Thought
from autoprune.errors import SettingsError, did_you_mean
from autoprune.planning.plan import Plan, ThinkingPolicy

BINDING_MODELS = (
    *("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"),
    *("claude-fable-5-1", "claude-fable-5-2", "claude-mythos-5-2"),
)
BETA = "thinking-binding-controls-2026-08-01"
BETA_HEADER = "anthropic-beta"
BETA_FIELD = "anthropic_beta"  # Bedrock's: a list in the body of a request, since no header can be sent
CONTROLLED = ("adaptive", "enabled")  # the types of `thinking` that accept `block_binding`


def policy(wanted: str | None, model: str | None) -> ThinkingPolicy:
    """Look up a policy by its name. The default is `drop_block` for models known to bind, `report` for all others.

    Raises SettingsError for an unknown policy.
    """
    if wanted is None:
        # Providers spell a model's name differently, with a prefix or dots: "anthropic/claude-opus-5.5".
        binds = model is not None and any(name in model.replace(".", "-") for name in BINDING_MODELS)
        return ThinkingPolicy.DROP_BLOCK if binds else ThinkingPolicy.REPORT
    try:
        return ThinkingPolicy(wanted)
    except ValueError as error:
        near = did_you_mean(wanted, ThinkingPolicy)
        raise SettingsError(f"thinking_policy is {wanted!r}{near}: give one of {', '.join(ThinkingPolicy)}") from error


@dataclass(frozen=True)
class Outcome:
    """The result of a policy for a plan: API parameters, notes, thinking that is removed now, and later."""

    parameters: Mapping[str, object]
    stripped: tuple[Thought, ...] = ()
    stripped_later: tuple[Thought, ...] = ()
    notes: tuple[str, ...] = ()

    def apply_to(self, plan: Plan) -> Plan:
        """Add the thinking that is removed now and later to a plan."""
        return replace(plan, stripped=self.stripped, stripped_later=self.stripped_later)


NO_OUTCOME = Outcome({})


def outcome(chosen: ThinkingPolicy, plan: Plan) -> Outcome:
    """Apply a policy to the thinking blocks after an edit, or after a result that was cleared earlier."""
    end: Path = (len(plan.transcript.entries),)
    edited = plan.first_changed or end
    if chosen is ThinkingPolicy.STRIP:
        return _report_stripped(plan, _thoughts_after(plan, plan.changed or end))
    if chosen is ThinkingPolicy.DROP_BLOCK:
        behind = _thoughts_after(plan, min(edited, plan.changed or end))
        return Outcome(drop_block(behind)) if behind else NO_OUTCOME
    if chosen is ThinkingPolicy.REFUSE:
        return _report_refused(plan)
    behind = _thoughts_after(plan, edited)
    if not behind:
        return NO_OUTCOME
    number = f"{len(behind)} thinking block{'s stand' if len(behind) > 1 else ' stands'} behind the first edit"
    return Outcome({}, notes=(f"{number}; models that bind thinking to its prefix refuse it: see thinking_policy",))


def _report_refused(plan: Plan) -> Outcome:
    """Note how many results were kept because thinking follows them, if the prompt is over its limit.

    The walk edited only results that no thinking followed at that time; later thinking is bound to the edited messages.
    """
    bound = sum(reason is Reason.BOUND for reason in plan.kept.values())
    note = f"{bound} tool results were kept for the thinking behind them (thinking_policy 'refuse')"
    return Outcome({}, notes=(note,)) if bound and plan.tokens > plan.limit else NO_OUTCOME


def drop_block(thoughts: Sequence[Thought] = ()) -> dict[str, object]:
    """The request parameters that make the API drop thinking blocks whose prefix has changed.

    They are parameters of Anthropic's SDK or, if the thoughts are Bedrock's, of `converse`, which passes fields that it
    does not know to the model. `thinking` needs a type: adaptive is the default of the models that bind.
    """
    setting = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    if thoughts and thoughts[-1].kind == "bedrock":
        return {"additionalModelRequestFields": {BETA_FIELD: [BETA], "thinking": setting}}
    return {"extra_headers": {BETA_HEADER: BETA}, "thinking": setting}


def _thoughts_after(plan: Plan, first: Path) -> list[Thought]:
    """The thinking blocks after the first change, in messages that are not removed."""
    entries = plan.transcript.entries[int(first[0]) :]
    behind = (thought for entry in entries for thought in entry.thinking if thought.location.path > first)
    return [thought for thought in behind if thought.location.message not in plan.gone]


def _report_stripped(plan: Plan, behind: Sequence[Thought]) -> Outcome:
    """Report the thinking that the walk removed, and note the rest: that of the latest turn, or alone in a message."""
    out = set(plan.stripped)
    left = [thought for thought in behind if thought not in out]
    number = f"{len(left)} thinking block{'s stay' if len(left) > 1 else ' stays'} behind an edit"
    note = f"{number} (of the latest turn, or alone in a message): models that bind thinking refuse them"
    stripped_later = tuple(thought for thought in left if not thought.is_alone)
    return Outcome({}, plan.stripped, stripped_later, notes=(note,) if left else ())


def merged(parameters: Mapping[str, object], into: Mapping[str, object]) -> dict[str, object]:
    """Merge parameters into the arguments of a request: mappings are merged, beta headers are joined.

    The `betas` of Anthropic's SDK are joined too, since a header overrides them. In `additionalModelRequestFields` of
    Bedrock's `converse`, lists of betas are joined. The request's type of `thinking` is kept. If the request turns
    thinking off, it remains off: the API then accepts no `block_binding`, and earlier thinking should be removed
    (thinking_policy "strip").
    """
    both = dict(into)
    for name, value in parameters.items():
        known = _beta_headers(both) if name == "extra_headers" else both.get(name)
        if name == "thinking" and isinstance(known, Mapping) and isinstance(value, Mapping):
            both[name] = _merge_thinking(value, known)
        elif isinstance(known, Mapping) and isinstance(value, Mapping):
            both[name] = merged(value, known)
        elif name == BETA_HEADER:
            both[name] = ",".join(dict.fromkeys((*_split_betas(known), *_split_betas(value))))
        elif name == BETA_FIELD and isinstance(known, list | tuple) and isinstance(value, list | tuple):
            both[name] = list(dict.fromkeys((*known, *value)))
        else:
            both[name] = value
    return both


def _merge_thinking(setting: Mapping[str, object], known: Mapping[str, object]) -> Mapping[str, object]:
    """Merge a setting into a request's `thinking`, if its type accepts one."""
    kind = known.get("type", setting.get("type"))
    return merged({**setting, "type": kind}, known) if kind in CONTROLLED else known


def _beta_headers(request: Mapping[str, object]) -> Mapping[str, object]:
    """The headers of a request, including its `betas` as a header. Names of headers are not case-sensitive."""
    betas, given = request.get("betas"), request.get("extra_headers")
    headers: dict[str, object] = {BETA_HEADER: ",".join(map(str, betas))} if isinstance(betas, list | tuple) else {}
    for name, value in given.items() if isinstance(given, Mapping) else ():
        headers[BETA_HEADER if str(name).lower() == BETA_HEADER else name] = value
    return headers


def _split_betas(header: object) -> list[str]:
    return [word.strip() for word in header.split(",") if word.strip()] if isinstance(header, str) else []
