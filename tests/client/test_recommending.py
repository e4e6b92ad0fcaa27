"""Recommending: offline, without the own items, with reasons that add up, and as the vectors say.

`tests/vectors/recommending.json` has what devices make of a model, tags and an order: every client
must come to the same lists and reasons. To write it again:
`python -m tests.client.test_recommending`.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.client import Client
from sottovoce.client.recommending import compute_taste, list_recommendations
from sottovoce.client.store import ClientStore
from sottovoce.core.recommending import weigh_history
from sottovoce.errors import SettingsError, StoreError
from sottovoce.protocol import Catalogue, Item, Release, SignedManifest, encode_items
from tests.client.world import FACTORS, ITEMS, FakeProxy, World, item
from tests.protocol.examples import START, signing_key
from tests.protocol.test_vectors import signed

WORLD = World()
RELEASE = Release(WORLD.signed(1), WORLD.items(1), WORLD.catalogue)


def test_list_has_the_best_items_outside_the_history(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    """Weigh items by the order in which they were recorded, without any request."""
    client.sync(proxy)
    client.record([item(3)])
    proxy.calls.clear()
    recommendations = client.recommend(ITEMS)
    release = Release(proxy.signed, world.items(1), world.catalogue)
    touched = {item(7): 1, item(20): 1, item(3): 2}
    assert recommendations == list_recommendations(release, touched, ITEMS)
    assert recommendations != list_recommendations(release, dict.fromkeys(touched, 1), ITEMS)
    assert len(recommendations) == ITEMS - 3
    assert not set(touched) & {entry.id for entry in recommendations}
    scores = [entry.score for entry in recommendations]
    assert scores == sorted(scores, reverse=True)
    reasons = [reason.source for entry in recommendations for reason in entry.reasons]
    assert {what.id for what in reasons if isinstance(what, Item)} <= set(touched)
    assert client.recommend(4) == recommendations[:4]
    with pytest.raises(SettingsError):
        client.recommend(0)
    client.record([item(n) for n in range(ITEMS)])
    assert client.recommend(5) == []
    assert proxy.calls == []


TOUCHED = st.dictionaries(st.integers(0, ITEMS - 1).map(item), st.integers(1, 9), max_size=ITEMS)

TAGGED = Release(
    RELEASE.signed,
    RELEASE.V,
    Catalogue.from_items(
        Item(
            item(number),
            f"Title {number}",
            {"genre": ("odd" if number % 2 else "even",), "year": 1950 + number % 30},
        )
        for number in range(ITEMS)
    ),
)


@given(TOUCHED.filter(bool), st.integers(0, ITEMS - 1))
def test_shares_of_items_and_tags_add_up_to_the_score(touched: dict[str, int], row: int) -> None:
    personal = compute_taste(TAGGED, touched)
    own, tags, now = personal.split_score(row)
    assert (len(own), len(tags)) == (len(touched), len(TAGGED.catalogue.tags.names))
    assert own.sum() + tags.sum() + now == pytest.approx(
        personal.scores()[row], rel=1e-9, abs=1e-12
    )


def test_list_is_computed_from_the_latest_thousand_items() -> None:
    # A long history takes no longer; older items are still left out of the list.
    many = 1_300
    rng = np.random.default_rng(8)
    release = Release(
        RELEASE.signed,
        rng.standard_normal((many, FACTORS)).astype(np.float32),
        Catalogue.from_items(Item(str(number), "A film") for number in range(many)),
    )
    touched = {str(number): number // 2 for number in range(1, many - 2)}
    latest = {str(number): number // 2 for number in range(many - 1_002, many - 2)}
    long, short = compute_taste(release, touched), compute_taste(release, latest)
    assert long.rows == short.rows
    assert np.array_equal(long.scores(), short.scores())
    assert {entry.id for entry in list_recommendations(release, touched, many)} == {
        *("0", str(many - 2), str(many - 1))
    }


def test_a_model_without_a_solution_recommends_and_explains_nothing(
    client: Client, proxy: FakeProxy, world: World
) -> None:
    V = np.full((ITEMS, FACTORS), 2.0**20, np.float32)
    model = world.add(encode_items(V))
    proxy.publish(world.signed(1, model=model, regularization=1e-12))
    assert client.sync(proxy).outcome == "sent"
    assert [entry.reasons for entry in client.recommend(3)] == [()] * 3


def test_sync_of_another_process_does_not_remove_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let another process enter the next epoch between reading the manifest and its files."""
    world = World()
    proxy = FakeProxy(world)
    with world.create(tmp_path) as client, world.open(tmp_path) as other:
        client.sync(proxy)
        read = ClientStore.get_signed_manifest

        def then_sync(store: ClientStore) -> bytes | None:
            monkeypatch.undo()
            data = read(store)
            proxy.next_epoch()
            assert other.sync(proxy).outcome == "sent"
            return data

        monkeypatch.setattr(ClientStore, "get_signed_manifest", then_sync)
        assert len(client.recommend(3)) == 3
        assert client.get_status().epoch == 2


def test_model_is_cached_until_another_process_changes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    proxy, decode = FakeProxy(world), Catalogue.decode
    decoded: list[bytes] = []

    def counted(raw: bytes) -> Catalogue:
        decoded.append(raw)
        return decode(raw)

    monkeypatch.setattr(Catalogue, "decode", counted)
    with world.create(tmp_path) as client, world.open(tmp_path) as other:
        client.sync(proxy)
        first = client.recommend(3)
        decoded.clear()
        assert client.recommend(3) == first
        assert decoded == []
        proxy.next_epoch()
        other.sync(proxy)
        decoded.clear()
        assert client.recommend(3) != first
        assert len(decoded) == 1
        other.forget()
        with pytest.raises(StoreError):
            client.recommend(3)


# The vectors.


FILE = Path(__file__).parents[1] / "vectors" / "recommending.json"
KINDS = ("Horror", "Comedy", "Drama", "Western")
VECTOR_FACTORS = 3


def make_films(n: int, *, tagged: bool = True) -> list[dict[str, Any]]:
    """Return films: some without tags, one with a genre of its own, prices that are no integers."""
    entries: list[dict[str, Any]] = []
    for number in range(n):
        tags: dict[str, Any] = {}
        if tagged and number % 7:
            tags["genre"] = [KINDS[number % 4], *(["Short"] if number % 5 == 0 else [])]
            tags["year"] = 1950 + (number * 13) % 70
        if tagged and number % 3 == 0:
            tags["price"] = (number * 37 % 100) / 8
        entries.append({"id": f"film-{number}", "title": f"Film {number}", "tags": tags})
    if tagged:
        entries[1]["tags"]["genre"] = ["Alone", "Horror"]
    return entries


def make_item_matrix(n: int, *, new: int = 0) -> list[list[float]]:
    """Popularity falls with the number; the last `new` items are not known yet."""
    rng = np.random.default_rng(n)
    V = 0.3 * rng.standard_normal((n, VECTOR_FACTORS)) / np.sqrt(1 + np.arange(n))[:, None]
    V[:, 0] += 1 / (1 + np.arange(n) / 8)
    V[n - new :] = 0
    return [[float(value) for value in row] for row in np.round(V * 1024) / 1024]


def make_share_matrix(n: int, *, new: int) -> list[list[float]]:
    """Return what is touched now, one column; the last `new` items could not be named yet."""
    shares = 1024 / (1 + np.arange(n) * 7 % 23)
    shares[n - new :] = 0
    return [[float(share) / 2**20] for share in shares.round()]


def make_start_matrix(n: int, *, new: int) -> list[list[float]]:
    """Return what is touched now, and the factors of a start."""
    rows = zip(make_share_matrix(n, new=new), make_item_matrix(n, new=new), strict=True)
    return [[*shares, *(value / 8 for value in factors)] for shares, factors in rows]


def list_questions() -> list[dict[str, Any]]:
    several = {"film-5": 3, "film-9": 1, "film-12": 3, "film-33": 2, "gone": 9}
    return [
        {
            "name": "tags and an order",
            "items": make_films(60),
            "V": make_item_matrix(60),
            "touched": several,
        },
        {
            "name": "new items",
            "items": make_films(60),
            "V": make_item_matrix(60, new=9),
            "touched": {"film-1": 1, "film-5": 2, "film-57": 3},
        },
        {
            "name": "no history",
            "items": make_films(40),
            "V": make_item_matrix(40, new=4),
            "touched": {},
        },
        {
            "name": "no tags",
            "items": make_films(30, tagged=False),
            "V": make_item_matrix(30, new=2),
            "touched": {"film-2": 5, "film-3": 4},
        },
        {
            "name": "nothing learnt yet",
            "items": make_films(60),
            "V": make_item_matrix(60),
            "touched": several,
            "reports_behind": 0,
        },
        {
            "name": "a start, and no reports yet",
            "items": make_films(60),
            "V": make_item_matrix(60, new=9),
            "touched": several,
            "reports_behind": 0,
            "start": True,
        },
        {
            "name": "names with a start, and no reports yet",
            "items": make_films(60),
            "V": make_start_matrix(60, new=9),
            "touched": {**several, "film-57": 4},
            "reports_behind": 0,
            "start": True,
            "names": 66,
        },
        {
            "name": "names with a start and reports",
            "items": make_films(60),
            "V": make_start_matrix(60, new=9),
            "touched": several,
            "start": True,
            "names": 66,
        },
        *(
            {
                "name": f"names, {label}",
                "items": make_films(60),
                "V": make_share_matrix(60, new=9),
                "touched": touched,
                "reports_behind": behind,
                "names": 66,
            }
            for label, touched, behind in (
                ("with a history", {**several, "film-57": 4}, 1000),
                ("without a history", {}, 1000),
                ("before the first epoch", several, 0),
            )
        ),
        {
            "name": "more tags than are used",
            "items": [
                {
                    "id": f"{n}",
                    "title": "x",
                    "tags": {"brand": [f"b{n % 70}"], "a_b": [f"{n % 71}"]},
                }
                for n in range(1500)
            ],
            "V": make_item_matrix(1500),
            "touched": {"3": 1, "150": 1, "300": 2, "301": 3},
        },
    ]


def make_release(question: dict[str, Any]) -> tuple[Release, dict[str, int]]:
    catalogue = Catalogue.from_items(
        Item(
            entry["id"],
            entry["title"],
            {k: tuple(v) if isinstance(v, list) else v for k, v in entry["tags"].items()},
        )
        for entry in question["items"]
    )
    one = signed()
    manifest = replace(
        one.manifest,
        alpha=4.0,
        regularization=0.125,
        reports_behind=question.get("reports_behind", 1000),
        start=START if "start" in question else None,
    )
    if "names" in question:
        names = question["names"]
        terms = replace(
            manifest.terms,
            mechanism="named",
            parameters={"names": names},
            loud_fraction=1 / names,
            max_items=names - 1,
            factors=len(question["V"][0]),
        )
        manifest = replace(manifest, terms=terms, items=len(catalogue.items))
    V = np.array(question["V"], np.float32)
    return Release(SignedManifest.make(manifest, signing_key()), V, catalogue), question["touched"]


def answer(question: dict[str, Any]) -> dict[str, Any]:
    release, touched = make_release(question)
    personal = compute_taste(release, touched)
    numbers = release.catalogue.numbers
    in_catalogue = {item: at for item, at in touched.items() if item in numbers}
    return {
        "tags": [[tag.kind, tag.name] for tag in release.catalogue.tags.names],
        "popularity": personal.model.popularity.tolist(),
        "weights": dict(
            zip(
                in_catalogue,
                weigh_history(np.array([*in_catalogue.values()], int)).tolist(),
                strict=True,
            )
        ),
        "scores": personal.scores().tolist(),
        "best": [
            [entry.id, [_describe_reason(reason.source, reason.share) for reason in entry.reasons]]
            for entry in list_recommendations(release, touched, 5)
        ],
    }


def _describe_reason(what: Any, share: float) -> list[Any]:
    if what is None:
        return [None, share]
    return [what.id if isinstance(what, Item) else [what.kind, what.name], share]


def make_vectors() -> list[dict[str, Any]]:
    return [{**question, "answer": answer(question)} for question in list_questions()]


@pytest.mark.parametrize(
    "case", json.loads(FILE.read_text()) if FILE.exists() else [], ids=lambda case: case["name"]
)
def test_lists_and_reasons_equal_the_vectors(case: dict[str, Any]) -> None:
    computed, stored = answer(case), case["answer"]
    assert computed["tags"] == stored["tags"]
    for name in ("popularity", "scores"):
        np.testing.assert_allclose(computed[name], stored[name], rtol=1e-9, atol=1e-12)
    assert computed["weights"] == pytest.approx(stored["weights"], rel=1e-12)
    for (here, reasons), (there, stored_reasons) in zip(
        computed["best"], stored["best"], strict=True
    ):
        assert here == there
        assert [what for what, _ in reasons] == [what for what, _ in stored_reasons]
        np.testing.assert_allclose(
            [s for _, s in reasons], [s for _, s in stored_reasons], rtol=1e-7
        )


def test_vector_file_is_up_to_date() -> None:
    stored = json.loads(FILE.read_text())
    assert [{k: v for k, v in case.items() if k != "answer"} for case in stored] == list_questions()


if __name__ == "__main__":
    FILE.write_text(json.dumps(make_vectors(), separators=(",", ":")) + "\n")
