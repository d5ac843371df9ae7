"""tiktoken as the reference, without a network: its vocabulary comes from the splintr-rs wheel."""

from functools import cache

import tiktoken
from splintr import Tokenizer
from tiktoken_ext.openai_public import ENDOFTEXT

ENCODING = "o200k_base"
RANKS = 199_998
# tiktoken's pattern for splitting a text into pieces, as `openai_public.o200k_base` builds it.
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+{CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*{CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


@cache
def encoding() -> tiktoken.Encoding:
    """Build tiktoken's o200k_base from the bundled vocabulary."""
    bundled = Tokenizer.from_pretrained(ENCODING)
    ranks = {bundled.decode_token_bytes(rank): rank for rank in range(RANKS)}
    return tiktoken.Encoding(ENCODING, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={ENDOFTEXT: 199_999})
