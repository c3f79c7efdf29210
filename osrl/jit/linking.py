"""How one kernel calls another: its code is linked in, and optimised once, with the kernel that Python calls.

Left to itself, Numba makes machine code with an entry for Python of every function, also of those that only
other compiled functions call, and then links and optimises it once more in each of them: with some hundred
kernels in layers that takes more than twice as long. Here a kernel is compiled to machine code only when
Python calls it. For other kernels there is a twin that is translated, and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering
from numba.extending import overload

OLDEST = (0, 63)  # the first version of Numba whose internals are those that this module uses

if tuple(map(int, numba.__version__.split(".")[:2])) < OLDEST:
    oldest = ".".join(map(str, OLDEST))
    raise ImportError(f"Numba {numba.__version__} is too old; install {oldest} or newer: pip install -U numba")


class LinkedLibrary(JITCodeLibrary):
    """Translated code, and that of all it calls, which is neither optimised nor turned into machine code."""

    def _optimize_functions(self, module: Any) -> None:
        """Simplify the functions of a module before it is linked, other than mere declarations."""
        module.data_layout = self._codegen._data_layout
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager()  # type: ignore[no-untyped-call]
                passes.run(function, builder)

    def finalize(self) -> None:
        """Gather the code of what is called."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._final_module.verify()
        self._finalized = True


_LIBRARY: Any = LinkedLibrary
_PASSES: Any = DefaultPassBuilder


@register_pass(mutates_CFG=False, analysis_only=True)  # type: ignore[no-untyped-call]
class OfferForLinking(LoweringPass):
    """Makes translated code known to the compiler, under an entry that nobody calls."""

    _name = "offer_for_linking"

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def run_pass(self, state: Any) -> bool:
        """Add the code to what other functions can call."""
        if not state.flags.nrt and _holds_arrays(state.return_type):
            name = state.func_id.func_qualname
            raise numba.errors.TypingError(
                f"{name} is declared with kernel_in_place, and returns an array to which no reference is "
                "counted: declare it with kernel, or let it write to an array that it is given"
            )
        lowered, library = state["cr"], state.library
        described = lowered.fndesc
        words = "to be linked in, not to be called"
        entry = _dynfunc.make_function(described.lookup_module(), described.qualname, words, 0, lowered.env, (library,))
        state.targetctx.insert_user_function(entry, described, [library])
        state["cr"] = _LowerResult(described, lowered.call_helper, cfunc=entry, env=lowered.env)
        return False


def _holds_arrays(kind: Any) -> bool:
    """Whether values of this type are arrays, or tuples with some among them."""
    members: Any = getattr(kind, "types", ())
    return isinstance(kind, numba.types.Array) or any(map(_holds_arrays, members))


class Linked(CompilerBase):
    """Numba's compiler, up to the code that is linked into callers."""

    def define_pipelines(self) -> list[Any]:
        """The usual passes, without machine code at their end."""
        state = self.state
        state.flags.no_compile = True
        if state.library is None:
            state.library = _LIBRARY(state.targetctx.codegen(), state.func_id.func_qualname)
        passes = _PASSES.define_nopython_pipeline(state)
        passes.add_pass_after(OfferForLinking, NativeLowering)
        passes.finalize()
        return [passes]


# Options of Numba for a function that is only linked in.
LINKED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": Linked}


def link_into_callers(kernel: Any, function: Callable[..., Any], options: dict[str, Any]) -> None:
    """Let what calls ``kernel`` from compiled code link in ``function``.

    Constants count by their types: a kernel is not compiled once for each value that it is called with.
    """

    @cache
    def twin() -> Any:
        return numba.njit(**options, **LINKED)(function)

    kind_of: Any = numba.types.unliteral

    def get_call_template(args: Any, kws: Any) -> Any:
        known = tuple(map(kind_of, args)), {name: kind_of(kind) for name, kind in kws.items()}
        return twin().get_call_template(*known)

    kernel.get_call_template = get_call_template
    kernel.get_overload = lambda signature: twin().get_overload(signature)


def overload_in_place(function: Callable[..., Any], make: Callable[..., Any]) -> None:
    """Let compiled code that calls ``function`` link in what ``make`` makes for its types."""
    in_place: Any = {"nogil": True, "error_model": "numpy", "_nrt": False, **LINKED}
    in_place["forceinline"] = True  # a state is hundreds of values, which a call would copy
    overload(function, jit_options=in_place, strict=False)(make)


def is_pointer(kind: Any) -> bool:
    """Whether values of this type are pointers to functions."""
    return isinstance(kind, numba.types.FunctionType)
