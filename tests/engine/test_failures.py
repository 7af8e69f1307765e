from __future__ import annotations

import asyncio
import contextlib
import copy
import datetime
import errno
import json
import pickle
import pickletools
import sys
import threading
import traceback
import urllib.error
from decimal import Decimal
from http.client import HTTPMessage
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_agents_durable.api.errors import (
    CallTimeoutError,
    DurableExecutionError,
    RecordedCallError,
    RecordTooLargeError,
    UnreadableRecordError,
)
from flink_agents_durable.engine.failures import (
    MARKER,
    MAX_MESSAGE,
    VERSION,
    decode_failure,
    encode_failure,
    is_failure,
)
from flink_agents_durable.engine.payload import PayloadCodec

CODEC = PayloadCodec()
# A failure record stays below this, whatever the exception holds.
BOUND = 400_000


def raised(exc: BaseException) -> BaseException:
    """The exception with a traceback, as a call leaves it."""
    try:
        raise exc
    except BaseException as caught:
        return caught


def replay(exc: BaseException, codec: PayloadCodec = CODEC) -> Any:
    data = encode_failure(raised(exc), codec)
    assert is_failure(data)
    assert len(data) < BOUND
    return decode_failure(data, codec)


# --- exceptions of all kinds


class TwoArguments(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__("keyword only")
        self.code = code


class Growing(Exception):
    """Its text changes with each pickle round trip."""

    def __init__(self, text: str) -> None:
        super().__init__(f"growing: {text}")


class Slotted(Exception):
    __slots__ = ("code", "lock")

    def __init__(self, code: int) -> None:
        super().__init__("slotted")
        self.code = code
        self.lock = threading.Lock()


class Reducing(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code

    def __reduce__(self) -> Any:
        return Reducing, (self.code, self.args[1])


class BadReduce(Exception):
    def __reduce__(self) -> Any:
        raise RuntimeError("no")


class WrongReduce(Exception):
    def __reduce__(self) -> Any:
        return ValueError, ("another class",)


class Locked(OSError):
    def __init__(self, number: int, text: str) -> None:
        super().__init__(number, text)
        self.lock = threading.Lock()
        self.retry_after = 7


class EmptyLength(Exception):
    def __len__(self) -> int:
        return 0


class EmptyLocked(EmptyLength):
    def __init__(self) -> None:
        super().__init__("empty")
        self.lock = threading.Lock()


class HostileText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("str")

    def __repr__(self) -> str:
        raise RuntimeError("repr")


class VeryHostile(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__

    def __bool__(self) -> bool:
        raise SystemExit

    def __eq__(self, other: object) -> bool:
        raise GeneratorExit

    def __hash__(self) -> int:
        raise asyncio.CancelledError

    def __reduce__(self) -> Any:
        raise SystemExit

    def __getattr__(self, name: str) -> Any:
        raise KeyboardInterrupt


class HostileProperties(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        raise SystemExit

    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise SystemExit

    @property
    def exceptions(self) -> Any:
        raise SystemExit

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise SystemExit


class NotText(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


class Mixed(TwoArguments, KeyError):
    def __init__(self) -> None:
        super().__init__(1, "x")
        self.lock = threading.Lock()


class Plugin(Exception):
    def __init_subclass__(cls, *, registry: str) -> None: ...

    def __init__(self) -> None:
        super().__init__("plugin")
        self.lock = threading.Lock()


class Order(pydantic.BaseModel):
    count: int


def local_error() -> Exception:
    class Local(ValueError): ...

    return Local("local")


def invalid() -> Exception:
    return failing("from pydantic import TypeAdapter; TypeAdapter(int).validate_python('x')")


def failing(code: str) -> Exception:
    try:
        exec(code)
    except Exception as error:
        return error
    raise AssertionError(code)


SAME = [
    ValueError("a", 1),
    KeyError("missing"),
    ZeroDivisionError(),
    OSError(errno.ENOENT, "no such file", "name"),
    ConnectionResetError(errno.ECONNRESET, "reset"),
    FileNotFoundError(2, "gone", "a", None, "b"),
    TimeoutError("late"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    failing("import json; json.loads('{')"),
    StopIteration(3),
    ImportError("m", name="n", path="p"),
    SyntaxError("bad", ("f", 1, 2, "text")),
    AssertionError(),
    Reducing(1, "x"),
    CallTimeoutError("call 'f' took more than 3 s"),
    RecordTooLargeError("too large"),
    ValueError("\ud800\0"),
    ValueError(Decimal("1.5"), datetime.date(2026, 1, 1), (1, [2]), {3: 4}),
    ValueError(1 << 100),
]


@pytest.mark.parametrize("exc", SAME, ids=lambda exc: type(exc).__name__)
def test_x2_what_pickles_and_loads_replays_as_it_was(exc: Exception) -> None:
    again = replay(exc)
    assert type(again) is type(exc)
    assert again.args == exc.args
    assert vars(again) == vars(exc)
    assert str(again) == str(exc)


def test_x2_members_of_builtin_exceptions_are_kept() -> None:
    again = replay(OSError(errno.EACCES, "denied", "/etc"))
    assert (again.errno, again.strerror, again.filename) == (errno.EACCES, "denied", "/etc")
    decode = replay(UnicodeDecodeError("utf-8", b"a\xff", 1, 2, "bad"))
    assert (decode.object, decode.start, decode.reason) == (b"a\xff", 1, "bad")
    parse = replay(failing("import json; json.loads('[1,')"))
    assert isinstance(parse, json.JSONDecodeError)
    assert (parse.doc, parse.pos) == ("[1,", 3)


def test_x2_pydantic_errors_keep_what_they_found() -> None:
    exc: Any = invalid()
    again = replay(exc)
    assert type(again) is pydantic.ValidationError
    assert again.errors() == exc.errors()


def test_x2_members_that_python_does_not_pickle_are_kept() -> None:
    again = replay(failing("'text'.upperr"))
    assert type(again) is AttributeError
    assert again.name == "upperr"
    assert replay(failing("no_such_name")).name == "no_such_name"


def test_x2_attributes_and_notes_are_kept() -> None:
    exc: Any = ValueError("a")
    exc.code = 3
    exc.__notes__ = ["first", "second"]
    again = replay(exc)
    assert again.code == 3
    assert again.__notes__ == ["first", "second"]


SUBSTITUTED: list[tuple[Exception, dict[str, object]]] = [
    (TwoArguments(4, "no"), {"code": 4, "reason": "no"}),
    (KeywordOnly(code=5), {"code": 5}),
    (Growing("x"), {}),
    (Slotted(6), {"code": 6}),
    (Locked(errno.EAGAIN, "busy"), {"errno": errno.EAGAIN, "strerror": "busy", "retry_after": 7}),
    (BadReduce("x"), {}),
    (WrongReduce("x"), {}),
    (EmptyLocked(), {}),
    (Mixed(), {"code": 1}),
]


@pytest.mark.parametrize(("exc", "attributes"), SUBSTITUTED, ids=lambda value: type(value).__name__)
def test_x3_what_cannot_be_rebuilt_replays_as_a_substitute(
    exc: Exception, attributes: dict[str, object]
) -> None:
    """Cases 4, 5. The same `except` clauses match, the text names the class, attributes are readable."""
    path = f"{type(exc).__module__}.{type(exc).__qualname__}"
    again = replay(exc)
    assert isinstance(again, type(exc))
    assert isinstance(again, RecordedCallError)
    assert str(again) == f"{path}: {exc}"
    assert {name: getattr(again, name) for name in attributes} == attributes
    assert type(again).__name__ == type(exc).__name__


def test_x3_substitute_classes_are_made_once() -> None:
    assert type(replay(KeywordOnly(code=1))) is type(replay(KeywordOnly(code=2)))


def test_x3_a_substitute_pickles_copies_and_is_recorded_as_what_it_stands_for() -> None:
    first = replay(KeywordOnly(code=5))
    for again in (pickle.loads(pickle.dumps(first)), copy.copy(first), copy.deepcopy(first), replay(first)):
        assert isinstance(again, KeywordOnly)
        assert isinstance(again, RecordedCallError)
        assert again.code == 5
        assert str(again) == str(first)


def test_x3_a_substitute_can_be_raised_formatted_and_chained() -> None:
    again = raised(replay(KeywordOnly(code=5)))
    again.__cause__ = ValueError("because")
    assert "keyword only" in "".join(traceback.format_exception(again))
    assert "keyword only" in repr(again)
    assert bool(again)


def test_x3_a_class_that_refuses_subclasses_is_caught_by_its_base() -> None:
    again = replay(Plugin())
    assert isinstance(again, RecordedCallError)
    assert str(again).endswith("Plugin: plugin")


def test_x3_a_final_class_is_caught_by_its_base() -> None:
    exc: Any = invalid()
    exc.__notes__ = [threading.Lock()]
    again = replay(exc)
    assert isinstance(again, ValueError)
    assert "ValidationError" in str(again)


def test_x3_a_vanished_class_is_named_and_its_base_still_caught() -> None:
    again = replay(local_error())
    assert isinstance(again, ValueError)
    assert isinstance(again, RecordedCallError)
    assert "local_error.<locals>.Local: local" in str(again)


def test_x3_a_class_of_the_plan_is_found_by_its_name() -> None:
    exc = local_error()
    codec = PayloadCodec({"Local": type(exc)}, "p")
    assert type(replay(exc, codec)) is type(exc)
    exc.lock = threading.Lock()  # type: ignore[attr-defined]
    again = replay(exc, codec)
    assert isinstance(again, type(exc))
    assert isinstance(again, RecordedCallError)


def test_x4_tenacity_retry_error_is_recorded() -> None:
    """Case 4."""
    tenacity = pytest.importorskip("tenacity")

    def call() -> None:
        raise ValueError("down")

    with pytest.raises(tenacity.RetryError) as error:
        tenacity.Retrying(stop=tenacity.stop_after_attempt(2))(call)
    again = replay(error.value)
    assert isinstance(again, tenacity.RetryError)
    assert isinstance(again, RecordedCallError)
    assert isinstance(again.__cause__, ValueError)


def test_x5_a_payload_without_the_marker_is_a_bare_pickle() -> None:
    again = decode_failure(pickle.dumps(ValueError("old")), CODEC)
    assert isinstance(again, ValueError)
    with pytest.raises(UnreadableRecordError, match="not an exception"):
        decode_failure(pickle.dumps(3), CODEC)
    with pytest.raises(UnreadableRecordError, match="slot 7"):
        decode_failure(b"junk", CODEC, "slot 7")


def test_x5_a_pickle_whose_class_has_changed_since_still_replays() -> None:
    class Changing(ValueError):
        pass

    data = encode_failure(Changing("x"), PayloadCodec({"Changing": Changing}, "p"))
    again = decode_failure(data, PayloadCodec({}, "q"))
    assert isinstance(again, ValueError)
    assert isinstance(again, RecordedCallError)
    assert str(again).endswith("Changing: x")


PICKLED: list[object] = [None, 1, "a", b"a", [], {}, ValueError("x"), 1.5, True, 1 << 200]


def test_x1_the_marker_cannot_begin_a_pickle_a_msgpack_or_a_text() -> None:
    first = MARKER[:1]
    assert first.decode("latin-1") not in {opcode.code for opcode in pickletools.opcodes}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for value in PICKLED:
            assert not is_failure(pickle.dumps(value, protocol))
    with pytest.raises(msgspec.DecodeError):
        msgspec.msgpack.decode(MARKER)
    with pytest.raises(UnicodeDecodeError):
        MARKER.decode()


def test_x1_the_structure_of_a_record() -> None:
    exc = raised(TwoArguments(4, "no"))
    exc.__cause__ = raised(KeyError("k"))
    data = encode_failure(exc, CODEC)
    assert data[len(MARKER)] == VERSION
    fields = msgspec.msgpack.decode(data[len(MARKER) + 1 :])
    assert fields["path"] == f"{__name__}.TwoArguments"
    assert fields["message"] == b"4: no"
    assert b"in raised" in fields["traceback"]
    assert fields["attributes"] == {"code": 4, "reason": "no"}
    assert fields["cause"]["path"] == "builtins.KeyError"
    assert "pickled" not in fields
    assert pickle.loads(fields["cause"]["pickled"]).args == ("k",)


def packed(**fields: object) -> bytes:
    return MARKER + bytes([VERSION]) + msgspec.msgpack.encode(fields)


@pytest.mark.parametrize(
    "data",
    [
        MARKER,
        MARKER + bytes([VERSION]),
        MARKER + bytes([VERSION + 1]) + msgspec.msgpack.encode({"path": "a.B", "message": b"x"}),
        packed(),
        packed(path="a.B"),
        packed(path=1, message=b"x"),
        packed(path="a.B", message="text"),
        packed(path="a.B", message=b"x", attributes=[1]),
        packed(path="a.B", message=b"x", cause={"path": 1}),
        packed(path="a.B", message=b"x", attributes={"a": msgspec.msgpack.Ext(99, b"")}),
        packed(path="a.B", message=b"x")[:-1],
        packed(path="a.B", message=b"x") + b"x",
        packed(path="a.B", message=b"\xff\xfe"),
    ],
)
def test_x6_an_unreadable_record_is_an_error_of_its_own_that_names_it(data: bytes) -> None:
    with pytest.raises(UnreadableRecordError, match="slot 3 of run r"):
        decode_failure(data, CODEC, "slot 3 of run r")


def test_x6_unknown_fields_of_a_later_release_are_ignored() -> None:
    again = decode_failure(packed(path="a.B", message=b"x", lineage=["builtins:ValueError"], later=1), CODEC)
    assert isinstance(again, ValueError)
    assert str(again) == "a.B: x"


@pytest.mark.parametrize(
    "exc",
    [HostileText("x"), VeryHostile("x"), NotText("x"), HostileProperties("x")],
    ids=lambda exc: type(exc).__name__,
)
def test_x7_hostile_exceptions_are_recorded(exc: Exception) -> None:
    again = decode_failure(encode_failure(raised(exc), CODEC), CODEC)
    assert isinstance(again, Exception)
    assert isinstance(again, type(exc)) or type(exc).__name__ in str(again)


def test_x7_an_exception_that_is_false_is_a_failure() -> None:
    """Case 6."""
    exc = EmptyLength("x")
    assert not exc
    assert type(replay(exc)) is EmptyLength
    assert isinstance(replay(EmptyLocked()), EmptyLocked)


def test_x7_causes_that_form_a_ring_are_bounded() -> None:
    """Case 7."""
    itself = ValueError("a")
    itself.__cause__ = itself
    assert replay(itself).args == ("a",)
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one
    again = replay(one)
    assert isinstance(again.__cause__, KeyError)
    assert again.__cause__.__cause__ is None


def test_x2_the_cause_chain_is_kept() -> None:
    """Case 8."""
    exc: BaseException = ValueError(0)
    for number in range(1, 6):
        outer: BaseException = TwoArguments(number, "outer") if number % 2 else ValueError(number)
        outer.__cause__ = exc
        exc = outer
    again: BaseException | None = replay(exc)
    kinds = []
    while again is not None:
        kinds.append((isinstance(again, TwoArguments), isinstance(again, ValueError)))
        again = again.__cause__
    assert kinds == [(True, False), (False, True)] * 3


def test_x2_from_none_stays_without_a_cause() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer") from None
    except ValueError as caught:
        again = replay(caught)
    assert again.__cause__ is None
    assert again.__suppress_context__


def test_x7_very_long_chains_are_bounded() -> None:
    exc: BaseException = ValueError(0)
    for number in range(1, 500):
        outer = ValueError(number)
        outer.__cause__ = exc
        exc = outer
    assert isinstance(replay(exc), ValueError)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are of Python 3.11")
def test_x7_groups_are_kept_with_members_notes_and_causes() -> None:
    scope: dict[str, Any] = {"TwoArguments": TwoArguments, "lock": threading.Lock()}
    exec(
        "class Own(ExceptionGroup):\n"
        "    def derive(self, members): return Own(self.message, members)\n"
        "inner = ExceptionGroup('inner', [TwoArguments(4, 'no'), KeyError('k')])\n"
        "inner.exceptions[1].__cause__ = ValueError('why')\n"
        "group = ExceptionGroup('outer', [inner, OSError(2, 'gone')])\n"
        "group.add_note('a note'); group.lock = lock; group.code = 3\n"
        "own = Own('own', [ValueError('x')])\n",
        scope,
    )
    again = replay(scope["group"])
    assert type(again).__name__ == "ExceptionGroup"
    assert again.message == "outer"
    assert again.__notes__ == ["a note"]
    assert again.code == 3
    inner, gone = again.exceptions
    assert gone.errno == 2
    assert isinstance(inner.exceptions[0], TwoArguments)
    assert isinstance(inner.exceptions[1].__cause__, ValueError)
    matched, rest = again.split(KeyError)
    assert matched is not None
    assert rest is not None
    own = replay(scope["own"])
    assert own.message == "own"
    assert type(own.exceptions[0]) is ValueError


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are of Python 3.11")
def test_x7_wide_and_deep_groups_are_bounded() -> None:
    scope: dict[str, Any] = {}
    exec(
        "wide = ExceptionGroup('wide', [ValueError(i) for i in range(1000)])\n"
        "deep = ValueError('x')\n"
        "for i in range(500): deep = ExceptionGroup('deep', [deep])\n"
        "base = BaseExceptionGroup('base', [KeyboardInterrupt(), ValueError('x')])\n",
        scope,
    )
    for name in ("wide", "deep", "base"):
        assert isinstance(decode_failure(encode_failure(scope[name], CODEC), CODEC), Exception)


@pytest.mark.parametrize(
    "exc", [asyncio.CancelledError("gone"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()]
)
def test_case_11_i6_what_is_no_exception_replays_as_one_that_acts_like_a_failure(exc: BaseException) -> None:
    """Case 11: a substitute of CancelledError must not cancel the action."""
    again = replay(exc)
    assert type(again).__mro__[1:3] == (RecordedCallError, RuntimeError)
    assert not isinstance(again, type(exc))
    assert type(exc).__name__ in str(again)


@pytest.mark.parametrize("text", ["x" * 450_000, "\0" * 450_000, "\ud800" * 450_000, "ä😀" * 200_000])
def test_case_35_long_and_broken_texts_are_recorded_within_the_bound(text: str) -> None:
    data = encode_failure(raised(ValueError(text)), CODEC)
    assert len(data) < BOUND
    again = decode_failure(data, CODEC)
    assert isinstance(again, ValueError)
    assert str(again) == f"builtins.ValueError: {text[:MAX_MESSAGE]}"


def test_x1_large_state_is_bounded() -> None:
    exc: Any = TwoArguments(1, "x")
    exc.document = "x" * 1_000_000
    exc.blob = b"x" * 1_000_000
    exc.rows = list(range(1_000_000))
    again = replay(exc)
    assert isinstance(again, TwoArguments)
    assert again.code == 1


def test_x1_deep_recursion_is_recorded() -> None:
    def dive(n: int) -> int:
        return dive(n + 1) + 1

    with pytest.raises(RecursionError) as error:
        dive(0)
    assert isinstance(replay(error.value), RecursionError)


def test_errors_of_the_package_replay_as_themselves() -> None:
    assert type(replay(DurableExecutionError("x"))) is DurableExecutionError
    assert isinstance(replay(CallTimeoutError("x")), TimeoutError)


# --- attributes


def test_x3_plain_attributes_keep_their_type() -> None:
    exc = KeywordOnly(code=1)
    kept = {
        "when": datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc), "price": Decimal("1.50"),
        "big": 1 << 99,
        "pair": (1, "a"), "names": {"a", "b"}, "table": {1: {"x": [None, True, 1.5]}}, "raw": b"\xff",
        "lone": "\ud800",
    }  # fmt: skip
    vars(exc).update(kept)
    again = replay(exc)
    assert {name: getattr(again, name) for name in kept} == kept


def test_x3_data_objects_are_readable_and_others_left_out() -> None:
    exc: Any = KeywordOnly(code=1)
    exc.order = Order(count=3)
    exc.lock = threading.Lock()
    again = replay(exc)
    assert again.order.count == 3
    assert not hasattr(again, "lock")


def test_x8_an_exception_in_an_attribute_is_searched_as_well() -> None:
    """Its arguments too, which are not among its attributes."""
    exc: Any = ValueError("x")
    exc.details = {"error": OSError("failed", {"api_key": "planted-0123456"})}
    data = encode_failure(raised(exc), CODEC)
    assert b"planted" not in data
    assert isinstance(decode_failure(data, CODEC), ValueError)


def test_x3_urllib_errors_replay_with_code_and_headers() -> None:
    headers = HTTPMessage()
    headers["Retry-After"] = "5"
    headers["Set-Cookie"] = "session=planted-cookie-value"
    exc = urllib.error.HTTPError("http://h/?token=planted-token", 503, "busy", headers, None)
    data = encode_failure(raised(exc), CODEC)
    assert b"planted" not in data
    again: Any = decode_failure(data, CODEC)
    assert isinstance(again, urllib.error.HTTPError)
    assert again.code == 503
    assert again.headers["retry-after"] == "5"


def test_timing_bound_of_a_record() -> None:
    """Not a benchmark: recording must not explode with the state of an exception."""
    exc: Any = ValueError("x")
    exc.rows = [{"id": i, "text": "x" * 20} for i in range(100_000)]
    assert len(encode_failure(raised(exc), CODEC)) < BOUND


# --- anything at all

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary(max_size=9)
    | st.text(st.characters(exclude_categories=()), max_size=9) | st.dates() | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3)
    | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
ATTRIBUTES = st.dictionaries(st.from_regex("[b-e]{1,3}", fullmatch=True), PLAIN, max_size=3)


@given(st.lists(PLAIN, max_size=3), ATTRIBUTES)
def test_x2_any_plain_state_comes_back(args: list[Any], attributes: dict[str, Any]) -> None:
    exc = ValueError(*args)
    vars(exc).update(attributes)
    again = decode_failure(encode_failure(exc, CODEC), CODEC)
    assert type(again) is ValueError
    assert (list(again.args), vars(again)) == (args, attributes)


@given(st.lists(PLAIN, max_size=3), ATTRIBUTES)
def test_x3_any_plain_state_is_readable_on_a_substitute(args: list[Any], attributes: dict[str, Any]) -> None:
    exc = BadReduce(*args)
    vars(exc).update(attributes)
    again = decode_failure(encode_failure(exc, CODEC), CODEC)
    assert isinstance(again, BadReduce)
    assert list(again.args) == args
    assert {name: getattr(again, name) for name in attributes} == attributes


SAMPLE = encode_failure(raised(Locked(errno.EAGAIN, "busy")), CODEC)


@given(st.integers(len(MARKER), len(SAMPLE) - 1), st.integers(0, 255))
def test_x6_a_damaged_record_is_read_or_refused_but_nothing_else(position: int, byte: int) -> None:
    damaged = bytearray(SAMPLE)
    damaged[position] = byte
    try:
        again = decode_failure(bytes(damaged), CODEC)
    except UnreadableRecordError:
        return
    assert isinstance(again, BaseException)


@given(st.binary(max_size=60))
def test_x6_any_bytes_behind_the_marker_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(UnreadableRecordError):
        decode_failure(MARKER + bytes([VERSION]) + data, CODEC)
