"""Pick the sentences of a text that are worth keeping: findings and decisions."""

import re
from collections.abc import Iterator

from autoprune.facts.plain_text import one_line

LOOKED_AT = 20_000  # characters of one message, of its beginning and of its end each
LONGEST = 300  # characters of a sentence
SHORTEST = 12
SHORT = 40  # characters of a sentence that only announces what the next one says: "I found the cause."
ANNOUNCED = re.compile(r"(?i)\b(?:found|cause|problem|issue|reason|bug|culprit|here|why)\b")
CODE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[ \t]*$", re.MULTILINE | re.DOTALL)
END = re.compile(r"(?<=[.!?。！？])[\"')*`]*\s+|(?<=[。！？])|\n+")
BULLET = re.compile(r"^(?:\s|[-*•>#]+\s|\d+[.)]\s)+")
# How a finding or a decision is said, and what is said of the next step alone.
FINDING = re.compile(
    r"(?i)\b(?:root cause|the (?:cause|reason|problem|issue|bug|culprit|fix|solution|answer|key|catch) (?:is|was|here)"
    r"|because|caused by|due to|turns? out|is (?:missing|wrong|broken|unused|fixed|done|complete)"
    r"|(?:I|we)(?:['’]ve| have)? (?:found|confirmed|verified|decided|chose|fixed|added|removed|renamed|changed|moved"
    r"|implemented|updated|committed|created|reverted|replaced)"
    r"|does(?:n['’]t| not)|did(?:n['’]t| not)|can(?:not|['’]t)|instead of|so that|the plan|note that|important(?:ly)?"
    r"|all tests (?:pass|green)|tests? pass(?:es|ed)?|now (?:passes|works|fails|uses|returns)"
    r"|fails? (?:because|with|on)|still (?:fails?|missing|open|broken)|remaining|not yet"
    r"|I['’]ll (?:keep|use|leave|skip|treat|go with|not)|we(?:['’]ll| will| should) |should (?:be|use|not)"
    r"|commit(?:ted)? [0-9a-f]{7})"
    r"|原因|问题是|决定|因为|已(?:经)?(?:修复|完成|添加)"
)
STEP = re.compile(
    r"(?i)^(?:(?:now|next|ok(?:ay)?|good|perfect|great|first)[,.!]? )*"
    r"(?:let me|let['’]s|I['’]m (?:now )?\w+ing"
    r"|I(?:['’]ll| will)(?: now)? (?:check|look|read|run|see|start|view|search|find|open|verify|examine)"
    r")\b"
)


def findings(words: str) -> Iterator[str]:
    """Yield the assistant's sentences that tell a cause, an outcome or a decision; a short one with the next."""
    before = ""
    for sentence in sentences(words):
        is_step = bool(STEP.match(sentence))
        if before:
            yield before if is_step else f"{before} {sentence}"
            before = ""
        elif FINDING.search(sentence) and not is_step:
            before = sentence if len(sentence) <= SHORT and ANNOUNCED.search(sentence) else ""
            yield from () if before else (sentence,)
    yield from (before,) if before else ()


def sentences(words: str) -> Iterator[str]:
    """Yield the sentences of a text, each on one line, but for fenced code and for too long or too short ones."""
    text = words if len(words) <= 2 * LOOKED_AT else f"{words[:LOOKED_AT]}\n{words[-LOOKED_AT:]}"
    for sentence in END.split(CODE.sub("\n", text)):
        plain = one_line(BULLET.sub("", sentence), 2 * LONGEST)
        if SHORTEST <= len(plain) <= LONGEST and plain[-1] != ":":
            yield plain
