"""The conventions of scikit-learn, without scikit-learn.

The parameters of a model are the arguments of its constructor, and its attributes of these names
hold them as they were given. So `clone` and `ParameterGrid` work.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from sottovoce.errors import SettingsError

if TYPE_CHECKING:
    from typing import Self


class Parameters:
    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """By name, in the order of the constructor."""
        stated = signature(cls).parameters
        return {name: each.default for name, each in stated.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's signature
        """The arguments of the constructor, as they were given. No parameter is a model itself."""
        return {name: getattr(self, name) for name in self.defaults()}

    def set_params(self, **params: Any) -> Self:
        """Change some parameters. What was fitted stays as it is until the next `fit`."""
        unknown = set(params) - set(self.defaults())
        if unknown:
            known = ", ".join(self.defaults())
            raise SettingsError(
                f"no such parameter: {', '.join(sorted(unknown))}; there are {known}"
            )
        type(self)(**{**self.get_params(), **params})  # refuses values that cannot be
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """With the parameters that are not the default."""
        defaults = self.defaults()
        given = {name: plain(value) for name, value in self.get_params().items()}
        named = [f"{name}={value!r}" for name, value in given.items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(named)})"


def plain(value: Any) -> Any:
    """Numbers of numpy as Python's, and any mapping as a dict: for JSON and for people."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value
