"""The bytes of a message bound its tokens: what lets a small conversation go uncounted."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from strategies_hypothesis import conversations
from tables import each_row

from autoprune.pruners.memory import Remembered, token_bound
from autoprune.tokens import exact
from autoprune.wire import SHIPPED, Format, new_parser

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


def counted(message: Any) -> int:
    return new_parser(exact()).read(message, 0).tokens


@examples(150)
@given(messages=conversations())
def test_no_message_has_more_tokens_than_its_bound(messages: list[Any]):
    for message in messages:
        assert counted(message) <= token_bound(message)


@examples(300)
@given(role=st.sampled_from(["system", "user", "assistant", "tool"]), content=JSON, name=st.none() | st.text())
def test_no_message_with_odd_contents_has_more_tokens_than_its_bound(role: str, content: Any, name: str | None):
    message = {"role": role, "content": content, "name": name}
    assert counted(message) <= token_bound(message)


def test_media_have_no_bound():
    assert token_bound({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}) == math.inf


@each_row("format", SHIPPED)
def test_a_small_conversation_is_not_read(format: Format):
    history = Remembered("key")
    assert history.fits_unread([format.message("user", "Look.")], [format], 3, 1_000)
    assert history.entries == []
