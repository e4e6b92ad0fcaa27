"""How a setting is stated, checked and read back."""

from dataclasses import dataclass, make_dataclass
from typing import Any, Optional

import numpy as np
import pytest

from sottovoce.errors import SettingsError
from sottovoce.settings import check, setting, stated


@dataclass(frozen=True)
class Kettle:
    litres: float = setting(1.5, "what it holds", above=0, most=3)
    cups: int = setting(4, "how many that is", least=1)
    on: bool = setting(default=False, help="whether it boils")
    colour: str = setting("red", "of the lid")
    owner: int | None = setting(None, "number of its owner", least=0)

    def __post_init__(self) -> None:
        check(self)


def test_fields_are_stated_in_order_with_kind_default_and_help() -> None:
    found = stated(Kettle)
    assert [(each.name, each.kind, each.default) for each in found.values()] == [
        ("litres", float, 1.5), ("cups", int, 4), ("on", bool, False), ("colour", str, "red"),
        ("owner", int, None),
    ]  # fmt: skip
    assert found["cups"].help == "how many that is"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("litres", bad) for bad in (0, 3.5, float("nan"), float("inf"), 10**400, True, "2")),
        *(("cups", bad) for bad in (2.0, False, 0, None)),
        ("on", 1), ("colour", 3), ("owner", -1),
    ],
)  # fmt: skip
def test_what_is_not_as_stated_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=rf"^{name}\b"):
        Kettle(**{name: value})


def test_numbers_of_numpy_do_and_become_pythons() -> None:
    kettle = Kettle(litres=np.float32(0.5), cups=np.int64(3))  # type: ignore[arg-type]
    assert (type(kettle.litres), type(kettle.cups)) == (float, int)
    with pytest.raises(SettingsError, match="cups"):
        Kettle(cups=np.float64(3.0))  # type: ignore[arg-type]
    assert Kettle(on=np.bool_(1)).on is True  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="litres"):
        Kettle(litres=np.bool_(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [int | None, Optional[int], "int | None", "int|None"])  # noqa: UP045 - what others write
def test_annotations_may_be_types_or_texts(kind: Any) -> None:
    found = stated(make_dataclass("Cup", [("size", kind, setting(None, "of it"))]))["size"]
    assert (found.kind, found.optional) == (int, True)


@pytest.mark.parametrize("kind", [list, "list[int]", int | str, "int | str | None", None])
def test_a_setting_of_another_kind_is_refused(kind: Any) -> None:
    with pytest.raises(SettingsError, match=r"\bsize\b"):
        stated(make_dataclass("Cup", [("size", kind, setting(None, "of it"))]))
