"""Everything that shows results: CSV, JSON, pictures, and one HTML page that needs nothing else.

No date and no machine is in any of it: the same cells give the same bytes.
"""

from __future__ import annotations

import base64
import html
import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING

from sottovoce.cli.figures import import_figure, save_figure
from sottovoce.storage.files import write_atomically
from sottovoce_lab.paper.cells import QUICK, About, CellStore, known_as
from sottovoce_lab.paper.runner import EXPERIMENTS
from sottovoce_lab.paper.scale import Scale
from sottovoce_lab.paper.tables import Experiment, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


REPORT = "report.html"
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c1c1c; background: #fff }
table { border-collapse: collapse; margin: 1rem 0; font-size: 13px;
  font-variant-numeric: tabular-nums }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #ddd }
th { border-bottom: 2px solid #888; vertical-align: bottom }
caption { text-align: left; font-weight: 600; padding: .4rem 0 }
th:first-child, td:first-child { text-align: left }
img { max-width: 100%; height: auto }
pre { background: #f4f4f4; padding: .8rem; overflow-x: auto }
.smaller { background: #ffe9a8; padding: .5rem 1rem }
"""


def write_all(store: CellStore) -> list[str]:
    """Files of every experiment that was asked for and has results, and the page; their names."""
    scale, sections, names, asked = Scale.of(store.about), [], [], store.asked()
    for name, shown in EXPERIMENTS.items():
        if name not in asked:
            continue
        experiment = shown(scale, store)
        tables = [table for table in experiment.tables() if table.filled]
        if tables:
            _write_numbers(store, experiment, tables)
            picture = _write_pictures(store, experiment)
            sections.append(_section(experiment, tables, picture))
            names.append(experiment.name)
    page = _page(store.about, names, sections)
    write_atomically(store.folder / REPORT, page.encode())
    return names


def _write_numbers(store: CellStore, experiment: Experiment, tables: list[Table]) -> None:
    about = {"about": asdict(store.about), "note": store.about.sentence()}
    content = {**about, "tables": {table.name: table.as_dict() for table in tables}}
    text = json.dumps(content, indent=1) + "\n"
    write_atomically(store.folder / f"{experiment.name}.json", text.encode())
    for table in tables:
        write_atomically(store.folder / f"{table.name}.csv", table.as_csv().encode())


def _write_pictures(store: CellStore, experiment: Experiment) -> bytes:
    """PNG and SVG; the SVG's bytes."""
    import_figure()
    import matplotlib as mpl

    def draw(figure: Figure) -> None:
        experiment.draw(figure)
        figure.suptitle(_picture_title(store.about, experiment), fontsize=10)

    # A fixed salt: names inside the SVG are hashes, and the same picture is the same file.
    with mpl.rc_context({"svg.hashsalt": "sottovoce"}):
        svg = store.folder / f"{experiment.name}.svg"
        save_figure(svg.with_suffix(".png"), draw, svg, size=experiment.picture)
    undated = re.sub(rb"<metadata>.*?</metadata>", b"", svg.read_bytes(), flags=re.DOTALL)
    write_atomically(svg, undated)
    return undated


def _picture_title(about: About, experiment: Experiment) -> str:
    smoke = "SMOKE RUN, no result. " if about.quick else ""
    scale = f", scale {about.scale:g}" if QUICK < about.scale < 1 else ""
    return f"{smoke}{experiment.title}; {known_as(about)}{scale}"


def _section(experiment: Experiment, tables: list[Table], picture: bytes) -> str:
    image = base64.b64encode(picture).decode()
    alt = html.escape(experiment.title)
    return "\n".join(
        [
            f'<h2 id="{experiment.name}">{alt}</h2>',
            f'<img alt="{alt}" src="data:image/svg+xml;base64,{image}">',
            *(_table(table) for table in tables),
        ]
    )


def _table(table: Table) -> str:
    def line(tag: str, cells: tuple[str, ...]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    headings, *rows = table.shown
    return "\n".join(
        [
            f'<table id="table-{table.name}"><caption>{html.escape(table.title)}</caption>',
            f"<thead>{line('th', headings)}</thead><tbody>",
            *(line("td", row) for row in rows),
            "</tbody></table>",
            *(f"<p>{html.escape(note)}</p>" for note in table.notes),
        ]
    )


def _page(about: About, names: list[str], sections: list[str]) -> str:
    css = ' class="smaller"' if about.scale < 1 else ""
    contents = " ".join(f'<a href="#{name}">{EXPERIMENTS[name].title}</a>.' for name in names)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The paper's experiments</title>
<style>{_STYLE}</style></head><body>
<h1>The paper's experiments, and ours</h1>
<p{css}>{html.escape(about.sentence())}</p>
<p>HR@10 unless said otherwise: one interaction of each user is left out and ranked among 99
random items that the user never touched. Mean and 95% interval (Student's t) over {about.seeds}
random splits of one subset. <em>paper</em> is what the paper printed, <em>preset paper</em> its
system as described, run here, <em>alpha 4</em> the same with one number changed. Ours is
<em>loudest</em>, set by rules from public numbers that were fitted on other splits.</p>
<p>{contents}</p>
<pre>{html.escape(commands(about, names))}</pre>
{chr(10).join(sections)}
</body></html>
"""


def commands(about: About, names: list[str]) -> str:
    options = f"--data {about.source} --out DIR --seeds {about.seeds}"
    if about.min_interactions:
        options += f" --min-interactions {about.min_interactions}"
    if about.quick:
        options += " --quick"
    elif about.scale < 1:
        options += f" --scale {about.scale:g}"
    return "\n".join(f"sottovoce paper {name} {options}" for name in names)
