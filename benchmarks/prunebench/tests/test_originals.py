"""Policies decide like their originals: over the same conversations they send the same, request by request."""

import pytest
from autoprune.errors import SettingsError
from policy_originals import RECORDINGS, conversations, digested, recording, sent_by_policy

from prunebench.policies import POLICIES

RECORDED = sorted(path.stem for path in RECORDINGS.glob("*.json"))


def test_recordings_of_originals_are_there():
    assert RECORDED


@pytest.mark.parametrize("name", RECORDED or ["none"])
def test_a_policy_sends_what_its_original_sends(name: str):
    known = recording(name)
    try:
        POLICIES[name.partition(".")[0]].new()
    except SettingsError as error:  # the policy calls its original, which is not installed
        pytest.skip(str(error))
    for conversation, expected in known["sent"].items():
        sent = sent_by_policy(name.partition(".")[0], conversations()[conversation], **known["parameters"])
        found = digested(sent)
        assert found["samples"] == expected["samples"], conversation
        assert found["digests"] == expected["digests"], conversation


def test_a_policy_is_called_checked_if_there_is_a_recording_of_its_original():
    assert {name for name, each in POLICIES.items() if each.checked} == {name.partition(".")[0] for name in RECORDED}
    assert [name for name, each in POLICIES.items() if bool(each.checked) == bool(each.unchecked)] == []
