"""The guide for those who come from other libraries works as written."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.lacking import leave_out
from tests.nightly.follow import Follower, follow

__all__ = ["follow"]


@pytest.mark.slow
# implicit's advice on threads, and what LensKit's own libraries say.
@pytest.mark.filterwarnings("default")
def test_guide_does_the_same_task_in_each_library(
    follow: Callable[[str], Follower],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("implicit", "lenskit", "pandas", "sklearn"):
        if find_spec(name) is None:
            leave_out(f"the guide for those who come from other libraries (needs {name})")
    monkeypatch.chdir(tmp_path)
    person = follow("coming-from.md")
    names: dict[str, object] = {}
    while person.left:
        names = person.next_python()
        assert names["train"] is not None
    shown = capsys.readouterr()
    assert "FederatedMF: epsilon 500 in a lifetime; expected HR@10" in shown.err
    quality = {
        line.split()[0]: float(line.split("'hr@10': ")[1].split(",")[0])
        for line in shown.out.splitlines()
        if "'hr@10'" in line
    }
    # All see the same items, so the best model sees everything, and popularity is last.
    assert quality["implicit"] > quality["ours"] > quality["popularity"] > 0.05
    assert quality["LensKit"] > quality["popularity"]
    assert names["search"].best_params_ == {"factors": None}  # type: ignore[attr-defined]
    assert (tmp_path / "dataset" / "films" / "films.inter").exists()
