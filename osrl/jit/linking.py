"""Kernels that are linked into the kernels that call them, with Numba's internals.

Left to itself, Numba makes machine code with an entry for Python of every function, also of those that only other
compiled functions call, and then links and optimises it once more in each of them: with some hundred kernels in layers
that takes three times as long. Here a kernel becomes machine code only where Python calls it. For other kernels there
is a twin that is translated to LLVM's language and linked in, to be optimised once. `osrl.jit.backend.is_linked` finds
out whether all this works; only then is it used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numba.experimental.function_type  # the types of pointers
from numba import _dynfunc  # type: ignore[attr-defined]
from numba._dispatcher import compute_fingerprint
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering

from osrl.jit.cache import KernelCache

__all__ = ["compute_fingerprint"]

# Numba makes this at first use, behind a lock that a fork would leave shut; here it is behind ours.
numba.core.registry.cpu_target.target_context  # noqa: B018


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
    """Tell whether values of this type are arrays, or tuples with some among them."""
    members: Any = getattr(kind, "types", ())
    return isinstance(kind, numba.types.Array) or any(map(_holds_arrays, members))


class LinkingCompiler(CompilerBase):
    """Numba's compiler, up to the code that is linked into callers."""

    def define_pipelines(self) -> list[Any]:
        """Return the usual passes, without machine code at their end."""
        state = self.state
        state.flags.no_compile = True
        if state.library is None:
            state.library = _LIBRARY(state.targetctx.codegen(), state.func_id.func_qualname)
        passes = _PASSES.define_nopython_pipeline(state)
        passes.add_pass_after(OfferForLinking, NativeLowering)
        passes.finalize()
        return [passes]


OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
LINKED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": LinkingCompiler}
# For what joins the rules of a policy to a round: a call would copy the state, some hundred values.
INLINED: dict[str, Any] = {**OPTIONS, "_nrt": False, "forceinline": True, **LINKED}


def new_dispatcher(function: Callable[..., Any], counts_references: bool) -> Any:
    """Return Numba's dispatcher of a function; compiled code that calls it links in a twin of the function.

    Constants count by their types: a kernel is not compiled once for each value that it is called with.
    """
    # What is not said here would be taken over from whoever calls it.
    options = {**OPTIONS, "_nrt": counts_references, "forceinline": False}
    kind_of: Any = numba.types.unliteral

    @cache
    def twin() -> Any:
        return numba.njit(**options, **LINKED)(function)

    def get_call_template(args: Any, kws: Any) -> Any:
        known = tuple(map(kind_of, args)), {name: kind_of(kind) for name, kind in kws.items()}
        return twin().get_call_template(*known)

    dispatcher: Any = numba.njit(**options)(function)
    dispatcher.get_call_template = get_call_template
    dispatcher.get_overload = lambda signature: twin().get_overload(signature)
    dispatcher._cache = KernelCache.of(function, options) or dispatcher._cache
    return dispatcher


def new_pointer(function: Callable[..., Any], kinds: tuple[Any, ...]) -> Any:
    """Return a pointer to a function that returns nothing; it has to be compiled."""
    options = {"error_model": "numpy"}
    pointer: Any = CFunc(function, (kinds, numba.types.none), locals={}, options=options)
    pointer._cache = KernelCache.of(function, {**options, "pointer": True}) or pointer._cache
    return pointer
