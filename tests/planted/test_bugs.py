"""Every planted bug has its place: what is right stands there once, and its tests are there."""

from tests.planted.__main__ import ROOT, listed


def test_they_can_be_planted() -> None:
    bugs = listed()
    assert len({bug.name for bug in bugs}) == len(bugs) > 60
    for bug in bugs:
        assert (ROOT / bug.file).read_text(encoding="utf-8").count(bug.right) == 1, bug.name
        assert bug.right != bug.wrong
        for place in bug.tests:
            file, _, test = place.partition("::")
            name = test.partition("[")[0]
            assert f"def {name}" * bool(test) in (ROOT / file).read_text(encoding="utf-8"), bug.name
