"""What an operator asks of devices beside a training: the crowd, the pace, the size."""

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
    window_epochs: int = setting(
        0, "epochs in which a device takes part within window_seconds; 0: no such limit", least=0
    )
    window_seconds: int = setting(30 * 86_400, "see window_epochs", least=0)
    interval: int = setting(0, "seconds between two batches of a device, at least", least=0)
    most_items: int = setting(
        0, "items that the catalogue may grow to; 0: twice as many as at the beginning", least=0
    )

    def __post_init__(self) -> None:
        check(self)
