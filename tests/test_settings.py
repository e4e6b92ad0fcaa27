"""Declaring, checking and reading settings."""

from dataclasses import dataclass, make_dataclass
from typing import Any, Optional

import numpy as np
import pytest

from sottovoce.errors import SettingsError
from sottovoce.settings import check, get_settings, setting


@dataclass(frozen=True)
class Kettle:
    """A settings class with one setting of each type."""

    litres: float = setting(1.5, "volume", above=0, max_value=3)
    cups: int = setting(4, "number of cups", min_value=1)
    on: bool = setting(default=False, help="whether it is on")
    colour: str = setting("red", "colour of the lid")
    owner: int | None = setting(None, "number of its owner", min_value=0)

    def __post_init__(self) -> None:
        check(self)


def test_settings_have_name_type_default_and_help_in_order() -> None:
    settings = get_settings(Kettle)
    assert [(item.name, item.kind, item.default) for item in settings.values()] == [
        ("litres", float, 1.5), ("cups", int, 4), ("on", bool, False), ("colour", str, "red"),
        ("owner", int, None),
    ]  # fmt: skip
    assert settings["cups"].help == "number of cups"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("litres", bad) for bad in (0, 3.5, float("nan"), float("inf"), 10**400, True, "2")),
        *(("cups", bad) for bad in (2.0, False, 0, None)),
        ("on", 1), ("colour", 3), ("owner", -1),
    ],
)  # fmt: skip
def test_invalid_value_is_refused_with_the_name_of_the_setting(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=rf"^{name}\b") as caught:
        Kettle(**{name: value})
    assert caught.value.setting == name


def test_numbers_of_numpy_are_converted_to_python() -> None:
    kettle = Kettle(litres=np.float32(0.5), cups=np.int64(3))  # type: ignore[arg-type]
    assert (type(kettle.litres), type(kettle.cups)) == (float, int)
    with pytest.raises(SettingsError, match="cups"):
        Kettle(cups=np.float64(3.0))  # type: ignore[arg-type]
    assert Kettle(on=np.bool_(1)).on is True  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="litres"):
        Kettle(litres=np.bool_(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [int | None, Optional[int], "int | None", "int|None"])  # noqa: UP045 - others write it
def test_annotations_may_be_types_or_text(kind: Any) -> None:
    size = get_settings(make_dataclass("Cup", [("size", kind, setting(None, "size"))]))["size"]
    assert (size.kind, size.optional) == (int, True)


@pytest.mark.parametrize("kind", [list, "list[int]", int | str, "int | str | None", None])
def test_setting_of_another_type_is_refused(kind: Any) -> None:
    with pytest.raises(SettingsError, match=r"\bsize\b"):
        get_settings(make_dataclass("Cup", [("size", kind, setting(None, "size"))]))
