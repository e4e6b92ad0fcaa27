"""Compare quality and privacy: a grid search over epsilon and reports, in ten lines.

Run it: pip install scikit-learn && python examples/grid.py
"""

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from sottovoce import FederatedMF
from sottovoce.data import leave_one_out, load


def main() -> dict[float, float]:
    """Return HR@10 against 99 films by the epsilon that a person spends in total."""
    split = leave_one_out(load("ml-latest-small").filter(20), "random", seed=1000)
    model, hit_rates = FederatedMF(epochs=10, seed=1000), {}
    for options in ParameterGrid({"epsilon": [1.0, 4.0, 8.0], "reports": [1, 20]}):
        trained = clone(model).set_params(**options).fit(split.train)
        quality = trained.evaluate(split.train, split.left_out, negatives=99)
        hit_rates[trained.privacy().training.pure] = quality["hr@10"]
    return dict(sorted(hit_rates.items()))


if __name__ == "__main__":
    for spent, quality in main().items():
        print(f"epsilon {spent:6g}: HR@10 {quality:.3f}")  # noqa: T201
