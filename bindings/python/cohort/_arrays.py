# SPDX-License-Identifier: Apache-2.0
"""Find the address, element type and device of arrays of other libraries.

The buffer protocol is tried first (NumPy, bytearray, array.array, ctypes), then DLPack
(PyTorch, CuPy, JAX), then __cuda_array_interface__.  While a call is in flight, the package
holds the memoryview or the DLPack capsule.  A memoryview keeps the array from being resized;
a capsule does not, so PyTorch's resize_() can move a tensor that is in use.
"""

import ctypes
import math
import sys
import weakref
from typing import Any, Dict, NamedTuple, Optional, Protocol, Sequence, Tuple, Union

from ._abi import Type
from ._errors import Handle
from ._library import Owned, integer, lib, member

HOST, CUDA, PINNED, MANAGED = 1, 2, 3, 13  # values of DLDeviceType

# Kind of number ("i", "u", "f", "c" or "b") of each buffer-protocol format.
FORMATS = {**dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQN", "u"),
           **dict.fromkeys("efd", "f"), **dict.fromkeys(("Zf", "Zd"), "c"), "?": "b"}
# Element type by kind and bytes per element.  An integer kind is a DLPack DLDataTypeCode.
TYPES: Dict[Tuple[object, int], Type] = {
    ("i", 1): Type.I8, ("u", 1): Type.U8, ("i", 4): Type.I32, ("u", 4): Type.U32,
    ("i", 8): Type.I64, ("u", 8): Type.U64, ("f", 2): Type.F16, ("f", 4): Type.F32,
    ("f", 8): Type.F64, ("b", 1): Type.BOOL, ("i", 2): Type.I16, ("u", 2): Type.U16,
    ("c", 8): Type.C64, ("c", 16): Type.C128,
    (0, 1): Type.I8, (1, 1): Type.U8, (0, 4): Type.I32, (1, 4): Type.U32,
    (0, 8): Type.I64, (1, 8): Type.U64, (2, 2): Type.F16, (2, 4): Type.F32,
    (2, 8): Type.F64, (4, 2): Type.BF16, (10, 1): Type.F8E4M3, (12, 1): Type.F8E5M2,
    (6, 1): Type.BOOL, (0, 2): Type.I16, (1, 2): Type.U16, (5, 8): Type.C64,
    (5, 16): Type.C128,
}
# Type strings for NumPy and CuPy.  Types that they lack appear as unsigned integers.
SPELLINGS = {Type.I8: "|i1", Type.U8: "|u1", Type.I32: "<i4", Type.U32: "<u4",
             Type.I64: "<i8", Type.U64: "<u8", Type.F16: "<f2", Type.F32: "<f4",
             Type.F64: "<f8", Type.BF16: "<u2", Type.F8E4M3: "|u1", Type.F8E5M2: "|u1",
             Type.BOOL: "|b1", Type.I16: "<i2", Type.U16: "<u2", Type.C64: "<c8",
             Type.C128: "<c16"}
SIZES = {kind: int(lib.cohort_type_size(kind)) for kind in Type}
NAMES = {lib.cohort_type_name(kind).decode(): kind for kind in Type}


class Elements(NamedTuple):
    """Location and type of an array's elements."""

    address: int
    count: int  # type: ignore[assignment] # hides tuple.count()
    type: Type
    keep: object  #: object that keeps the memory alive and in place
    place: int  #: DLDeviceType
    device: int  #: device number; -1 if unknown
    stream: Optional[int]  #: stream that computes the elements; None if they need no wait


def type_of(kind: Union[Type, str]) -> Type:
    """Return the element type for a member, number or name ("float32")."""
    try:
        return NAMES[kind] if isinstance(kind, str) else member(Type, kind, "type")
    except (KeyError, TypeError, ValueError):
        raise TypeError(f"type is {kind!r}, not one of {', '.join(NAMES)}") from None


def _wrong_type(what: str, said: object) -> TypeError:
    return TypeError(f"{what} has elements of type {said}; supported types "
                     f"are {', '.join(NAMES)}, in native byte order")


def _not_contiguous(what: str) -> BufferError:
    return BufferError(f"{what} is not contiguous in C order")


def _read_only(what: str) -> BufferError:
    return BufferError(f"{what} is read-only, but the call writes to it")


# ---- the buffer protocol --------------------------------------------------------

class _Buffer(ctypes.Structure):
    """Py_buffer of Python's C API"""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p),
                ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("rest", ctypes.c_void_p * 8)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_Buffer)]
_release_buffer.restype = None


def _address_of(view: memoryview) -> int:
    """Return the address of a buffer, which stays valid while the view is alive."""
    if not view.readonly and view.nbytes:
        return ctypes.addressof(ctypes.c_char.from_buffer(view))
    raw = _Buffer()
    _get_buffer(view, ctypes.byref(raw), 0)
    address = raw.buf or 0
    _release_buffer(ctypes.byref(raw))
    return address


def _of_buffer(view: memoryview, what: str, writable: bool) -> Elements:
    form = view.format
    kind = TYPES.get((FORMATS.get(form.lstrip("@=<"), ""), view.itemsize))
    if kind is None:
        raise _wrong_type(what, f"{form!r} of {view.itemsize} bytes")
    if not view.c_contiguous:
        raise _not_contiguous(what)
    if writable and view.readonly:
        raise _read_only(what)
    return Elements(_address_of(view), view.nbytes // view.itemsize, kind, view, HOST, 0,
                    None)


# ---- DLPack -----------------------------------------------------------------------

class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("place", ctypes.c_int32),
                ("device", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class _DLVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_DL_READ_ONLY = 1
_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer_in.restype = ctypes.c_void_p
_is_capsule = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.argtypes = [ctypes.py_object, ctypes.c_char_p]

# Types whose __dlpack__() does not accept max_version.
_legacy: Dict[type, bool] = {}


def _capsule_of(array: Any, what: str, stream: Optional[int]) -> object:
    """Return the DLPack capsule of an array.

    If stream is not None, the array's library makes that stream wait for the array's own."""
    more = {} if stream is None else {"stream": stream}
    try:
        if not _legacy.get(type(array)):
            try:
                return array.__dlpack__(max_version=(1, 0), **more)
            except TypeError:
                _legacy[type(array)] = True
        return array.__dlpack__(**more)
    except (BufferError, RuntimeError) as error:
        raise BufferError(f"{what}: {error}") from error


def _is_contiguous(tensor: _DLTensor) -> bool:
    if not tensor.strides:
        return True
    step = 1
    for i in reversed(range(tensor.ndim)):
        if tensor.shape[i] != 1 and tensor.strides[i] != step:
            return False
        step *= tensor.shape[i]
    return True


def _torch_stream(array: Any, device: int) -> Optional[int]:
    """Return PyTorch's current stream if the array is a torch.Tensor, else None.

    Making a stream wait for it in C is cheaper than in __dlpack__(), which creates an event
    per call."""
    torch = sys.modules.get("torch")
    # Another thread may be importing torch right now.
    if torch is None or not isinstance(array, getattr(torch, "Tensor", ())):
        return None
    return int(torch.cuda.current_stream(device).cuda_stream)


def _of_dlpack(array: Any, what: str, writable: bool, stream: int, can_wait: bool) -> Elements:
    where = array.__dlpack_device__()
    try:
        place, device = (int(number) for number in where)
    except (TypeError, ValueError):
        raise TypeError(f"{what}: __dlpack_device__() returned {where!r}, not two numbers"
                        ) from None
    if place not in (HOST, CUDA, PINNED, MANAGED):
        raise BufferError(f"{what} is on a device of DLPack type {place}; only host "
                          "memory and CUDA devices are supported")
    own = waiting = None
    if place in (CUDA, MANAGED):
        own = _torch_stream(array, device) if can_wait else None
        # For DLPack, 1 is the legacy default stream, and -1 means "do not wait".
        waiting = (stream or 1) if own is None else -1
    capsule = _capsule_of(array, what, waiting)
    if not (_is_capsule(capsule, b"dltensor_versioned") or _is_capsule(capsule, b"dltensor")):
        raise TypeError(f"{what}: __dlpack__() returned {capsule!r}, not a capsule")
    if _is_capsule(capsule, b"dltensor_versioned"):
        versioned = _DLVersioned.from_address(_pointer_in(capsule, b"dltensor_versioned"))
        if writable and versioned.flags & _DL_READ_ONLY:
            raise _read_only(what)
        tensor = versioned.tensor
    else:
        tensor = _DLTensor.from_address(_pointer_in(capsule, b"dltensor"))
    kind = TYPES.get((tensor.code, tensor.bits // 8)) \
        if tensor.lanes == 1 and tensor.bits % 8 == 0 else None
    if kind is None:
        raise _wrong_type(what, getattr(array, "dtype", f"{tensor.code} (DLPack)"))
    count = _size_of(tensor.shape[:tensor.ndim] if tensor.ndim > 0 else (), kind, what)
    if count and not _is_contiguous(tensor):
        raise _not_contiguous(what)
    return Elements((tensor.data or 0) + tensor.offset, count, kind, capsule, place,
                    device, own)


# ---- interfaces of NumPy and of CUDA ------------------------------------------------

def _size_of(shape: Sequence[Any], kind: Type, what: str) -> int:
    """Return the number of elements; raise if their bytes exceed the address space."""
    count = math.prod(integer(extent, f"{what}.shape", ctypes.c_size_t) for extent in shape)
    integer(count * SIZES[kind], f"{what}: its number of bytes", ctypes.c_size_t)
    return count


def _of_interface(array: Any, facts: Dict[str, Any], what: str, writable: bool,
                  place: int) -> Elements:
    try:
        spelling, shape = str(facts["typestr"]), tuple(facts["shape"])
        strides = tuple(facts.get("strides") or ())
        address, read_only = facts["data"]
        stream = facts.get("stream")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TypeError(f"{what} has an incomplete array interface: {facts!r}") from error
    name = str(getattr(array, "dtype", ""))
    kind = NAMES.get({"float8_e4m3fn": "float8e4m3", "float8_e5m2": "float8e5m2"}.get(
        name, name))
    if kind is None and spelling[:1] in ("<", "|") and spelling[2:].isdigit():
        kind = TYPES.get((spelling[1], int(spelling[2:])))
    if kind is None:
        raise _wrong_type(what, spelling)
    count, step = _size_of(shape, kind, what), SIZES[kind]
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != step and count:
            raise _not_contiguous(what)
        step *= extent
    if writable and read_only:
        raise _read_only(what)
    if stream is not None:  # 1 is the legacy default stream
        stream = integer(stream, f"{what}: its stream", ctypes.c_size_t)
    return Elements(integer(address or 0, f"{what}: its address", ctypes.c_size_t), count, kind,
                    array, place, -1, 0 if stream == 1 else stream)


def look(array: Any, what: str, writable: bool, stream: int = 0, can_wait: bool = False
         ) -> Elements:
    """Return the address, count, type and device of an array.

    what names the argument in errors.  stream is the stream that will use the elements: a
    DLPack array makes it wait for the array's own stream.  With can_wait, a PyTorch tensor's
    stream is returned in Elements.stream instead, and the caller must make the stream wait.
    """
    if isinstance(array, Memory):
        return array._elements(what)
    view = None
    try:
        view = memoryview(array)
    except TypeError:
        pass
    except ValueError:  # a NumPy type that has no buffer format
        facts = getattr(array, "__array_interface__", None)
        if facts is None:
            raise
        return _of_interface(array, facts, what, writable, HOST)
    if view is not None:
        return _of_buffer(view, what, writable)
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        return _of_dlpack(array, what, writable, stream, can_wait)
    for name, place in ("__cuda_array_interface__", CUDA), ("__array_interface__", HOST):
        facts = getattr(array, name, None)
        if facts is not None:
            return _of_interface(array, facts, what, writable, place)
    raise TypeError(f"{what} is a {type(array).__name__}: neither a buffer, nor an array "
                    "with __dlpack__() or __cuda_array_interface__")


class Owner(Protocol):
    """The part of a communicator that its Memory uses."""

    device: int
    _handle: Optional[int]

    @property
    def _live(self) -> int: ...

    @property
    def _on_host(self) -> bool: ...

    def _uses(self, what: object) -> bool: ...

    def _check(self, status: int) -> int: ...

    def _own(self, of: object, cell: Any, keep: object, call: Any, *before: Any) -> Owned: ...

    def _disown(self, owned: Owned) -> int: ...


class Memory(Handle):
    """Memory on a rank's device, allocated by Comm.alloc().

    Every call of this package accepts it as an array.  On the host platform numpy.asarray()
    returns a NumPy array that shares the memory.  On GPUs, libraries that accept
    __cuda_array_interface__ can share the memory (CuPy, PyTorch, Numba).  Types that NumPy
    lacks appear as unsigned integers.

    free(), the end of a with block and the close of the group free the memory; views must
    not be used after that.  If the program only drops the object, in any thread, the
    communicator's next call frees the memory once no view and no call in flight uses it.
    """

    def __init__(self, comm: Owner, shape: Tuple[int, ...], kind: Type,
                 registered: bool) -> None:
        self._comm = comm
        self.shape = shape
        self.type = kind
        self.count = math.prod(shape)
        self.nbytes = self.count * SIZES[kind]
        size = integer(max(self.nbytes, 1), f"shape is {shape}: its size", ctypes.c_size_t)
        self._users: "weakref.WeakSet[Owner]" = weakref.WeakSet([comm])
        cell = ctypes.c_void_p()
        self._owned = comm._own(self, cell, None, lib.cohort_free, comm._live)
        comm._check((lib.cohort_alloc_registered if registered else lib.cohort_alloc)(
            comm._live, size, ctypes.byref(cell)))

    @property
    def _address(self) -> int:
        return self._owned.handle

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        if self._address and self._comm._handle and not self._is_used():
            self.free()

    def free(self) -> None:
        """Free the memory (cohort_free()).

        A submitting call of the communicator.  Blocks until the device is idle, as cudaFree()
        does.  Raises BufferError while an open batch, a reducer, a premul_sum() or a call
        that was not waited for uses the memory.  A prepared call that uses the memory raises
        BufferError from now on.
        """
        if not self._address:
            return
        if self._is_used():
            raise BufferError("the memory is in use by a call that is not done, an open "
                              "batch, a reducer or a premul_sum(); end that first")
        assert self._comm._live
        self._comm._check(self._comm._disown(self._owned))

    def _is_used(self) -> bool:
        """Return whether a pending call, an open batch or an object uses the memory."""
        return any(comm._uses(self) for comm in list(self._users))

    def _elements(self, what: str) -> Elements:
        if not self._address:
            raise BufferError(f"{what} was freed")
        place = HOST if self._comm._on_host else CUDA
        return Elements(self._address, self.count, self.type, self, place,
                        self._comm.device, None)

    def _interface(self, on_host: bool) -> Dict[str, Any]:
        if self._comm._on_host != on_host or not self._address:
            raise AttributeError("the memory was freed, or is elsewhere")
        return {"shape": self.shape, "typestr": SPELLINGS[self.type],
                "data": (self._address, False), "version": 3}

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        return self._interface(True)

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return self._interface(False)


def stream_of(stream: object, own: int) -> int:
    """Return a stream as an address, or own if the stream is None.

    A number is a cudaStream_t (0 is the legacy default stream).  Stream objects are read by
    cuda_stream (PyTorch), ptr (CuPy) or __cuda_stream__() (others).
    """
    if stream is None:
        return own
    if isinstance(stream, int):
        return integer(stream, "stream", ctypes.c_size_t)
    for name in "cuda_stream", "ptr":
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return integer(handle, f"stream.{name}", ctypes.c_size_t)
    if hasattr(stream, "__cuda_stream__"):
        return integer(stream.__cuda_stream__()[1], "stream.__cuda_stream__()[1]",
                       ctypes.c_size_t)
    raise TypeError(f"stream is a {type(stream).__name__}, not a number and without "
                    "cuda_stream, ptr and __cuda_stream__()")
