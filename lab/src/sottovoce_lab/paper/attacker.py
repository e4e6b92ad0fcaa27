"""How well an attacker guesses about a person at each preset, and what proofs allow.

Not in the paper. `sottovoce_lab.audit.attack` describes what the attacker knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

from scipy import special

from sottovoce.privacy import central_epsilon
from sottovoce.privacy.events import DEFAULT_DELTA
from sottovoce.training import Budget, Settings, list_presets, plan_training
from sottovoce_lab.audit import AttackPlan, run_attack
from sottovoce_lab.audit.trials import Question
from sottovoce_lab.paper.cells import Cell, Size
from sottovoce_lab.paper.grid import Family, get_subset_seed, scale_people
from sottovoce_lab.paper.methods import CellContext
from sottovoce_lab.paper.plots import METHOD_COLOURS
from sottovoce_lab.paper.tables import (
    Experiment,
    Table,
    format_budget,
    format_interval,
    format_number,
    make_records,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HONEST_USERS = 5_000
# Numbers of trials and of crowds (`AttackPlan`) of an attack, in a full run and in a quick one.
ATTACK_TRIALS = 2_000
ATTACK_CROWDS = 10
QUICK_TRIALS = 80
QUICK_CROWDS = 4
# A local budget with which people take part in only some of the epochs. With the presets, a crowd
# as small as that of the attack takes part in every epoch.
TURNS_BUDGET = 50.0
QUESTIONS: tuple[Question, ...] = get_args(Question)
GUESS_COLOURS = {"linked": METHOD_COLOURS["paper"], "unlinked": METHOD_COLOURS["loudest"]}
# Parameters of a cell besides the settings of the training that is attacked.
ATTACK_PARAMETERS = ("question", "trials", "crowds")
# Each of these deltas gives a bound on the AUC. The smallest bound is used.
BOUND_DELTAS = (DEFAULT_DELTA, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.4)
# An AUC counts as above its bound if it exceeds the bound by this many of its standard errors. By
# chance, this happens with probability 5e-7.
MIN_ERRORS_OVER_BOUND = 4.9
GUESS_NOTE = (
    "AUC: how often the attacker ranks a true world above a false one; 0.5 is a guess. "
    "Interaction: did this person touch one item? History: which of two whole histories is theirs? "
    "The attacker knows everything else, every history and every epoch's model. Linked, they see "
    "which reports are the victim's; unlinked, all reports of an epoch in no order. In both cases "
    "they are told in which epochs the victim takes part."
)
BOUND_NOTE = (
    "At most: 1 - (1 - delta)^2 / (1 + e^eps). For linked reports eps is the local budget and "
    "delta is 0; for unlinked ones it is the smallest of the bounds by central budgets with "
    "several deltas. The Gaussian limit holds for many people; for few people it proves nothing."
)


@dataclass(frozen=True)
class Row:
    """One training and one question about a person."""

    label: str
    settings: Settings
    question: Question


def compute_attack(cell: Cell, context: CellContext) -> dict[str, Any]:
    """Return the AUCs, linked and unlinked, after the whole training, their bounds and budgets."""
    options, data = {**cell.options, "seed": cell.seed}, context.data
    question, trials, crowds = (options.pop(name) for name in ATTACK_PARAMETERS)
    settings = Settings.from_dict(options)
    plan = AttackPlan(
        trials=trials,
        crowds=crowds,
        question=question,
        points=((settings.reports, settings.epochs),),
        seed=cell.seed,
        threads=context.threads,
    )
    (point,) = run_attack(data.histories, settings, plan).points
    event, crowd = settings.event(data.n_items), max(settings.estimate_crowd(data.n_users), 1)
    central = {delta: central_epsilon(event, crowd, delta) for delta in BOUND_DELTAS}
    return {
        "final": {
            "linked": point.linked.value,
            "unlinked": point.unlinked.value,
            "linked error": point.linked.error,
            "unlinked error": point.unlinked.error,
        },
        "bounds": {
            "linked": compute_max_auc(event.pure),
            "unlinked": min(compute_max_auc(epsilon, delta) for delta, epsilon in central.items()),
            "gaussian": point.bound,
        },
        "budget": {"local": event.pure, "central": central[DEFAULT_DELTA]},
    }


def compute_max_auc(epsilon: float, delta: float = 0.0) -> float:
    """Return the AUC that no guess exceeds between two worlds that differ by (epsilon, delta).

    TPR is at most `e^eps FPR + delta` and at most `1 - e^-eps (1 - delta - FPR)`. The two lines
    cross where FPR = 1 - TPR = (1 - delta) / (1 + e^eps), and above them lies an area of
    `(1 - delta)^2 / (1 + e^eps)`. The bound holds for any mixture of victims.

    >>> compute_max_auc(0.0), round(compute_max_auc(1.0), 4)
    (0.5, 0.7311)
    """
    return float(1 - (1 - delta) ** 2 * special.expit(-epsilon))


class AttackerExperiment(Experiment):
    """Success of an attacker who guesses an interaction from linked or unlinked reports."""

    name = "attacker"
    title = "The attacker again"
    figure_size = (9.0, 4.5)

    def list_cells(self) -> list[Cell]:
        """Return the cells of all trainings and questions."""
        return self.grid.list_cells(self._build_family(row) for row in self._list_rows())

    def build_tables(self) -> list[Table]:
        """Build a table with a row for each training and question."""
        rows, records = [], []
        for row in self._list_rows():
            family, settings = self._build_family(row), row.settings
            spent, bounds = self.reader.read_budget(family), self._read_bounds(family)
            intervals = {guess: self.reader.read_interval(family, guess) for guess in GUESS_COLOURS}
            for guess, interval in intervals.items():
                about = {"preset": row.label, "question": row.question, "guess": guess, **spent}
                records += make_records(interval, **about, bound=bounds.get(guess))
            rows.append(
                (
                    row.label, row.question, f"{settings.epsilon:.3g}", f"{settings.reports}",
                    f"{settings.turns} of {settings.epochs}", format_budget(spent["local"]),
                    format_budget(spent["central"]), format_interval(intervals["linked"]),
                    format_number(bounds.get("linked")), format_interval(intervals["unlinked"]),
                    format_number(bounds.get("unlinked")), format_number(bounds.get("gaussian")),
                )
            )  # fmt: skip
        headings = (
            "preset", "question", "eps", "k", "turns", "local budget", "central budget", "linked",
            "at most", "unlinked", "at most", "Gaussian limit",
        )  # fmt: skip
        title = f"{self.title}: AUC, {self._get_size()}"
        notes = [*self._describe_bounds(), GUESS_NOTE, BOUND_NOTE]
        return [Table(self.name, title, headings, rows, records, notes)]

    def draw(self, figure: Figure) -> None:
        """Draw the guesses and their bounds."""
        rows = self._list_rows()
        axes: Any = figure.subplots()
        for guess, colour in GUESS_COLOURS.items():
            points = []
            for place, row in enumerate(rows):
                family = self._build_family(row)
                interval = self.reader.read_interval(family, guess)
                if interval is not None:
                    points.append((place, interval.mean, self._read_bounds(family)[guess]))
            places, means, bounds = zip(*points, strict=True) if points else ((), (), ())
            axes.plot(means, places, "o", color=colour, label=guess)
            axes.plot(bounds, places, "|", color=colour, markersize=16, label=f"{guess}, at most")
        axes.set_yticks(range(len(rows)), [f"{row.label}, {row.question}" for row in rows])
        axes.invert_yaxis()
        axes.set(xlabel="AUC", xlim=(0.49, 1.01))
        axes.grid(axis="x", alpha=0.3)
        figure.legend(loc="outside right upper", fontsize=8)

    def _describe_bounds(self) -> list[str]:
        """Return a sentence that counts the cells under their bounds and names all others."""
        computed, over = 0, []
        for row, seed in product(self._list_rows(), self.grid.seeds):
            result = self.store.get(self._build_family(row)(seed))
            if result is None:
                continue
            computed += 1
            final, bounds = result["final"], result["bounds"]
            exceeded = [
                f"{guess} {final[guess]:.4f} over {bounds[guess]:.4f}"
                for guess in GUESS_COLOURS
                if final[guess] - MIN_ERRORS_OVER_BOUND * final[f"{guess} error"] > bounds[guess]
            ]
            if exceeded:
                over.append(f"{row.label}, {row.question}, seed {seed} ({', '.join(exceeded)})")
        if not computed:
            return []
        exceptions = f"; over it: {'; '.join(over)}" if over else ""
        return [f"Under the bound in {computed - len(over)} of {computed} cells{exceptions}."]

    def _read_bounds(self, family: Family) -> dict[str, float]:
        """Return the bounds, which are the same for every seed; empty without results."""
        results = (self.store.get(family(seed)) for seed in self.grid.seeds)
        return next((result["bounds"] for result in results if result is not None), {})

    def _list_rows(self) -> list[Row]:
        size, epochs = self._get_size(), self.grid.epochs if self.grid.about.quick else None
        public = self.grid.count_users_and_items(size)
        plans = {
            name: plan_training(*public, preset=name, epochs=epochs) for name in list_presets()
        }
        plans[f"budget {TURNS_BUDGET:g}"] = plan_training(
            *public, budget=Budget(local=TURNS_BUDGET), epochs=epochs
        )
        # Presets with the same settings share their rows.
        names: dict[str, list[str]] = {}
        for name, settings in plans.items():
            names.setdefault(repr(settings), []).append(name)
        return [
            Row(", ".join(same), plans[same[0]], question)
            for same in names.values()
            for question in QUESTIONS
        ]

    def _get_size(self) -> Size:
        about = self.grid.about
        users = self.grid.users[0] if about.quick else scale_people(HONEST_USERS, about)
        return self.grid.make_small_size(min(users, about.users))

    def _build_family(self, row: Row) -> Family:
        is_quick = self.grid.about.quick
        trials = QUICK_TRIALS if is_quick else ATTACK_TRIALS
        crowds = QUICK_CROWDS if is_quick else ATTACK_CROWDS
        added = zip(ATTACK_PARAMETERS, (row.question, trials, crowds), strict=True)
        cell = Cell.from_settings("attacker", self._get_size(), row.settings, 0)
        parameters = (*cell.parameters, *added)
        return lambda seed: replace(
            cell, seed=seed, draw=get_subset_seed(seed), parameters=parameters
        )
