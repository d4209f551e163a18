"""User code named by dotted path, from modules the administrator allows and from no others."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_BEGAN: Final = time.time()


class NotAllowedError(ValueError):
    """The name is not in an allowed module, or there is no such thing."""


def allowed_object(dotted: str, modules: Sequence[str]) -> Any:
    """The class or function `package.module.Name`; raises `NotAllowedError` with a sentence that says why.

    A module is allowed if it is listed or lies below a listed package. Nothing is imported before that is
    known.
    """
    module_name, _, name = dotted.rpartition(".")
    if not module_name or not all(part.isidentifier() for part in dotted.split(".")):
        raise NotAllowedError(f"{dotted!r} is not a dotted path such as package.module.Name")
    if not any(module_name == allowed or module_name.startswith(f"{allowed}.") for allowed in modules):
        raise NotAllowedError(
            f"{dotted!r} is not in an allowed module; RESURGE_OPERATOR_MODULES allows"
            f" {', '.join(modules) or 'none'}"
        )
    try:
        module = importlib.import_module(module_name)
        if not hasattr(module, name) and _is_newer(module):
            module = importlib.reload(module)
    except Exception as error:  # user code may fail in any way while it is imported
        raise NotAllowedError(
            f"module {module_name!r} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    try:
        return getattr(module, name)
    except AttributeError:
        raise NotAllowedError(f"module {module_name!r} has no {name!r}") from None


def _is_newer(module: ModuleType) -> bool:
    """Whether its file was written since this process began, which may have loaded the one before."""
    try:
        return Path(module.__file__ or "").stat().st_mtime > _BEGAN
    except OSError:
        return False
