"""Metrics that proxy and server have in common. Each adds counters in a subclass."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily

from sottovoce.service.connections import RejectionCounter
from sottovoce.service.logs import Troubles


class ServiceMetrics:
    """Counters, gauges and the current troubles of a service, in Prometheus' format.

    Args:
        service: `server` or `proxy`. It is part of the name of every metric.
        gauges: The help text of each gauge, by name.
        troubles: The troubles of the service.
    """

    def __init__(self, service: str, gauges: Mapping[str, str], troubles: Troubles):
        self.registry = CollectorRegistry()
        self._prefix = f"sottovoce_{service}"
        self._troubles = troubles
        self._gauges = {
            name: Gauge(f"{self._prefix}_{name}", help_text, registry=self.registry)
            for name, help_text in gauges.items()
        }
        self.turned_away = RejectionCounter(service, self.registry)
        self.registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metric of troubles. The registry calls this method."""
        text = "1: the log, /readyz and `status` say what is wrong"
        family = GaugeMetricFamily(f"{self._prefix}_problem", text, labels=["name"])
        states: dict[str, bool] = {}
        for name, has_trouble in self._troubles.list_states():
            # Do not show single proxies: the troubles `proxy/NAME` count as one named `proxy`.
            kind = name.partition("/")[0]
            states[kind] = states.get(kind, False) or has_trouble
        for kind, has_trouble in states.items():
            family.add_metric([kind], has_trouble)
        yield family

    def set_gauges(self, **functions: Callable[[], float]) -> None:
        """Set the functions that return the values of gauges."""
        for name, function in functions.items():
            self._gauges[name].set_function(function)

    def set_values(self, values: Mapping[str, float]) -> None:
        """Set the values of gauges."""
        for name, value in values.items():
            self._gauges[name].set(value)

    def add_counter(self, name: str, help_text: str, *labels: str) -> Counter:
        """Add a counter with these labels."""
        return Counter(f"{self._prefix}_{name}", help_text, labels, registry=self.registry)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
