"""Which connection is closed when all places are taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.errors import SettingsError
from sottovoce.service.connections import ConnectionLimiter, get_network
from sottovoce.service.listen import Listen, Watch


class Somebody:
    deadline = 0.0

    def __init__(self, address: str = "192.0.2.1"):
        self.address = address
        self.gave_way = False

    def time_out(self) -> None:
        raise AssertionError("nobody looks at the clock here")

    def drop(self) -> None:
        self.gave_way = True


def add_people(places: ConnectionLimiter, *people: Somebody) -> list[bool]:
    return [places.add(person, person.address) for person in people]


def test_connection_with_a_complete_request_is_not_closed() -> None:
    places = ConnectionLimiter(2, 0)
    busy = [Somebody() for _ in range(2)]
    add_people(places, *busy)
    for person in busy:
        places.set_working(person)
    assert add_people(places, Somebody()) == [False]
    places.remove(busy[0])
    assert add_people(places, Somebody()) == [True]
    assert not any(person.gave_way for person in busy)


def test_address_at_its_limit_does_not_affect_others() -> None:
    places = ConnectionLimiter(100, 2)
    many = [Somebody() for _ in range(5)]
    lone_person = Somebody("192.0.2.2")
    neighbours = [Somebody(f"2001:db8::{n}") for n in range(3)]
    assert all(add_people(places, lone_person, *many, *neighbours))
    assert [person.gave_way for person in (lone_person, *many)] == [False] + [True] * 3 + [
        False
    ] * 2
    assert [person.gave_way for person in neighbours] == [True, False, False]
    busy = ConnectionLimiter(100, 1)
    add_people(busy, many[0])
    busy.set_working(many[0])
    assert add_people(busy, Somebody(), lone_person) == [False, True]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "set_working", "set_waiting", "remove"]),
            st.integers(0, 5),
            st.integers(0, 2),
        )
    )
)
def test_places_are_returned_and_addresses_are_forgotten(
    steps: list[tuple[str, int, int]],
) -> None:
    places = ConnectionLimiter(4, 2)
    inside: dict[int, Somebody] = {}
    for step, number, network in steps:
        if number not in inside:
            somebody = Somebody(f"192.0.2.{network}")
            if places.add(somebody, somebody.address):
                inside[number] = somebody
        elif step != "add":
            getattr(places, step)(inside[number])
            if step == "remove":
                del inside[number]
        inside = {number: person for number, person in inside.items() if not person.gave_way}
        assert len(places) == len(inside) <= 4
    for person in inside.values():
        places.remove(person)
    assert not places._by_address
    assert (places._total.used, places._total.waiting) == (0, {})


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
def test_addresses_that_count_as_one(one: str, other: str, same: bool) -> None:
    assert (get_network(one) == get_network(other)) is same


def test_invalid_host_is_refused() -> None:
    with pytest.raises(SettingsError):
        Listen("a..b").bind()


def test_error_of_a_taken_port_names_the_setting() -> None:
    (taken,) = Listen(port=0).bind()
    with taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=r"\[listen\]"):
            Listen(port=port).bind()
        with pytest.raises(SettingsError, match=r"\[watch\]"):
            Watch(port=port).bind()
        with pytest.raises(SettingsError, match=r"with --port\b.*program"):
            Listen(port=port).check_free("with --port")
