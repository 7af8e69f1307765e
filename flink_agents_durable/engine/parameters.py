"""Parameters of the functions that durable calls take, which are asked for at each call.

`inspect.signature` takes as long as half a call. Of a plain function without attributes, which nothing can have
given another signature, its code says the same.
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Any


def has_parameter(func: Any, name: str) -> bool:
    """Whether a function has a parameter of this name that is not bound already."""
    if type(func) is FunctionType and not func.__dict__:
        code = func.__code__
        return name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if isinstance(func, functools.partial):
        return False
    try:
        return name in inspect.signature(func).parameters
    except (TypeError, ValueError):
        return False


def needs_arguments(func: Any) -> bool:
    """Whether a function cannot be called without arguments; False if it does not say."""
    if type(func) is FunctionType and not func.__dict__:
        code, defaults = func.__code__, func.__kwdefaults__
        given = len(func.__defaults__ or ())
        return code.co_argcount > given or code.co_kwonlyargcount > len(defaults or ())
    try:
        inspect.signature(func).bind()
    except TypeError:
        return True
    except ValueError:
        pass
    return False
