# SPDX-License-Identifier: Apache-2.0
"""Average PyTorch gradients while the backward pass is still running.

Use it in a worker of Group.run(), which creates its own module and optimizer::

    with Gradients(comm, module) as gradients:
        gradients.broadcast()                  # copy rank 0's parameters to all ranks
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
    """A reducer for the gradients of a PyTorch module.

    comm is the rank's communicator.  module is a torch.nn.Module on the rank's device, with
    the same parameters on all ranks.  Each parameter that requires a gradient gets a buffer
    that lasts as long as this object; a hook copies .grad into the buffer even if the program
    replaces .grad, for example by zero_grad(set_to_none=True).  A gradient is ready as soon
    as autograd has computed it, on any thread.  A step covers exactly one backward pass: a
    second pass in the step, or a pass outside a step, raises StateError.  To accumulate
    gradients over several passes, run each pass but the last between reducer.accumulate() and
    reducer.finish().  Everything else works as in Reducer.

    On a GPU, autograd runs the backward pass on its own thread, one for each device, while
    the rank's thread waits.  That thread launches the buckets (helpers_launch), because the
    rank's thread could do so only after the pass.  Ranks that share a GPU also share that
    thread and must not wait for each other on it: pass options with helpers_launch=False.
    """

    def __init__(self, comm: Comm, module: Any, options: Optional[ReducerOptions] = None
                 ) -> None:
        named = [(name, parameter) for name, parameter in module.named_parameters()
                 if parameter.requires_grad]
        options = checked(options)
        self._gpu = next((one.device for _, one in named if one.is_cuda), None)
        self._stream: Any = None  # stream of the open step
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
            # A pass between accumulate() and finish() may compute a gradient repeatedly.
            if not reducer.ready(i) and reducer._open:
                raise failure(Status.STATE, text=(
                    f"parameter {name!r} got a second gradient in one step: a step contains one "
                    "backward pass; for several, call Reducer.accumulate() before the step"))
        return ready

    def broadcast(self, root: int = 0) -> None:
        """Copy the module's parameters from rank root to every rank, and wait.

        This includes parameters that need no gradient, but not the module's buffers."""
        self._comm.broadcast_many([parameter.detach() for parameter in
                                   self._module.parameters()], root=root).wait()

    @contextlib.contextmanager
    def step(self, stream: Stream = None, *, weight: Optional[float] = None
             ) -> Iterator[Step]:
        """Open a step around one backward pass (Reducer.step()).

        stream is the stream on which the backward pass runs; None is PyTorch's current stream
        of the module's device."""
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
        """Make the step's stream wait for the current stream, on which autograd has computed a
        gradient: the stream of the parameter's first use, which may not be the step's."""
        current = sys.modules["torch"].cuda.current_stream(device)
        if current != self._stream:
            self._stream.wait_stream(current)

    def free(self) -> None:
        """Remove the hooks and free the reducer; the module keeps its gradients."""
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
    """A hook on an autograd node, which keeps the node alive, because PyTorch may not."""

    def __init__(self, node: Any, hook: Any) -> None:
        self.node = node
        self._hook = hook

    def remove(self) -> None:
        """Remove the hook."""
        self._hook.remove()


def _hook(parameter: Any, ready: Callable[[], None]) -> Any:
    """Call ready() each time autograd has accumulated into parameter.grad."""
    if hasattr(parameter, "register_post_accumulate_grad_hook"):  # since PyTorch 2.1
        return parameter.register_post_accumulate_grad_hook(lambda _: ready())
    # The accumulating node is reachable only from a graph that uses the parameter.
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
    return _NodeHook(node, node.register_hook(lambda *_: ready()))
