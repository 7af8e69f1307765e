"""Who is called: the function id of a call, and what joins its arguments' digest.

The id is the path of the function. What the path leaves open (the instance behind a bound method, the
variables of a closure, the bound arguments of a partial) joins the digest, so that two models called through
one method are two calls (D3).
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from flink_agents_durable.engine.canonical import durable_id_of, object_state
from flink_agents_durable.engine.digest import digest, digest_call
from flink_agents_durable.engine.identity_cache import IdentityCache

_LAMBDA = "<lambda>"
# Bounds the walk through partials and wrappers that contain themselves.
_MAX_NESTING = 32

_ids: IdentityCache[str] = IdentityCache()
_closures: IdentityCache[bytes] = IdentityCache()
_receivers: IdentityCache[bytes] = IdentityCache()
_NOTHING = b""  # bound, but nothing of it tells anything apart


def function_id(func: object) -> str:
    """A text that names a callable in every process. Keeps D3. Never raises."""
    if type(func) is FunctionType:
        known = _ids.get(func)
        return known if known is not None else _remember_id(func)
    try:
        return _id_of_other(func, 0)
    except Exception:
        return _class_path(type(func))


def identify(
    func: Callable[..., object],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    durable_id: str | None = None,
) -> tuple[str, bytes | None]:
    """Function id and digest of a call, taken before it runs. Keeps D1, D2 and D3. Never raises.

    A `durable_id` given with the call stands for the function and everything that is bound to it, except
    the arguments of a partial. The digest is None when an argument has no canonical form.
    """
    if type(func) is FunctionType and func.__closure__ is None:
        if durable_id is None:
            known = _ids.get(func)
            if known is not None:
                return known, digest_call(args, kwargs)
        return durable_id or function_id(func), digest_call(args, kwargs)
    try:
        if type(func) is types.MethodType and not durable_id:
            return _identify_method(func, args, kwargs)
        target, args, kwargs = _unwrap_partial(func, args, kwargs)
        bound = _NOTHING if durable_id else _bound_state(target)
    except Exception:
        return durable_id or function_id(func), None
    return durable_id or function_id(target), digest_call((bound, *args) if bound else args, kwargs)


def _identify_method(
    func: types.MethodType, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[str, bytes | None]:
    """The common case of a method of an instance, with one look for a `durable_id`."""
    receiver = func.__self__
    identity = durable_id_of(receiver)
    if identity is not None:
        return f"{identity}.{_method_name(func)}", digest_call(args, kwargs)
    bound = _NOTHING if isinstance(receiver, type) else _receiver_state(receiver)
    return _path_of_method(func), digest_call((bound, *args) if bound else args, kwargs)


def _unwrap_partial(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]]:
    """`partial(f, 1)(2)` is the call `f(1, 2)`."""
    for _ in range(_MAX_NESTING):
        if not isinstance(func, functools.partial):
            break
        args = (*func.args, *args)
        kwargs = {**func.keywords, **kwargs}
        func = func.func
    return func, args, kwargs


# --- ids


def _remember_id(func: FunctionType) -> str:
    try:
        identity = f"{func.__module__}.{func.__qualname__}"
        if func.__code__.co_name == _LAMBDA:
            identity = f"{identity}#{_code_digest(func)}"
        _ids.put(func, identity)
    except Exception:
        return "function"
    return identity


def _code_digest(func: FunctionType) -> str:
    """What tells two lambdas of one scope apart (case 16). No line numbers: moving one changes nothing."""
    content = (_code_content(func.__code__), func.__defaults__, func.__kwdefaults__)
    return (digest(content) or digest(content[0]) or b"").hex()


def _code_content(code: types.CodeType) -> list[Any]:
    constants = [_code_content(part) if isinstance(part, types.CodeType) else _constant(part)
                 for part in code.co_consts]  # fmt: skip
    return [code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants]


def _constant(constant: object) -> object:
    """A constant of a code object; Ellipsis is the only one without a canonical form."""
    return repr(constant) if constant is ... else constant


def _id_of_other(func: Any, depth: int) -> str:
    if depth > _MAX_NESTING:
        return _class_path(type(func))
    if isinstance(func, functools.partial):
        return _id_of_other(func.func, depth + 1)
    if type(func) is FunctionType:
        return function_id(func)
    if isinstance(func, type):
        return _class_path(func)
    if isinstance(func, types.MethodType):
        return _id_of_method(func)
    if isinstance(func, types.BuiltinFunctionType):
        return _id_of_builtin(func)
    identity = durable_id_of(func)
    if identity is not None:
        return f"{identity}.__call__"
    return _id_of_callable(func)


def _id_of_method(func: types.MethodType) -> str:
    identity = durable_id_of(func.__self__)
    return f"{identity}.{_method_name(func)}" if identity is not None else _path_of_method(func)


def _method_name(func: types.MethodType) -> str:
    name = getattr(func.__func__, "__name__", None)
    return name if isinstance(name, str) else "__call__"


def _path_of_method(func: types.MethodType) -> str:
    """By the receiver's class, not the one that defines the method: subclasses are told apart by it alone."""
    receiver = func.__self__
    return f"{_class_path(receiver if isinstance(receiver, type) else type(receiver))}.{_method_name(func)}"


def _id_of_builtin(func: types.BuiltinFunctionType) -> str:
    receiver = func.__self__
    if receiver is None or isinstance(receiver, types.ModuleType):
        return f"{func.__module__ or 'builtins'}.{func.__qualname__}"
    identity = durable_id_of(receiver)
    if identity is not None:
        return f"{identity}.{func.__name__}"
    return f"{_class_path(receiver if isinstance(receiver, type) else type(receiver))}.{func.__name__}"


def _id_of_callable(func: Any) -> str:
    """Method descriptors, ufuncs, wrappers of extension modules, and instances with `__call__`."""
    name = getattr(func, "__qualname__", None) or getattr(func, "__name__", None)
    owner = getattr(func, "__objclass__", None)
    if isinstance(name, str) and isinstance(owner, type):
        return f"{owner.__module__}.{name}"
    module = getattr(func, "__module__", None)
    if isinstance(name, str) and isinstance(module, str):
        return f"{module}.{name}"
    return f"{_class_path(type(func))}.__call__"


def _class_path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


# --- what is bound


def _bound_state(func: Any) -> bytes:
    """The digest of what is bound to a callable, beside the arguments of a partial; empty: nothing is."""
    if type(func) is FunctionType:
        return _closure_state(func) if func.__closure__ else _NOTHING
    if isinstance(func, (types.MethodType, types.BuiltinFunctionType)):
        receiver = func.__self__
        if receiver is None or isinstance(receiver, (types.ModuleType, type)):
            return _NOTHING
        return _NOTHING if durable_id_of(receiver) is not None else _receiver_state(receiver)
    if isinstance(func, type) or getattr(func, "__objclass__", None) is not None:
        return _NOTHING
    if isinstance(getattr(func, "__name__", None), str) or durable_id_of(func) is not None:
        return _NOTHING
    return _receiver_state(func)


def _receiver_state(receiver: object) -> bytes:
    """The state of an instance when it was first called through.

    Taken once an instance: a counter or a cache that the method keeps in it must not make the second call
    another one on replay, when the first one did not run (D2).
    """
    state = _receivers.get(receiver)
    if state is None:
        try:
            state = digest(_describe(receiver)) or _NOTHING
        except Exception:
            state = _NOTHING  # its properties raise
        _receivers.put(receiver, state)
    return state


def _describe(receiver: Any) -> object:
    """The canonical state of a receiver. A part without a canonical form, such as a client, is left out."""
    form = digest(receiver)
    if form is not None:
        return form
    state = object_state(receiver)
    if state is None:
        state = _attributes(receiver)
        # Public attributes configure; the private ones are often clients, caches and tokens of one process.
        state = {name: value for name, value in state.items() if name[:1] != "_"} or state
    parts = {name: digest(value) for name, value in state.items() if value is not None}
    return {name: part for name, part in parts.items() if part is not None}


def _attributes(instance: Any) -> dict[str, Any]:
    state = dict(getattr(instance, "__dict__", None) or {})
    for cls in type(instance).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if name not in ("__dict__", "__weakref__") and hasattr(instance, name):
                state[name] = getattr(instance, name)
    return state


def _closure_state(func: FunctionType) -> bytes:
    """The variables of a closure when it was first called, without those that it rebinds itself."""
    remembered = _closures.get(func)
    if remembered is not None:
        return remembered
    rebound = _rebound_variables(func.__code__)
    cells = zip(func.__code__.co_freevars, func.__closure__ or (), strict=False)
    state = {name: _cell_content(cell) for name, cell in cells if name not in rebound}
    known = {name: content for name, content in state.items() if content is not None}
    result = (digest(known) if known else None) or _NOTHING
    _closures.put(func, result)
    return result


@functools.lru_cache(maxsize=1024)
def _rebound_variables(code: types.CodeType) -> frozenset[str]:
    stored = (step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF")
    return frozenset(name for name in stored if name in code.co_freevars)


def _cell_content(cell: types.CellType) -> object:
    """Functions by their id, constants by value; lists, dicts and objects are left out, for they change."""
    try:
        content = cell.cell_contents
    except ValueError:
        return None  # not assigned yet
    if type(content) is FunctionType:
        return ["function", function_id(content)]
    identity = durable_id_of(content) if not isinstance(content, type) else None
    if identity is not None:
        return ["id", identity]
    if isinstance(content, (str, int, float, bytes, tuple, frozenset, type)):
        return digest(content)
    return None
