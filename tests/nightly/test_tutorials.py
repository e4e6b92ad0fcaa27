"""Tutorials as a person follows them: every command, in order, in a folder of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from sottovoce.sandbox.system import set_values
from tests.lacking import leave_out
from tests.nightly.shopper import A_MINUTE, Shopper, shopper
from tests.processes import free_port, read_until

__all__ = ["shopper"]
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)
PRELUDE = f"""\
python3() {{ "{sys.executable}" "$@"; }}
sottovoce() {{
  code=0
  "{sys.executable}" -m sottovoce "$@" || code=$?
  if [ "${{2-}}" = status ] && [ $code = 1 ]; then return 0; fi  # says that something waits
  return $code
}}
set -eu
"""
PORTS = ("8080", "8081", "8090", "8091", "8000")


class Follower:
    """Types one block after the other; ports are free ones, and epochs short."""

    def __init__(self, page: str, folder: Path):
        self._blocks: list[tuple[str, str]] = BLOCK.findall(
            (DOCS / page).read_text(encoding="utf-8")
        )
        self._folder = folder
        self._put = {port: str(free_port()) for port in PORTS}
        self._put["--epoch-seconds 20"] = "--epoch-seconds 1"
        self._running: list[subprocess.Popen[str]] = []

    def know(self, **values: str) -> None:
        """What stands for a word that a person is asked to replace."""
        self._put |= values

    def port(self, shown: str) -> str:
        return self._put[shown]

    def install(self) -> None:
        """The first block, which has everything; the tests run in what it makes."""
        assert self._taken("sh").startswith("pip install '.[all]'")

    def next(self, without: str = "") -> str:
        """Run the next block, but for lines that begin so; all that it printed."""
        code = self._taken("sh")
        lines = [line for line in code.splitlines() if not without or not line.startswith(without)]
        done = subprocess.run(
            self._bash("\n".join(lines)),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def next_python(self) -> dict[str, object]:
        names: dict[str, object] = {}
        exec(compile(self._taken("python"), "tutorial", "exec"), names)
        return names

    def start(self, until: str = "its operator alone") -> str:
        """Run the next block, which goes on; all that it said until this."""
        process = subprocess.Popen(
            self._bash(self._taken("sh")),
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._running.append(process)
        assert process.stdout is not None
        return read_until(until, process.stdout).string

    def stop(self, which: int) -> None:
        """As Ctrl-C does."""
        process = self._running[which]
        os.killpg(process.pid, signal.SIGINT)
        process.wait(timeout=60)
        assert process.stdout is not None
        process.stdout.close()

    def end(self) -> None:
        for which, process in enumerate(self._running):
            if process.poll() is None:
                self.stop(which)
            elif process.stdout is not None:
                process.stdout.close()

    @property
    def left(self) -> int:
        return len(self._blocks)

    def _bash(self, code: str) -> list[str]:
        return ["bash", "-c", PRELUDE + code]

    def _taken(self, language: str) -> str:
        found, code = self._blocks.pop(0)
        assert found == language, code
        for shown, value in self._put.items():
            code = re.sub(rf"(?<!\w){re.escape(shown)}(?!\w)", value, code)
        return code


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Callable[[str], Follower]]:
    """Somebody who follows a tutorial, and leaves nothing running."""
    followers = []

    def begin(page: str) -> Follower:
        followers.append(Follower(page, tmp_path))
        return followers[-1]

    yield begin
    for each in followers:
        each.end()


def test_the_readme_s_python(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall("```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert len(names["items"]) == 10  # type: ignore[arg-type]
    assert "50 for the whole training" in capsys.readouterr().out


@pytest.mark.slow
def test_the_researcher_s(follow: Callable[[str], Follower], tmp_path: Path) -> None:
    person = follow("tutorials/researcher.md")
    person.install()
    assert "67,020" in person.next()
    assert "by itself it protects nobody" in " ".join(person.next().split())
    planned = person.next()
    assert "epsilon 8.334, reports 1 in each of 6 epochs" in planned
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    assert (tmp_path / "run.json").exists()
    assert "50,000" in person.next()
    assert "The planner takes" in person.next()
    assert len(person.next_python()["items"]) == 5  # type: ignore[arg-type]
    assert "SMOKE RUN" in person.next()
    assert (tmp_path / "paper-report" / "report.html").exists()
    assert person.left == 0


@pytest.mark.slow
def test_the_product_engineer_s(
    follow: Callable[[str], Follower], tmp_path: Path, shopper: Callable[[str], Shopper]
) -> None:
    """In an empty folder, with a browser on another origin; trials are as long as they are."""
    page = "tutorials/product.md"
    counted = sum(map(commands, BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))))
    assert f"the whole page has {counted}." in (DOCS / page).read_text(encoding="utf-8")
    person = follow(page)
    person.know(
        **{
            "--trial": f"--trial --port {person.port('8080')}",
            "--epoch-seconds 20": f"--epoch-seconds 1 --port {person.port('8080')}",
            "--people 20000 --items 500": "--people 200 --items 100",
        }
    )
    person.install()
    person.next()
    script, consent = printed_lines(person.start("Ctrl-C"))
    person.know(SCRIPT=script, CONSENT=consent)
    person.next()
    person.start("Serving HTTP")

    visitor = shopper(f"http://localhost:{person.port('8000')}")
    assert visitor.question()[0].startswith("This is a trial")
    first = visitor.until(lambda titles: len(titles) == 5, "five articles")
    assert "Black tea" in first
    visitor.press("yes")
    visitor.until(lambda titles: titles != first, "a list that has learnt")
    said = person.next()
    assert "Version 2 holds for lists within a minute" in said
    seconds = visitor.seconds_until(lambda titles: "Black tea" not in titles)
    print(f"withdrawn: gone from the open page after {seconds:.0f} s")
    assert seconds < A_MINUTE
    assert "White tea" in visitor.titles()
    visitor.press("pause")
    visitor.state("Paused")
    visitor.press("pause")
    visitor.state("You take part")
    visitor.press("forget")
    visitor.state("Delete what")
    visitor.press("forget")
    visitor.state("Paused")
    stands = person.next()
    assert "Catalogue version 2" in stands
    assert re.search("Epoch . counted 1,100 reports", stands)  # ten people's and the browser's

    assert "HR@10" in person.next()
    person.stop(0)
    said = person.start("Ctrl-C")
    assert "8 epochs" in said
    assert "176 dummies" in said
    (key,) = re.findall("Verification key: ([0-9a-f]{64})", said)
    person.know(KEY=key)
    told = " ".join(person.next().split())
    quoted = (DOCS / page).read_text(encoding="utf-8")
    assert " ".join(re.findall("^> (.*)$", quoted, re.MULTILINE)) in told
    assert "Epoch 1 is closed" in person.next()
    person.next_python()
    assert person.left == 0


def printed_lines(said: str) -> list[str]:
    """The script and the question, of the three lines for a page."""
    script, consent, _ = re.findall("^  (<.*>)$", said, re.MULTILINE)
    return [script, consent]


def commands(block: tuple[str, str]) -> int:
    """How many a block has; a file that is written is one, and what runs in Python is none."""
    language, code = block
    plain = re.sub(r"<<'END'\n.*?\nEND\n", "\n", code, flags=re.DOTALL).replace("\\\n", "")
    return len(plain.splitlines()) if language == "sh" else 0


@pytest.mark.slow
def test_the_operator_s(follow: Callable[[str], Follower], tmp_path: Path) -> None:
    person = follow("tutorials/operator.md")
    person.install()
    person.next()
    assert re.fullmatch("[0-9a-f]{64}\n", (tmp_path / "key.txt").read_text())
    set_values(tmp_path / "my-server" / "server.toml", {("", "heartbeat"): 0.5})
    person.start()
    assert "Settings written" in person.next()
    set_values(tmp_path / "my-proxy" / "proxy.toml", {("", "poll_seconds"): 0.5})
    person.start()
    person.next()
    assert (tmp_path / "monday.sqlite").exists()
    assert "20 live clients" in person.next()
    stands = person.next()
    assert "Epoch 2 of training 1 is open" in stands
    assert "ready" in stands
    person.stop(0)
    assert "Epoch 2 of training" in person.next()
    assert "The next epoch has the number 3." in person.start()
    assert person.left == 0


@pytest.mark.slow
def test_data_formats(follow: Callable[[str], Follower]) -> None:
    person = follow("data.md")
    assert "bundled" in person.next()
    assert re.search(r"interactions +│ 6 ", person.next())
    assert person.next_python()["data"].n_items == 3  # type: ignore[attr-defined]
    assert re.search(r"interactions +│ 6 ", person.next())
    person.next()
    shown = person.next()
    assert re.search(r"shards +│ 2 ", shown)
    assert re.search(r"tags +│ kind 4, price 4 ", shown)
    assert "566 users" in person.next()
    assert person.left == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:OpenBLAS is configured")  # implicit's advice
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "implicit" in path.read_text(encoding="utf-8") and find_spec("implicit") is None:
        leave_out(f"the notebook {path.stem} (needs implicit, which the laboratory brings)")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, object] = {}
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell in (each for each in cells if each["cell_type"] == "code"):
        exec(compile("".join(cell["source"]), path.name, "exec"), names)
        printed = (each for each in cell["outputs"] if each["output_type"] == "stream")
        assert capsys.readouterr().out == "".join(line for each in printed for line in each["text"])
