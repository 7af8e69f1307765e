"""What stands for a recorded exception that cannot be rebuilt.

A substitute derives from the original class and from RecordedCallError, so that the same `except` clauses
match; the original's constructor is never called. Its text is `"<class path>: <message>"`.
"""

from __future__ import annotations

import builtins
from functools import partial
from typing import TYPE_CHECKING, Any

from flink_agents_durable.api.errors import RecordedCallError
from flink_agents_durable.engine import plain_data
from flink_agents_durable.engine.class_references import find_class

if TYPE_CHECKING:
    from flink_agents_durable.engine.codec import Codec
    from flink_agents_durable.engine.failures import Failure

_RECORD = "_recorded_failure"
_TEXT = "_recorded_text"
_STATIC_TYPE_MASK = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not set for classes written in C with a layout of their own

_Group: Any = getattr(builtins, "BaseExceptionGroup", None)


def record_of(exc: BaseException) -> bytes | None:
    """The record that a substitute stands for; None for every other exception."""
    try:
        record = object.__getattribute__(exc, "__dict__").get(_RECORD)
    except BaseException:
        return None
    return record if isinstance(record, bytes) else None


def build(
    failure: Failure, children: list[BaseException] | None, codec: Codec, record: bytes
) -> BaseException:
    message = failure.message.decode("utf-8", "surrogatepass")
    if children and _Group is not None:
        exc = _group(failure, message, children, codec)
        if exc is not None:
            return exc
    bases = _importable_bases(failure.lineage, codec)
    exc = _new(_substitute_class(bases, codec))
    _fill(exc, failure, f"{failure.path}: {message}", record, codec)
    if children:
        vars(exc)["exceptions"] = tuple(children)
    return exc


def set_member(exc: BaseException, name: str, value: object) -> None:
    """Set what every exception has, past a property of the same name."""
    vars(BaseException)[name].__set__(exc, value)


def _fill(exc: BaseException, failure: Failure, text: str, record: bytes, codec: Codec) -> None:
    find = partial(find_class, codec=codec)
    args = tuple(plain_data.revive(failure.args, find)) if failure.args is not None else (text,)
    set_member(exc, "args", args)
    plain_data.restore_attributes(exc, plain_data.revive(failure.attributes, find))
    state = vars(exc)
    state[_TEXT] = text
    state[_RECORD] = record


# --- classes


class _SubstituteMethods:
    """What a substitute overrides; copied into each class, so that nothing comes before the original."""

    def __str__(self) -> str:
        return str(vars(self).get(_TEXT, ""))

    def __repr__(self) -> str:
        return f"<recorded {self}>"

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        # Also where the original delegates to an object that the record does not hold.
        raise AttributeError(f"the recorded {type(self).__qualname__} has no attribute {name!r}", name=name)

    def __del__(self) -> None:
        """Nothing to release: the constructor never ran."""

    def __reduce__(self) -> Any:
        return _from_record, (vars(self)[_RECORD],)

    def __reduce_ex__(self, _: Any) -> Any:
        return _from_record, (vars(self)[_RECORD],)


_METHODS = {name: method for name, method in vars(_SubstituteMethods).items() if callable(method)}
_FINALIZER = _METHODS.pop("__del__")


def _from_record(record: bytes) -> BaseException:
    """Unpickles a substitute that user code has put into an event or into memory."""
    from flink_agents_durable.engine.failures import decode_failure
    from flink_agents_durable.engine.payload import PayloadCodec

    return decode_failure(record, PayloadCodec())


def _importable_bases(lineage: list[str], codec: Codec) -> list[type]:
    """The most derived classes of the original's lineage that exist here."""
    bases: list[type] = []
    for reference in lineage:
        cls = find_class(reference, codec)
        if cls is not None and issubclass(cls, BaseException) and not any(issubclass(b, cls) for b in bases):
            bases.append(cls)
    return bases


def _substitute_class(bases: list[type], codec: Codec) -> type[BaseException]:
    # A substitute of CancelledError or SystemExit must not act as one: only their text is kept.
    usable = [base for base in bases if issubclass(base, Exception) and not _is_group_class(base)]
    for candidate in ([usable] if len(usable) > 1 else []) + [[base] for base in usable]:
        cls = _derive(tuple(candidate), codec)
        if cls is not None:
            return cls
    for ancestor in [ancestor for base in usable for ancestor in base.__mro__[1:]]:
        cls = _derive((ancestor,), codec) if issubclass(ancestor, Exception) else None
        if cls is not None:
            return cls  # of a final class, such as one of an extension module, the base is caught
    return _derive((), codec) or RecordedCallError


def _is_group_class(cls: type) -> bool:
    return _Group is not None and issubclass(cls, _Group)


def _derive(bases: tuple[type, ...], codec: Codec) -> type[BaseException] | None:
    """The substitute class of these bases, made once a codec; None if Python refuses it."""
    known = codec.substitutes.get(bases)
    if known is not None:
        return known
    chosen = [base for base in bases if not issubclass(RecordedCallError, base)]
    head = bases[0] if bases else RecordedCallError
    namespace: dict[str, Any] = {**_METHODS, "__module__": head.__module__, "__qualname__": head.__qualname__}
    if any(hasattr(base, "__del__") for base in chosen):
        namespace["__del__"] = _FINALIZER
    try:
        meta = type(chosen[0]) if chosen else type
        cls: Any = meta(head.__name__, (*chosen, RecordedCallError), namespace)
        _new(cls)
    except Exception:
        return None
    codec.substitutes[bases] = cls
    return cls  # type: ignore[no-any-return]


def _new(cls: type[BaseException], *args: Any) -> BaseException:
    """An instance without any constructor of user code: by the `__new__` of the class written in C."""
    refusal: Exception | None = None
    for base in cls.__mro__:
        if base.__flags__ & _STATIC_TYPE_MASK or not issubclass(base, BaseException):
            continue
        try:
            new: BaseException = base.__new__(cls, *args)
            return new
        except TypeError as error:
            refusal = error  # another base of the class has the layout
    raise TypeError(f"no instance of {cls.__qualname__} can be made") from refusal


# --- groups


def _group(
    failure: Failure, message: str, children: list[BaseException], codec: Codec
) -> BaseException | None:
    """A group is rebuilt around its rebuilt members, so that `except*` finds them."""
    attributes = plain_data.revive(failure.attributes, partial(find_class, codec=codec))
    text = attributes.get("message", message)
    bases = [base for base in _importable_bases(failure.lineage, codec) if issubclass(base, _Group)]
    for base in [ancestor for found in bases for ancestor in found.__mro__ if issubclass(ancestor, _Group)]:
        try:
            exc: Any = _Group.__new__(base, text if isinstance(text, str) else message, children)
        except Exception:
            continue
        plain_data.restore_attributes(exc, attributes)
        return exc  # type: ignore[no-any-return]
    return None
