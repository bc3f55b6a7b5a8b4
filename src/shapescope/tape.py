"""A device graph in software: what `torch.cuda.CUDAGraph` is to a GPU, a tape is to a CPU.

While a capture runs, a dispatch mode notes each ATen call with its real tensors; a replay issues the same calls into the
same memory. So the semantics are those of a device graph: fixed addresses, fixed shapes, static outputs, no Python of the
model, errors on ops whose result the host must read. Unlike a device, the CPU does execute while it captures.

Invariant: inside the mode calls are only appended. The tape is built afterwards, so that a profiler that records Python
stacks sees the captured ops and none of this file's work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.distributed import ProcessGroup
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from shapescope.errors import CaptureError
from shapescope.store.spans import COPY_BACK_SPAN

_aten = torch.ops.aten
_HOST_READS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
# Subclasses that desugar to local ops: the mode steps aside and sees those.
_DESUGARED = (DTensor, AsyncCollectiveTensor)
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_ALLOCATES_ONLY = frozenset(
    {_aten.empty, _aten.empty_strided, _aten.empty_like, _aten.new_empty, _aten.new_empty_strided, _aten.lift_fresh}
)

_SCRIPTED_GROUP = "__torch__.torch.classes.c10d.ProcessGroup"
_SCRIPTED_WORK = "__torch__.torch.classes.c10d.Work"

_TENSOR_OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory"})


# function, args, kwargs, result: a plain tuple, since making anything else is one more call in a profile.
_Call = tuple[torch._ops.OpOverload, tuple[Any, ...], dict[str, Any], Any]


class Launch(NamedTuple):
    """One call that a replay issues. `kernel` is the captured op's name, which the CPU's profiler shows too."""

    kernel: str
    run: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class TapeGraph:
    """Capture once, replay many times. Like a CUDA graph it keeps every tensor of the capture alive."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._launches: list[Launch] | None = None

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Note every op called in the body. Raises CaptureError at an op that a graph cannot hold."""
        with torch.no_grad(), _Notes(self._calls):
            yield

    @property
    def launches(self) -> Sequence[Launch]:
        """What a replay issues, built from the noted calls when first asked for."""
        if self._launches is None:
            self._launches = [launch for call in self._calls if (launch := _launch(call)) is not None]
        return self._launches

    def replay(self) -> None:
        with torch.no_grad():
            for _, run, args, kwargs in self._launches or self.launches:
                run(*args, **kwargs)

    def reset(self) -> None:
        """Let go of the captured tensors."""
        self._calls.clear()
        self._launches = None

    def allocated_bytes(self) -> int:
        """What the results of the captured ops occupy, each storage once."""
        storages = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
            for call in self._calls
            for tensor in _tensors(call[3])
        }
        return sum(storages.values())


class _Notes(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch's own __init_subclass__
    def __init__(self, calls: list[_Call]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls = calls

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch would wrap the method below in nine calls, each of which a profile with stacks shows for every op."""
        return False

    def __torch_dispatch__(
        self,
        function: torch._ops.OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        # A profiler that records stacks sees every call made here, so for a plain op there is one: the op itself.
        if types and _desugars(types):
            return NotImplemented
        plain = id(function) in _PLAIN_OPS
        if not plain:
            _refuse_host_reads(function, args)
        result = function._op(*args, **kwargs) if kwargs else function._op(*args)
        call = function, args, kwargs or {}, result
        self._calls += (call if plain else _without_scripted(call),)
        return result


# Ids of ops known to be captured as they are, whatever their arguments; ops live as long as the process.
_PLAIN_OPS: set[int] = set()


def _desugars(types: Sequence[type]) -> bool:
    return any(issubclass(kind, _DESUGARED) for kind in types)


def _refuse_host_reads(function: torch._ops.OpOverload, args: tuple[Any, ...]) -> None:
    if any(tag in function.tags for tag in _HOST_READS):
        if not _by_position(function, args):
            raise CaptureError(f"{function} cannot be captured: the host must read its result")
    elif function.namespace != "c10d":
        _PLAIN_OPS.add(id(function))


def _by_position(function: torch._ops.OpOverload, args: tuple[Any, ...]) -> bool:
    """`index` needs the host only for masks: with positions the result's shape is theirs."""
    masks = (torch.bool, torch.uint8)
    return function is _aten.index.Tensor and not any(tensor.dtype in masks for tensor in _tensors(args[1]))


def _without_scripted(call: _Call) -> _Call:
    """The call with its process group as Python's own object, and without the Work that it returned.

    Invariant: a tape keeps no scripted process group. The last reference to one, when freed, joins gloo's threads under
    the interpreter's lock, and such a thread may be waiting for that lock to free a tensor; Python's object lets it go.
    """
    function, args, kwargs, result = call
    if function.namespace != "c10d":
        return call
    return function, *tree_map_only(torch.ScriptObject, _unscripted, (args, kwargs, result))


def _unscripted(given: torch.ScriptObject) -> torch.ScriptObject | ProcessGroup | None:
    kind = str(given._type())
    if kind == _SCRIPTED_GROUP:
        return ProcessGroup.unbox(given)
    return None if kind == _SCRIPTED_WORK else given


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _launch(call: _Call) -> Launch | None:
    """What a replay must do for one call; None where it launches nothing."""
    function, args, kwargs, result = call
    name = function._schema.name
    if any(type(tensor) not in _PLAIN for tensor in _tensors((args, kwargs, result))):
        return None  # a subclass's own bookkeeping; its local ops are noted beside it
    if function.namespace == "c10d":
        return Launch(name, _waiting(function), args, kwargs)
    if _mutates(function):
        return Launch(name, function, args, kwargs)
    outputs = _tensors(result)
    if not outputs or function.overloadpacket in _ALLOCATES_ONLY or _only_views(function, args, kwargs, outputs):
        return None
    into = _out_overload(function)
    if into is not None and len(into.names) == len(outputs):
        taken = {label: value for label, value in kwargs.items() if label not in into.dropped}
        return Launch(name, into.function, args, {**taken, **dict(zip(into.names, outputs, strict=True))})
    return Launch(name, _copying(function, outputs), args, kwargs)


@cache
def _mutates(function: torch._ops.OpOverload) -> bool:
    return any(a.alias_info is not None and a.alias_info.is_write for a in function._schema.arguments)


def _only_views(
    function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: list[torch.Tensor]
) -> bool:
    """Whether an op that mutates nothing hands out memory of its inputs; some, as `_unsafe_view`, do not declare it."""
    if any(r.alias_info is not None for r in function._schema.returns):
        return True
    inputs = {tensor.untyped_storage().data_ptr() for tensor in _tensors((args, kwargs))}
    return all(output.numel() and output.untyped_storage().data_ptr() in inputs for output in outputs)


class _Into(NamedTuple):
    function: torch._ops.OpOverload
    names: list[str]

    dropped: frozenset[str]


@cache
def _out_overload(function: torch._ops.OpOverload) -> _Into | None:
    """The overload of the same op that writes into given tensors, if it takes the same arguments otherwise.

    A given tensor has its type and place already: an overload may lack the arguments that choose them.
    """
    schema = function._schema
    wanted = {a.name: str(a.type) for a in schema.arguments}
    for name in function.overloadpacket.overloads():
        candidate = getattr(function.overloadpacket, name)
        arguments = candidate._schema.arguments
        outs = [a.name for a in arguments if a.is_out]
        taken = {a.name: str(a.type) for a in arguments if not a.is_out}
        dropped = frozenset(wanted) - frozenset(taken)
        if (
            outs
            and len(outs) == len(schema.returns)
            and dropped <= _TENSOR_OPTIONS
            and taken == {name: kind for name, kind in wanted.items() if name not in dropped}
        ):
            return _Into(candidate, outs, dropped)
    return None


def _waiting(function: torch._ops.OpOverload) -> Callable[..., None]:
    """c10d's ops mutate their list arguments without declaring it and return a Work: a replay waits for it."""

    def run(*args: Any, **kwargs: Any) -> None:
        result = function(*tree_map_only(ProcessGroup, ProcessGroup.boxed, args), **kwargs)
        work = result[-1] if isinstance(result, (tuple, list)) else result
        if hasattr(work, "wait"):
            work.wait()

    return run


def _copying(function: torch._ops.OpOverload, outputs: list[torch.Tensor]) -> Callable[..., None]:
    """Run an op that has no out overload, then copy its result to where the capture left it.

    The copy is the tape's own work, not the model's: a span tells a reader so.
    """
    asynchronous = function.namespace == "_c10d_functional"

    def run(*args: Any, **kwargs: Any) -> None:
        results = _tensors(function(*args, **kwargs))
        with torch.profiler.record_function(COPY_BACK_SPAN):
            for output, result in zip(outputs, results, strict=True):
                output.copy_(torch.ops._c10d_functional.wait_tensor(result) if asynchronous else result)

    return run
