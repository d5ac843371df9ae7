"""The ends of elements: short texts are searched repeatedly, long ones are indexed; both give the same."""

from tables import each_row

from autoprune.wire._elements import SHORT, end_tags

TEXT = "<a><b>1</b></a> </b> </ b> </c_2></A>"


@each_row("padding", ["", " " * SHORT], ids=["short", "long"])
@each_row("name", ["a", "b", "c_2", "A", "none"])
def test_the_first_end_tag_from_every_offset_on(name: str, padding: str):
    ends = end_tags(TEXT + padding)
    wanted = [(TEXT + padding).find(f"</{name}>", at) for at in range(len(TEXT) + 1)]
    assert [ends(name, at) for at in range(len(TEXT) + 1)] == wanted
