"""Settings that are changed in their files, and the page of the toy shop."""

from pathlib import Path

import pytest

from sottovoce.errors import SettingsError
from sottovoce.protocol import Catalogue, Item
from sottovoce.sandbox.setup import LiveSystem, Sandbox, set_values, write_shop
from sottovoce.sandbox.shop import PAGE_FILE
from sottovoce.training import Settings

SETTINGS_FILE = """\
# a = 1
a = 2  # why a
[t]
# b = 3  # why b

# text of u
[u]
d = "x # y"
"""


@pytest.mark.parametrize(
    ("place", "value", "line", "new"),
    [
        (("", "a"), 5, "a = 2  # why a", "a = 5  # why a"),
        (("t", "b"), 'a "name"', "# b = 3  # why b", 'b = "a \\"name\\""  # why b'),
        (("u", "d"), False, 'd = "x # y"', "d = false"),
        (("u", "e"), 6, 'd = "x # y"', 'd = "x # y"\ne = 6'),
        (("new", "f"), 7, 'd = "x # y"', 'd = "x # y"\n\n[new]\nf = 7'),
        (("u", "d"), None, "", ""),
    ],
)
def test_sets_a_value_in_its_place(
    tmp_path: Path, place: tuple[str, str], value: object, line: str, new: str
) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(SETTINGS_FILE)
    set_values(path, {place: value})
    assert path.read_text() == SETTINGS_FILE.replace(f"\n{line}\n", f"\n{new}\n")
    path.write_text("a = \n")
    with pytest.raises(SettingsError):
        set_values(path, {place: value})
    assert path.read_text() == "a = \n"


def test_shop_escapes_articles_whose_titles_are_markup_or_placeholders(tmp_path: Path) -> None:
    catalogue = Catalogue.from_items(
        [Item("KEY-1", "PROXY & EPOCH"), Item('"><b>', "</button><script>")]
    )
    training = Settings.preset("loudest", reports=1, epochs=2, factors=2)
    Sandbox(catalogue, training, 1, 60, 18_080, accounts=True).set_up(tmp_path / "here")
    system = LiveSystem("http://127.0.0.1:18080", bytes(32), training=training)
    write_shop(tmp_path / "here", system)
    page = (tmp_path / "here" / "server" / PAGE_FILE).read_text()
    assert '<button value="KEY-1">PROXY &amp; EPOCH</button>' in page
    assert '"&quot;&gt;&lt;b&gt;">&lt;/button&gt;&lt;script&gt;</button>' in page
    assert f'key: "{"00" * 32}"' in page
    assert 'from "http://127.0.0.1:18080/widget.js"' in page
