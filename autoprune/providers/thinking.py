"""Thinking blocks that are bound to everything before them, and what to do about those behind an edit. Edits nothing.

Source: Anthropic's documentation, "Preserved thinking" and "Prefix checks on thinking blocks". On the models named here
a thinking block is valid only while the system prompt, the tools and the messages before it are as they were; otherwise
the API answers with status 400. Claude Mythos 5.1 signs its blocks alike and runs no such check.
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
BETA_FIELD = "anthropic_beta"  # a list in the body of a request, where no header can be sent
CONTROLLED = ("adaptive", "enabled")  # the types of `thinking` that may say what becomes of blocks


def policy(wanted: str | None, model: str | None) -> ThinkingPolicy:
    """Return the policy that was asked for; else `drop_block` for models known to bind, `report` for all others.

    Raises SettingsError for a policy that there is not.
    """
    if wanted is None:
        binds = model is not None and any(name in model.replace(".", "-") for name in BINDING_MODELS)
        return ThinkingPolicy.DROP_BLOCK if binds else ThinkingPolicy.REPORT
    try:
        return ThinkingPolicy(wanted)
    except ValueError as error:
        near = did_you_mean(wanted, ThinkingPolicy)
        raise SettingsError(f"thinking_policy is {wanted!r}{near}: give one of {', '.join(ThinkingPolicy)}") from error


@dataclass(frozen=True)
class Outcome:
    """What a policy comes to for a plan: parameters for the API, thinking taken out or refused, notes for a person."""

    parameters: Mapping[str, object]
    stripped: tuple[Thought, ...] = ()
    doomed: tuple[Thought, ...] = ()
    notes: tuple[str, ...] = ()

    def applied(self, plan: Plan) -> Plan:
        """Return a plan with the thinking that is taken out, and that will be refused."""
        return replace(plan, stripped=self.stripped, doomed=self.doomed)


NOTHING = Outcome({})


def outcome(chosen: ThinkingPolicy, plan: Plan) -> Outcome:
    """Return what is done about the thinking blocks that stand behind an edit, or behind what was cleared before."""
    end: Path = (len(plan.transcript.entries),)
    edited = plan.first_changed or end
    if chosen is ThinkingPolicy.STRIP:
        return _stripped(plan, _behind(plan, plan.changed or end))
    if chosen is ThinkingPolicy.DROP_BLOCK:
        behind = _behind(plan, min(edited, plan.changed or end))
        return Outcome(drop_block(behind)) if behind else NOTHING
    if chosen is ThinkingPolicy.REFUSE:
        return _refused(plan)
    behind = _behind(plan, edited)
    if not behind:
        return NOTHING
    number = f"{len(behind)} thinking block{'s stand' if len(behind) > 1 else ' stands'} behind the first edit"
    return Outcome({}, notes=(f"{number}; models that bind thinking to its prefix refuse it: see thinking_policy",))


def _refused(plan: Plan) -> Outcome:
    """Return a note of the results that were kept for thinking, where the prompt is over its limit for that.

    The walk has edited nothing that thinking stood behind at that time; what has followed is bound to the edit.
    """
    bound = sum(reason is Reason.BOUND for reason in plan.kept.values())
    note = f"{bound} tool results were kept for the thinking behind them (thinking_policy 'refuse')"
    return Outcome({}, notes=(note,)) if bound and plan.tokens > plan.limit else NOTHING


def drop_block(thoughts: Sequence[Thought] = ()) -> dict[str, object]:
    """Return the parameters of a request by which the API drops thinking blocks whose prefix has changed.

    They are those of Anthropic's SDK; where the thoughts are Bedrock's, those of `converse`, which hands fields that it
    does not know itself to the model. `thinking` needs a type: the models that bind think adaptively where a request
    says nothing of it.
    """
    setting = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    if thoughts and thoughts[-1].kind == "bedrock":
        return {"additionalModelRequestFields": {BETA_FIELD: [BETA], "thinking": setting}}
    return {"extra_headers": {BETA_HEADER: BETA}, "thinking": setting}


def _behind(plan: Plan, first: Path) -> list[Thought]:
    """Return the thinking blocks that stand behind the first place that has changed, in messages that stay."""
    entries = plan.transcript.entries[int(first[0]) :]
    behind = (thought for entry in entries for thought in entry.thinking if thought.location.path > first)
    return [thought for thought in behind if thought.location.message not in plan.gone]


def _stripped(plan: Plan, behind: Sequence[Thought]) -> Outcome:
    """Return what the walk has taken out, and a note of the thinking that stays: of the latest turn, or alone."""
    out = set(plan.stripped)
    left = [thought for thought in behind if thought not in out]
    number = f"{len(left)} thinking block{'s stay' if len(left) > 1 else ' stays'} behind an edit"
    note = f"{number} (of the latest turn, or alone in a message): models that bind thinking refuse them"
    doomed = tuple(thought for thought in left if not thought.is_alone)
    return Outcome({}, plan.stripped, doomed, notes=(note,) if left else ())


def merged(parameters: Mapping[str, object], into: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of a request with parameters merged in: mappings are merged, beta headers are joined.

    The `betas` of Anthropic's SDK are joined too: a header takes their place. In `additionalModelRequestFields`, as
    Bedrock's `converse` takes them, lists of betas become one. The request's own type of `thinking` stays. Where it
    turns thinking off, it stays as it is: the API takes no `block_binding` there, and thinking from before is better
    taken out (thinking_policy "strip").
    """
    both = dict(into)
    for name, value in parameters.items():
        known = _headers(both) if name == "extra_headers" else both.get(name)
        if name == "thinking" and isinstance(known, Mapping) and isinstance(value, Mapping):
            both[name] = _thinking(value, known)
        elif isinstance(known, Mapping) and isinstance(value, Mapping):
            both[name] = merged(value, known)
        elif name == BETA_HEADER:
            both[name] = ",".join(dict.fromkeys((*_listed(known), *_listed(value))))
        elif name == BETA_FIELD and isinstance(known, list | tuple) and isinstance(value, list | tuple):
            both[name] = list(dict.fromkeys((*known, *value)))
        else:
            both[name] = value
    return both


def _thinking(setting: Mapping[str, object], known: Mapping[str, object]) -> Mapping[str, object]:
    """Return what a request says of thinking, with a setting merged in where its type takes one."""
    kind = known.get("type", setting.get("type"))
    return merged({**setting, "type": kind}, known) if kind in CONTROLLED else known


def _headers(request: Mapping[str, object]) -> Mapping[str, object]:
    """Return the headers of a request, that of its `betas` among them; names are the same in upper and lower case."""
    betas, given = request.get("betas"), request.get("extra_headers")
    headers: dict[str, object] = {BETA_HEADER: ",".join(map(str, betas))} if isinstance(betas, list | tuple) else {}
    for name, value in given.items() if isinstance(given, Mapping) else ():
        headers[BETA_HEADER if str(name).lower() == BETA_HEADER else name] = value
    return headers


def _listed(header: object) -> list[str]:
    return [word.strip() for word in header.split(",") if word.strip()] if isinstance(header, str) else []
