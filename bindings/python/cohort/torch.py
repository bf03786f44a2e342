# SPDX-License-Identifier: Apache-2.0
"""PyTorch: the backend "cohort" of torch.distributed, ranks on threads, and gradients.

If this package is installed, a program can use the backend without importing the package::

    torch.distributed.init_process_group("cohort")

run() runs a program with a thread for each rank, in one process.  Gradients averages the
gradients of a module without DistributedDataParallel, and also works with older versions of
PyTorch.
"""

from typing import Any, Callable, List

from ._gradients import Gradients

try:
    from ._torch_run import register, run
    from ._torch_work import CohortBackendError
except ImportError as error:
    _WHY_NOT = str(error)

    def register() -> None:
        """Raise ImportError, because this version of PyTorch accepts no backends in Python."""
        raise ImportError(_WHY_NOT)

    def run(fn: Callable[..., Any], ranks: int, *arguments: Any, timeout: float = 1800.0
            ) -> List[Any]:
        """Raise ImportError, because this version of PyTorch accepts no backends in Python."""
        raise ImportError(_WHY_NOT)

__all__ = ["CohortBackendError", "Gradients", "register", "run"]
