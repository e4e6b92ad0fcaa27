"""Who must go when all places are taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import SettingsError
from sottovoce.service.http import network_of
from sottovoce.service.listen import Listen, Places, Watch


class Somebody:
    deadline = 0.0

    def __init__(self, address: str = "192.0.2.1"):
        self.address = address
        self.gave_way = False

    def late(self) -> None:
        raise AssertionError("nobody looks at the clock here")

    def give_way(self) -> None:
        self.gave_way = True


def entering(places: Places, *people: Somebody) -> list[bool]:
    return [places.take(each, each.address) for each in people]


def test_nobody_goes_whose_request_is_complete() -> None:
    places = Places(2, 0)
    busy = [Somebody() for _ in range(2)]
    entering(places, *busy)
    for each in busy:
        places.work(each)
    assert entering(places, Somebody()) == [False]
    places.leave(busy[0])
    assert entering(places, Somebody()) == [True]
    assert not any(each.gave_way for each in busy)


def test_one_address_is_limited_by_itself() -> None:
    places = Places(100, 2)
    many = [Somebody() for _ in range(5)]
    alone = Somebody("192.0.2.2")
    neighbours = [Somebody(f"2001:db8::{n}") for n in range(3)]
    assert all(entering(places, alone, *many, *neighbours))
    assert [each.gave_way for each in (alone, *many)] == [False] + [True] * 3 + [False] * 2
    assert [each.gave_way for each in neighbours] == [True, False, False]
    busy = Places(100, 1)
    entering(busy, many[0])
    busy.work(many[0])
    assert entering(busy, Somebody(), alone) == [False, True]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["take", "work", "wait", "leave"]), st.integers(0, 5), st.integers(0, 2)
        )
    )
)
def test_places_are_never_lost_and_addresses_never_kept(
    steps: list[tuple[str, int, int]],
) -> None:
    places = Places(4, 2)
    inside: dict[int, Somebody] = {}
    for step, number, network in steps:
        if number not in inside:
            somebody = Somebody(f"192.0.2.{network}")
            if places.take(somebody, somebody.address):
                inside[number] = somebody
        elif step != "take":
            getattr(places, step)(inside[number])
            if step == "leave":
                del inside[number]
        inside = {number: each for number, each in inside.items() if not each.gave_way}
        assert len(places) == len(inside) <= 4
    for each in inside.values():
        places.leave(each)
    assert not places._addresses
    assert (places._everybody.taken, places._everybody.waiting) == (0, {})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:ff::1", True),
        ("2001:db8:0:1::1", "2001:db8:0:101::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("not:an:address", "not:an:address", True),
        ("not:an:address", "another:one", False),
        ("", "", True),
    ],
)
def test_who_counts_as_one(one: str, other: str, same: bool) -> None:
    assert (network_of(one) == network_of(other)) is same


def test_a_host_that_is_none_is_refused() -> None:
    with pytest.raises(SettingsError):
        Listen("a..b").bind()


def test_a_taken_port_says_where_another_is_named() -> None:
    (taken,) = Listen(port=0).bind()
    with taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=r"\[listen\]"):
            Listen(port=port).bind()
        with pytest.raises(SettingsError, match=r"\[watch\]"):
            Watch(port=port).bind()
        with pytest.raises(SettingsError, match=r"with --port\b.*program"):
            Listen(port=port).check_free("with --port")
