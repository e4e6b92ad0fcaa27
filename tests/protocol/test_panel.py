"""The panel's file: read strictly, written back the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sottovoce.errors import ProtocolError
from sottovoce.protocol.model import MAX_ROW, Panel, Panellist

PANEL = Panel(bytes(range(32)), (Panellist((0, 4), 2, (1, 3)), Panellist((), MAX_ROW, (0,))))


def test_a_panel_survives_its_file() -> None:
    assert Panel.decode(PANEL.encode()) == PANEL
    counted = replace(PANEL, touched=(0, 7, 0))
    assert Panel.decode(counted.encode()) == counted


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"catalogue": "00"},
        {"people": {}},
        {"people": []},
        {"people": [7]},
        {"people": [{"seen": [], "left": 1}]},
        {"people": [{"seen": [], "left": 1, "others": 2}]},
        {"people": [{"seen": [], "left": 1, "others": []}]},
        {"people": [{"seen": [1], "left": 1, "others": [2]}]},
        {"people": [{"seen": [], "left": 1, "others": [MAX_ROW + 1]}]},
        {"people": [{"seen": [], "left": True, "others": [2]}]},
        {"people": [{"seen": [], "left": 1, "others": [2], "name": "she"}]},
        {"touched": 1},
        {"touched": [-1]},
        {"touched": [0.5]},
        {"more": 1},
    ],
)
def test_what_is_no_panel(change: dict[str, object]) -> None:
    content = {**json.loads(PANEL.encode()), **change}
    with pytest.raises(ProtocolError):
        Panel.decode(json.dumps(content).encode())


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"version": 1, "version": 1}'])
def test_what_is_not_even_json(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        Panel.decode(raw)
