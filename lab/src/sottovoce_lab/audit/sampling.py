"""Evidence from counts: the reports of a black-box client for two people."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.training import Settings
from sottovoce_lab.audit.clients import Client, ClientFactory, collect_reports
from sottovoce_lab.audit.evidence import (
    Count,
    Evidence,
    Fact,
    Ratio,
    Surprise,
    compute_count_p_value,
    compute_counts_p_value,
    compute_independence_p_value,
)
from sottovoce_lab.audit.scenes import REPORTS_PER_CALL, Scene, list_scenes

Ints = NDArray[np.int64]
Event = NDArray[np.bool_]
# Names of the checks.
ONE_REPORT_CHECK = "epsilon of one report"
TWO_REPORTS_CHECK = "epsilon of two reports"
RANGE_CHECK = "reports that exist"
PROBABILITY_CHECK = "every report as likely as stated"
LOUD_SHARE_CHECK = "loud share as stated"
INDEPENDENCE_CHECK = "reports are independent"
UNIFORM_CHECK = "uniform reports without history or model"
# Logarithms of density ratios that differ by less than this differ only by rounding errors.
RATIO_TOLERANCE = 1e-6
# If there are at most this many pairs of values, each pair is counted as a separate event.
MAX_PAIR_EVENTS = 64


@dataclass(frozen=True, eq=False)
class Sample:
    """The reports of one scene (one row of k reports for each call) and their stated densities."""

    scene: Scene
    first: Ints
    second: Ints
    densities: NDArray[np.float32]

    @property
    def size(self) -> int:
        """Number of possible reports, 2D."""
        return int(self.densities.shape[1])

    @property
    def people(self) -> list[tuple[str, Ints, NDArray[np.float32]]]:
        """Name, reports and densities of both people."""
        names = ("first", "second")
        return list(zip(names, (self.first, self.second), self.densities, strict=True))

    def select_independent(self, reports: Ints) -> Ints:
        """Return independent reports: in a scene of short calls, only the first of each call."""
        return reports.ravel() if self.scene.reports_per_call == REPORTS_PER_CALL else reports[:, 0]

    def make_ratio(
        self, check: str, event: str, first: Event, second: Event, claim: float
    ) -> Ratio:
        first_count, second_count = (
            Count(int(happened.sum()), happened.size) for happened in (first, second)
        )
        name = f"{self.scene.name}: {event}"
        return Ratio(self.scene.settings.mechanism, check, name, first_count, second_count, claim)

    def make_surprise(self, check: str, event: str, p_value: float) -> Surprise:
        name = f"{self.scene.name}, {event}"
        return Surprise(self.scene.settings.mechanism, check, name, p_value)


def gather_evidence(make: ClientFactory, settings: Settings, samples: int) -> list[Evidence]:
    """Return all evidence from counting reports of clients with these settings."""
    evidence: list[Evidence] = []
    for scene in list_scenes(settings):
        client = make(scene.settings, scene.n_items)
        sample = draw_sample(client, scene, samples)
        in_range = check_range(sample)
        evidence.append(in_range)
        # The other checks count only reports that exist.
        if in_range.holds:
            evidence += compare_single_reports(sample)
            evidence += compare_pairs(sample)
            evidence += check_distributions(sample)
    return evidence


def draw_sample(client: Client, scene: Scene, samples: int) -> Sample:
    """Ask the client for `samples` reports of each of the scene's two people."""
    calls, k = scene.count_calls(samples), scene.reports_per_call
    first, second = (
        collect_reports(client, scene.V, history, calls, k)
        for history in (scene.first, scene.second)
    )
    return Sample(scene, first, second, scene.compute_densities())


def check_range(sample: Sample) -> Fact:
    """Check that every report is one of the possible 2D; an honest client makes no others."""
    reports = np.concatenate([sample.first.ravel(), sample.second.ravel()])
    seen = f"{sample.scene.name}: {reports.min()}..{reports.max()} of 0..{sample.size - 1}"
    in_range = bool(((reports >= 0) & (reports < sample.size)).all())
    return Fact(sample.scene.settings.mechanism, RANGE_CHECK, seen, in_range)


def compare_single_reports(sample: Sample) -> Iterator[Ratio]:
    """Compare how often both people make each report, each bit, and the most telling reports.

    The most telling reports are those that tell the two people apart best.
    """
    values = np.arange(sample.size)
    events = {f"report {value}": values == value for value in values}
    # Single reports may be too rare to prove a fault that many reports share. So also count each
    # bit of the report's number: about half of all reports have it set.
    bits = (sample.size - 1).bit_length()
    events |= {f"bit {bit}": values >> bit & 1 == 1 for bit in range(bits)}
    best, worst = _find_telling_reports(sample.densities)
    events |= {"first's loud": best, "second's loud": worst}
    epsilon = sample.scene.settings.epsilon
    for name, event in events.items():
        first, second = (
            event[sample.select_independent(reports)] for reports in (sample.first, sample.second)
        )
        yield sample.make_ratio(ONE_REPORT_CHECK, name, first, second, epsilon)


def compare_pairs(sample: Sample) -> Iterator[Ratio]:
    """Compare how often both people make each pair of reports.

    Two reports of one call may cost at most twice as much as one report.
    """
    pairs = [_pair_up(sample.first), _pair_up(sample.second)]
    best, _ = _find_telling_reports(sample.densities)
    epsilon = 2 * sample.scene.settings.epsilon
    for name, wanted in (("both first's loud", True), ("neither first's loud", False)):
        first, second = ((best[reports] == wanted).all(axis=1) for reports in pairs)
        yield sample.make_ratio(TWO_REPORTS_CHECK, name, first, second, epsilon)
    # If there are more pairs, each of them is too rare to prove anything.
    if sample.size**2 > MAX_PAIR_EVENTS:
        return
    codes = [reports[:, 0] * sample.size + reports[:, 1] for reports in pairs]
    for code in range(sample.size**2):
        name = f"reports {divmod(code, sample.size)}"
        first, second = codes[0] == code, codes[1] == code
        yield sample.make_ratio(TWO_REPORTS_CHECK, name, first, second, epsilon)


def check_distributions(sample: Sample) -> Iterator[Surprise]:
    """Check that reports have the right probabilities and do not depend on each other.

    If all directions tie, reports must be uniform.
    """
    for name, reports, density in sample.people:
        # Densities are relative to a uniform report.
        is_loud = density > 1
        if not is_loud.any():
            # The reports of one call break ties in the same way, so only one of each call is used.
            single = sample.select_independent(reports)
            p_value = _compare_with(sample, single, np.full(sample.size, 1 / sample.size))
            yield sample.make_surprise(UNIFORM_CHECK, name, p_value)
            continue
        probability = float(density[is_loud].sum(dtype=np.float64)) / sample.size
        loud = is_loud[reports]
        p_value = compute_count_p_value(Count(int(loud.sum()), loud.size), probability)
        event = f"{name}: {loud.mean():.4f} of {probability:.4f}"
        yield sample.make_surprise(LOUD_SHARE_CHECK, event, p_value)
        probabilities = density.astype(np.float64)
        p_value = _compare_with(sample, reports, probabilities / probabilities.sum())
        yield sample.make_surprise(PROBABILITY_CHECK, name, p_value)
        for what, values in (("coins", loud), ("reports", reports)):
            p_value = compute_independence_p_value(*_pair_up(values).T)
            yield sample.make_surprise(INDEPENDENCE_CHECK, f"{name}'s {what}", p_value)


def _compare_with(sample: Sample, reports: Ints, probabilities: NDArray[np.float64]) -> float:
    seen = np.bincount(reports.ravel(), minlength=sample.size)
    return compute_counts_p_value(seen, probabilities)


def _find_telling_reports(densities: NDArray[np.float32]) -> tuple[Event, Event]:
    """Return which reports point most to the first person, and which ones to the second."""
    ratio = np.log(densities[0].astype(np.float64) / densities[1])
    return ratio >= ratio.max() - RATIO_TOLERANCE, ratio <= ratio.min() + RATIO_TOLERANCE


def _pair_up(reports: NDArray[Any]) -> NDArray[Any]:
    """Return pairs of neighbours within a call; no report is in two pairs."""
    return reports.reshape(-1, 2)
