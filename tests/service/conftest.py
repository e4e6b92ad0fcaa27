from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.service.program import Service


@pytest.fixture
def start() -> Iterator[Callable[..., Service]]:
    services: list[Service] = []

    def begin(*arguments: str, **how: Any) -> Service:
        services.append(Service(*(arguments or ["0", "0"]), **how))
        return services[-1]

    yield begin
    for service in services:
        service.close()
