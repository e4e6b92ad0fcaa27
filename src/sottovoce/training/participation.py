"""What an operator asks of devices in addition to a training: the crowd and the size."""

from __future__ import annotations

from dataclasses import dataclass

from sottovoce.settings import check, setting


@dataclass(frozen=True)
class Participation:
    least_clients: int = setting(
        100, "devices whose reports are mixed, at least; an epoch waits for them", least=1
    )
    hold: int = setting(
        7 * 86_400,
        "seconds that an epoch waits for its crowd beyond its end; then it is thrown away",
        least=0,
    )
    most_items: int = setting(
        0, "items that the catalogue may grow to; 0: twice as many as at the beginning", least=0
    )

    def __post_init__(self) -> None:
        check(self)
