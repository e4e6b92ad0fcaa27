"""The page of the toy shop, whatever its articles are called."""

from pathlib import Path

from sottovoce.protocol import Catalogue, Item
from sottovoce.sandbox.system import SHOP, LiveSystem, Sandbox, write_shop
from sottovoce.training import Settings


def test_an_article_is_what_its_catalogue_says(tmp_path: Path) -> None:
    """Also where its name is a word that the page is filled in by, or markup."""
    shop = Catalogue.from_items(
        [Item("KEY-1", "PROXY & EPOCH"), Item('"><b>', "</button><script>")]
    )
    training = Settings.preset("loudest", reports=1, epochs=2, factors=2)
    Sandbox(shop, training, 1, 60, 18_080, accounts=True).make(tmp_path / "here")
    system = LiveSystem("http://127.0.0.1:18080", bytes(32), training=training)
    write_shop(tmp_path / "here", system)
    page = (tmp_path / "here" / "server" / SHOP).read_text()
    assert '<button value="KEY-1">PROXY &amp; EPOCH</button>' in page
    assert '"&quot;&gt;&lt;b&gt;">&lt;/button&gt;&lt;script&gt;</button>' in page
    assert f'key: "{"00" * 32}"' in page
    assert 'from "http://127.0.0.1:18080/widget.js"' in page
