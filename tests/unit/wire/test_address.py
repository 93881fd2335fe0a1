"""The controller's address: whole, or an error that says what to do and keeps the secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.errors import AddressError
from trackside.wire.address import ControllerAddress, format_address, parse_address

ADDRESS = ControllerAddress(
    run="20261130T052000Z-digits",
    hosts=["127.0.0.1", "gpu-01"],
    port=40123,
    server_key="s" * 40,
    client_public="p" * 40,
    client_secret="c" * 40,
    pid=17,
)


def test_round_trip() -> None:
    word = format_address(ADDRESS)
    assert " " not in word
    assert parse_address(f" {word}\n") == ADDRESS


def test_the_secret_stays_out_of_repr_and_errors() -> None:
    assert "cccc" not in repr(ADDRESS)
    word = format_address(ADDRESS)
    with pytest.raises(AddressError) as caught:
        parse_address(word[:-9])
    assert word[12:40] not in str(caught.value)


@pytest.mark.parametrize("text", ["", "tcp://127.0.0.1:5555", "trackside0:abc", "trackside1:", "trackside1:!!!!"])
def test_anything_else_is_refused_with_advice(text: str) -> None:
    with pytest.raises(AddressError, match="trackside controller"):
        parse_address(text)


@given(st.binary(max_size=80))
def test_damage_never_raises_anything_else(noise: bytes) -> None:
    with pytest.raises(AddressError):
        parse_address("trackside1:" + noise.hex())
