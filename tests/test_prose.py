"""What people read when something failed, or before they agree, is plain: see `tests.prose`."""

from tests.prose import consent, error_messages, faults


def test_messages_and_consent_are_plain() -> None:
    assert [*faults(error_messages()), *faults(consent())] == []


def test_what_is_not_plain_is_found() -> None:
    long = " ".join(["word"] * 31)
    told = ("Whoever is believed so many times.", f"{long}.", "So many that it fails. Two words.")
    found = [[*faults(iter([("here", text)]))] for text in told]
    assert [len(each) for each in found] == [3, 1, 0]
