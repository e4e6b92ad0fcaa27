"""Write results as CSV, JSON, pictures and one self-contained HTML page.

No file contains a date or the name of a machine: the same cells give the same bytes.
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
from sottovoce_lab.paper.cell_rows import format_csv, list_cell_rows
from sottovoce_lab.paper.grid import Grid
from sottovoce_lab.paper.runner import EXPERIMENTS
from sottovoce_lab.paper.store import QUICK_SCALE, About, CellStore
from sottovoce_lab.paper.tables import Experiment, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


REPORT_FILE = "report.html"
_PAGE_STYLE = """
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


def write_report(store: CellStore) -> None:
    """Write the files of every requested experiment with results, and the page."""
    grid, requested = Grid.from_about(store.about), store.read_requested()
    names, sections = [], []
    for name, experiment_class in EXPERIMENTS.items():
        if name not in requested:
            continue
        experiment = experiment_class(grid, store)
        tables = [table for table in experiment.build_tables() if table.has_numbers]
        if tables:
            _write_numbers(store, experiment, tables)
            sections.append(_format_section(experiment, tables, _write_pictures(store, experiment)))
            names.append(name)
    page = _format_page(store.about, names, sections)
    write_atomically(store.folder / REPORT_FILE, page.encode())


def _write_numbers(store: CellStore, experiment: Experiment, tables: list[Table]) -> None:
    about = {"about": asdict(store.about), "note": store.about.describe()}
    content = {**about, "tables": {table.name: table.to_dict() for table in tables}}
    text = json.dumps(content, indent=1) + "\n"
    write_atomically(store.folder / f"{experiment.name}.json", text.encode())
    for table in tables:
        write_atomically(store.folder / f"{table.name}.csv", table.to_csv().encode())
    # Curves have a column for each epoch, so they have a separate file.
    for kind, has_curve in (("cells", False), ("curves", True)):
        cells = [cell for cell in experiment.list_cells() if cell.curve is has_curve]
        rows = list_cell_rows(cells, store)
        if rows:
            file = store.folder / f"{experiment.name}-{kind}.csv"
            write_atomically(file, format_csv(rows).encode())


def _write_pictures(store: CellStore, experiment: Experiment) -> bytes:
    """Write PNG and SVG, and return the SVG."""
    import_figure()
    import matplotlib as mpl

    def draw(figure: Figure) -> None:
        experiment.draw(figure)
        figure.suptitle(_format_picture_title(store.about, experiment), fontsize=10)

    # With a fixed salt, the hashes that the SVG uses as names are the same in every run.
    with mpl.rc_context({"svg.hashsalt": "sottovoce"}):
        svg = store.folder / f"{experiment.name}.svg"
        save_figure(svg.with_suffix(".png"), draw, svg, size=experiment.figure_size)
    # Remove the metadata, because they contain a date.
    undated = re.sub(rb"<metadata>.*?</metadata>", b"", svg.read_bytes(), flags=re.DOTALL)
    write_atomically(svg, undated)
    return undated


def _format_picture_title(about: About, experiment: Experiment) -> str:
    smoke = "SMOKE RUN, no result. " if about.quick else ""
    scale = f", scale {about.scale:g}" if QUICK_SCALE < about.scale < 1 else ""
    return f"{smoke}{experiment.title}; {about.display_name}{scale}"


def _format_section(experiment: Experiment, tables: list[Table], picture: bytes) -> str:
    image = base64.b64encode(picture).decode()
    alt = html.escape(experiment.title)
    return "\n".join(
        [
            f'<h2 id="{experiment.name}">{alt}</h2>',
            f'<img alt="{alt}" src="data:image/svg+xml;base64,{image}">',
            *(_format_table(table) for table in tables),
        ]
    )


def _format_table(table: Table) -> str:
    def format_row(tag: str, cells: tuple[str, ...]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    headings, *rows = table.visible_rows
    return "\n".join(
        [
            f'<table id="table-{table.name}"><caption>{html.escape(table.title)}</caption>',
            f"<thead>{format_row('th', headings)}</thead><tbody>",
            *(format_row("td", row) for row in rows),
            "</tbody></table>",
            *(f"<p>{html.escape(note)}</p>" for note in table.notes),
        ]
    )


def _format_page(about: About, names: list[str], sections: list[str]) -> str:
    css = ' class="smaller"' if about.scale < 1 else ""
    contents = " ".join(f'<a href="#{name}">{EXPERIMENTS[name].title}</a>.' for name in names)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The paper's experiments</title>
<style>{_PAGE_STYLE}</style></head><body>
<h1>The paper's experiments, and ours</h1>
<p{css}>{html.escape(about.describe())}</p>
<p>HR@10 unless said otherwise: one interaction of each user is left out and ranked among 99
random items that the user never touched. Mean and 95% interval (Student's t) over {about.seeds}
random splits of one subset. <em>paper</em> is the figure printed in the paper. <em>preset
paper</em> is the paper's system, run here as described; <em>alpha 4</em> differs in one setting.
<em>loudest</em> is our system; rules that were fitted on other splits choose its settings.</p>
<p>{contents}</p>
<pre>{html.escape(_format_commands(about, names))}</pre>
{chr(10).join(sections)}
</body></html>
"""


def _format_commands(about: About, names: list[str]) -> str:
    """Return the commands that compute these experiments again."""
    options = f"--data {about.source} --out DIR --seeds {about.seeds}"
    if about.min_interactions:
        options += f" --min-interactions {about.min_interactions}"
    if about.quick:
        options += " --quick"
    elif about.scale < 1:
        options += f" --scale {about.scale:g}"
    return "\n".join(f"sottovoce paper {name} {options}" for name in names)
