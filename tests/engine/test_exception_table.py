"""Exceptions as the libraries raise them, and what an action sees of them in another process."""

from __future__ import annotations

import base64

import pytest

from tests.engine.exception_table import Line, make_table
from tests.engine.exceptions.server import SECRET

for library in ("aiohttp", "anthropic", "botocore", "google.genai", "grpc", "sqlalchemy", "tenacity"):
    pytest.importorskip(library)

MAX_BYTES = 16_384
"""More than any of these needs: a record holds facts, never a document that the exception carries."""

NAMELESS = {
    "vanished class": "tests.engine.exceptions.own.Gone",  # deleted before the record is read
    "botocore 429": "botocore.errorfactory.ThrottlingException",  # made by each client, importable by nobody
}
"""Classes that another process does not have: their base is caught, and the text names them."""


@pytest.fixture(scope="module")
def table() -> list[Line]:
    return make_table()


def test_x2_x3_the_same_except_clauses_match_in_another_process(table: list[Line]) -> None:
    """Cases 2 to 5."""
    for line in table:
        gone = {NAMELESS.get(line.case.name)}
        assert set(line.caught) - gone <= set(line.replayed["caught"]), line.case.name


def test_x3_plain_attributes_are_readable_in_another_process(table: list[Line]) -> None:
    """Cases 2 and 3: status, retry-after, errno, code of each library."""
    for line in table:
        assert line.replayed["values"] == line.values, line.case.name
        assert not [value for value in line.values.values() if value.startswith("raises")], line.case.name


def test_x3_a_substitute_has_the_class_in_front_of_the_text(table: list[Line]) -> None:
    for line in table:
        text = line.replayed["text"]
        if line.replayed["substitute"] and SECRET not in line.text:
            assert text == f"{line.path}: {line.text}"
        elif not line.replayed["substitute"]:
            assert text == line.text


def test_x3_a_class_that_is_gone_is_named(table: list[Line]) -> None:
    gone = [line for line in table if line.case.name in NAMELESS]
    assert len(gone) == len(NAMELESS)
    for line in gone:
        assert line.replayed["substitute"]
        assert NAMELESS[line.case.name] in line.replayed["text"]


def test_x8_no_secret_of_a_client_is_in_a_record(table: list[Line]) -> None:
    encoded = base64.b64encode(b"user:planted-password")
    for line in table:
        assert SECRET.encode() not in line.record, line.case.name
        assert encoded not in line.record, line.case.name


def test_x1_records_are_small(table: list[Line]) -> None:
    for line in table:
        assert len(line.record) < MAX_BYTES, line.case.name
