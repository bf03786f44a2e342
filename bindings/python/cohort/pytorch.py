# SPDX-License-Identifier: Apache-2.0
"""PyTorch's gradients, averaged while its backward pass goes on.

A worker of a run, whose module and optimiser are its own::

    with Gradients(comm, module) as gradients:
        gradients.broadcast()                  # rank 0's parameters for all
        for inputs, labels in batches:
            optimizer.zero_grad()
            with gradients.step() as step:
                loss(module(inputs), labels).backward()
            if step.ok:
                optimizer.step()
"""

import contextlib
import dataclasses
import sys
from types import TracebackType
from typing import Any, Callable, Iterator, List, Optional, Type

from ._abi import Status
from ._arrays import stream_of
from ._comm import Comm
from ._library import failure
from ._rank import Stream
from ._reducer import Parameter, Reducer, ReducerOptions, Step, checked


class Gradients:
    """A reducer whose gradients are those of a module.

    comm is the rank's communicator, module a torch.nn.Module on its device that is alike
    on all ranks.  Each parameter that requires a gradient gets one, in memory that stays;
    whatever becomes of .grad, for example by zero_grad(set_to_none=True), the hooks copy
    into it.  As soon as autograd has a gradient, in whatever thread, it is ready.  A step
    is around one backward pass: another in it raises StateError, and so does one outside
    of a step.  Passes whose gradients only add up come before it, each between
    reducer.accumulate() and reducer.finish().  All else is as for Reducer.

    On a GPU, autograd runs the backward pass on a thread of its own, one for each device,
    while the rank's thread waits.  That thread launches the buckets (helpers_launch): the
    rank's could do so only after the pass.  Ranks that share a GPU also share that thread,
    and must not wait for each other there: give them options with helpers_launch=False.
    """

    def __init__(self, comm: Comm, module: Any, options: Optional[ReducerOptions] = None
                 ) -> None:
        named = [(name, parameter) for name, parameter in module.named_parameters()
                 if parameter.requires_grad]
        options = checked(options)
        self._gpu = next((one.device for _, one in named if one.is_cuda), None)
        self._stream: Any = None  # of the open step
        if options.helpers_launch is None:
            options = dataclasses.replace(options, helpers_launch=self._gpu is not None)
        self._comm = comm
        self._module = module
        self.parameters: List[Any] = [parameter for _, parameter in named]
        self._views = [parameter.detach().new_zeros(parameter.shape)
                       for parameter in self.parameters]
        self.reducer = Reducer(comm, [Parameter(name, view) for (name, _), view in
                                      zip(named, self._views)], options)
        self._hooks: List[Any] = []
        for i, (parameter, view) in enumerate(zip(self.parameters, self._views)):
            parameter.grad = view
            self._hooks.append(_hook(parameter, self._ready(i, named[i][0])))

    def _ready(self, i: int, name: str) -> Callable[[], None]:
        parameter, view, reducer = self.parameters[i], self._views[i], self.reducer

        def ready() -> None:
            if parameter.grad is not view:
                view.copy_(parameter.grad.detach())
                parameter.grad = view
            if self._stream is not None:
                self._join(view.device)
            # In a pass of accumulate() there may be many.
            if not reducer.ready(i) and reducer._open:
                raise failure(Status.STATE, text=(
                    f"parameter {name!r} has got a second gradient in a step, which is around "
                    "one backward pass: those before it are for Reducer.accumulate()"))
        return ready

    def broadcast(self, root: int = 0) -> None:
        """Every rank gets the parameters of rank root, also those without a gradient, and
        waits for them.  The module's buffers are not among them."""
        self._comm.broadcast_many([parameter.detach() for parameter in
                                   self._module.parameters()], root=root).wait()

    @contextlib.contextmanager
    def step(self, stream: Stream = None, *, weight: Optional[float] = None
             ) -> Iterator[Step]:
        """A step, around one backward pass (Reducer.step()).

        stream is where the backward pass runs; None is PyTorch's current stream of the
        module's device."""
        if self._gpu is not None:
            torch: Any = sys.modules["torch"]
            stream = self._stream = (
                torch.cuda.current_stream(self._gpu) if stream is None
                else torch.cuda.ExternalStream(stream_of(stream, 0), self._gpu))
        try:
            with self.reducer.step(stream, weight=weight) as step:
                yield step
        finally:
            self._stream = None

    def _join(self, device: Any) -> None:
        """Have the step's stream wait for the current one, on which autograd has computed a
        gradient: that of the parameter's first use, which may be another."""
        current = sys.modules["torch"].cuda.current_stream(device)
        if current != self._stream:
            self._stream.wait_stream(current)

    def free(self) -> None:
        """Take the hooks off and free the reducer; the module keeps its gradients."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self.reducer.free()

    def __enter__(self) -> "Gradients":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self.reducer.__exit__(kind, error, trace)


class _NodeHook:
    """A hook on the node that accumulates a gradient, which lives as long as this."""

    def __init__(self, node: Any, hook: Any) -> None:
        self.node = node
        self._hook = hook

    def remove(self) -> None:
        """Take it off."""
        self._hook.remove()


def _hook(parameter: Any, ready: Callable[[], None]) -> Any:
    """Call ready() whenever autograd has accumulated into parameter.grad."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # since 2.1
        return parameter.register_post_accumulate_grad_hook(lambda _: ready())
    # The node is reached through a graph that uses the parameter.
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return _NodeHook(node, node.register_hook(lambda *_: ready()))
