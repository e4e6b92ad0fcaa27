"""The independent client makes the reports of tests/vectors, from the same words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.outsider.mechanisms import Task, flip_below, make_reports, uniform_below, user_vector
from tests.outsider.vectors import MANIFEST, MODEL, PROTOCOL, matrix, read
from tests.outsider.wire import PARAMETERS, parse_model

CASES: list[Any] = read("mechanisms")


@pytest.mark.parametrize("case", read("thresholds"), ids=lambda case: repr(case["epsilon"]))
def test_thresholds(case: Any) -> None:
    assert flip_below(case["epsilon"]) == int(case["flip"], 16)
    for loud, directions, word in case["uniform"]:
        assert uniform_below(case["epsilon"], loud, directions) == int(word, 16)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["label"]))
def test_user_vectors_and_reports(case: Any) -> None:
    model, alpha, lambda_ = (case[name] for name in ("item_matrix", "alpha", "regularization"))
    model = matrix(model, case["factors"])
    task = Task(case["mechanism"], case["parameters"], case["epsilon"], model, alpha, lambda_)
    words, size = [int(word, 16) for word in case["words"]], (case["k"] + 1) * 4
    vectors = matrix(case["user_vectors"], case["factors"])
    for person, history in enumerate(case["histories"]):
        x = user_vector(model, history, alpha, lambda_)
        assert x.tobytes() == vectors[person].tobytes()
        own = words[person * size :][:size]
        assert make_reports(task, history, own) == case["reports"][person]


def test_every_mechanism_is_there_with_many_items_and_factors() -> None:
    large = [case for case in CASES if case["items"] > 256 and case["factors"] > 8]
    assert {case["mechanism"] for case in large} == set(PARAMETERS)


def test_the_example_of_the_page() -> None:
    terms, fields = MANIFEST.terms, MANIFEST.fields
    model = parse_model(MODEL, fields["items"], terms["factors"])
    numbers = fields["alpha"], fields["regularization"]
    task = Task(terms["mechanism"], terms["parameters"], terms["epsilon"], model, *numbers)
    words = [int(word, 16) for word in PROTOCOL["reports"]["words"]]
    reports = make_reports(task, PROTOCOL["reports"]["history"], words)
    assert reports == PROTOCOL["reports"]["values"]
