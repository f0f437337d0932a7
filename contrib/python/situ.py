"""situ's tensors beside numpy's and torch's, on the same memory: one file over ctypes, for notebooks and tests.

    import situ                        # SITU_LIBRARY: path of libsitu.so, by default the one that the system finds
    x = situ.from_dlpack(array)        # any host array with __dlpack__ (numpy, torch, jax): no copy
    y = situ.call("relu", x)           # situ_relu; tensors, numbers and None are passed as they are
    numpy.from_dlpack(y)               # or torch.from_dlpack(y): no copy

On a GPU situ takes part in a stream, in which its work is in order with torch's:

    gpu = situ.adopt_cuda(torch.cuda.current_stream().cuda_stream)
    x = situ.from_dlpack(tensor, gpu)  # a tensor of that stream's device
    situ.abandon(gpu)                  # when no tensor is there any more

Memory is given back by whoever used it last: an array lives as long as a tensor made of it, and the other way round. An
error of situ's is raised as situ.Error with its message.
SPDX-License-Identifier: MIT"""
import ctypes as C
import os

lib = C.CDLL(os.environ.get("SITU_LIBRARY") or "libsitu.so.0")
VERSIONED, UNVERSIONED = 0, 1  # situ_dlpack_abi
NAMES = {VERSIONED: b"dltensor_versioned", UNVERSIONED: b"dltensor"}
# Where the deleter of each struct is (situ/dlpack.h).
DELETER_AT = {VERSIONED: 16, UNVERSIONED: 56}
DEVICE_AT = {VERSIONED: 40, UNVERSIONED: 8}
CPU, CUDA = 1, 5  # situ_device_kind; a situ_device is kind | index << 16

for _name, _result, *_arguments in [
    ("situ_from_dlpack_on", C.c_void_p, C.c_void_p, C.c_int, C.c_uint32),
    ("situ_to_dlpack_for", C.c_void_p, C.c_void_p, C.c_int, C.c_void_p),
    ("situ_device_adopt", C.c_int, C.c_void_p, C.c_void_p), ("situ_device_abandon", C.c_int, C.c_uint32),
    ("situ_retain", C.c_void_p, C.c_void_p), ("situ_release", None, C.c_void_p),
    ("situ_error_message", C.c_char_p), ("situ_error_clear", None), ("situ_live_tensors", C.c_int64),
    ("situ_scope_begin", None, C.c_void_p), ("situ_scope_end", C.c_int, C.c_void_p),
    ("situ_to_string", C.c_int64, C.c_void_p, C.c_char_p, C.c_size_t), ("situ_device_of", C.c_uint32, C.c_void_p)]:
    _function = getattr(lib, _name)
    _function.restype, _function.argtypes = _result, _arguments


def _python(name, result, *arguments):
    return C.PYFUNCTYPE(result, *arguments)((name, C.pythonapi))


# Capsules are passed by address, since a destructor gets one that no reference may be taken to.
_new = _python("PyCapsule_New", C.py_object, C.c_void_p, C.c_char_p, C.c_void_p)
_is_valid = _python("PyCapsule_IsValid", C.c_int, C.c_void_p, C.c_char_p)
_pointer = _python("PyCapsule_GetPointer", C.c_void_p, C.c_void_p, C.c_char_p)
_rename = _python("PyCapsule_SetName", C.c_int, C.py_object, C.c_char_p)
USED = {abi: b"used_" + name for abi, name in NAMES.items()}


def _delete(managed, abi):
    deleter = C.c_void_p.from_address(managed + DELETER_AT[abi]).value
    if deleter:
        C.CFUNCTYPE(None, C.c_void_p)(deleter)(managed)


@C.PYFUNCTYPE(None, C.c_void_p)
def _destroy(capsule):
    """Gives back what no consumer has taken."""
    for abi, name in NAMES.items():
        if _is_valid(capsule, name):
            _delete(_pointer(capsule, name), abi)


class Error(RuntimeError):
    """An error that situ recorded."""


def _raise(kind=Error):
    message = lib.situ_error_message().decode()
    lib.situ_error_clear()
    raise kind(message)


class Tensor:
    """An owner of a situ_tensor, `pointer`."""

    def __init__(self, pointer):
        self.pointer = pointer

    def __del__(self):
        lib.situ_release(self.pointer)

    @property
    def _as_parameter_(self):
        return C.c_void_p(self.pointer)

    def __repr__(self):
        text = C.create_string_buffer(lib.situ_to_string(self.pointer, None, 0) + 1)
        lib.situ_to_string(self.pointer, text, len(text))
        return text.value.decode()

    def __dlpack_device__(self):
        managed = lib.situ_to_dlpack_for(self.pointer, VERSIONED, None) or _raise(BufferError)
        device = (C.c_int32 * 2).from_address(managed + DEVICE_AT[VERSIONED])[:]
        _delete(managed, VERSIONED)
        return tuple(device)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        here = self.__dlpack_device__()
        if copy or (dl_device or here) != here or here == (CPU, 0) and stream is not None or stream == 0:
            raise BufferError("situ gives memory out without a copy, on its own device; 0 is not a stream")
        queue = None if here == (CPU, 0) or stream == -1 else stream or 1  # 1: the default stream
        abi = VERSIONED if max_version and max_version[0] >= 1 else UNVERSIONED
        managed = lib.situ_to_dlpack_for(self.pointer, abi, queue)
        return _new(managed, NAMES[abi], C.cast(_destroy, C.c_void_p)) if managed else _raise()


def _own(work):
    """A Tensor of what `work` returns, whose other results are released."""
    scope = (C.c_uint64 * 2)()
    lib.situ_scope_begin(scope)
    try:
        kept = lib.situ_retain(work())
    finally:
        status = lib.situ_scope_end(scope)
    return Tensor(kept) if kept and not status else _raise()


_streams = {}  # of adopted devices


def adopt_cuda(stream):
    """The device that situ makes of a CUDA stream, an integer: 0 is the default stream of the current device."""
    foreign, device = (C.c_void_p * 7)(CUDA, None, None, stream or None), C.c_uint32()
    if lib.situ_device_adopt(foreign, C.byref(device)):
        _raise()
    _streams[device.value] = stream or 1
    return device.value


def abandon(device):
    """Gives an adopted device back."""
    if lib.situ_device_abandon(device):
        _raise()


def from_dlpack(array, device=CPU):
    """A tensor on the memory of a host array; with a device of adopt_cuda, on that of an array of its GPU."""
    stream = {} if device == CPU else {"stream": _streams[device]}
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:  # of before DLPack 1.0
        capsule = array.__dlpack__(**stream)
    abi = VERSIONED if _is_valid(id(capsule), NAMES[VERSIONED]) else UNVERSIONED
    managed = _pointer(id(capsule), NAMES[abi])
    _rename(capsule, USED[abi])  # situ owns it from here on, also after an error
    return _own(lambda: lib.situ_from_dlpack_on(managed, abi, device))


def call(name, *arguments):
    """The tensor that situ_<name> returns for tensors, integers, floats, None and ctypes' values."""
    function = getattr(lib, "situ_" + name)
    function.restype = C.c_void_p
    passed = [C.c_double(x) if isinstance(x, float) else C.c_int64(x) if isinstance(x, int) else x for x in arguments]
    return _own(lambda: function(*passed))
