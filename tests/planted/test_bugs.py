"""Every planted bug can be planted: its line occurs once, and its tests exist."""

from tests.planted.__main__ import ROOT, load_bugs


def test_bugs_can_be_planted() -> None:
    bugs = load_bugs()
    assert len({bug.name for bug in bugs}) == len(bugs) > 60
    for bug in bugs:
        assert (ROOT / bug.file).read_text(encoding="utf-8").count(bug.right) == 1, bug.name
        assert bug.right != bug.wrong
        for test_id in bug.tests:
            file, _, test = test_id.partition("::")
            name = test.partition("[")[0]
            assert f"def {name}" * bool(test) in (ROOT / file).read_text(encoding="utf-8"), bug.name
