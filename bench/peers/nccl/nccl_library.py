"""libnccl by ctypes: the functions that the loops call, and the seven operations as ready-made calls.

An operation is one Python function without arguments; all its arguments are ctypes objects made before.
"""

import ctypes
from functools import partial

from cuda_runtime import load_library

FLOAT32 = ctypes.c_int(7)
SUM = ctypes.c_int(0)
ROOT = ctypes.c_int(0)
FLOAT_BYTES = 4
WINDOW_COLLECTIVE_SYMMETRIC = ctypes.c_int(1)

OPERATIONS = ("allReduce", "allGather", "reduceScatter", "broadcast", "reduce", "allToAll", "sendRecv")


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Rank:
    """One rank of this process: its GPU, stream, communicator and buffers of one kind after the other."""

    def __init__(self, rank, size, device):
        self.rank, self.size, self.device = rank, size, device
        self.stream = self.comm = self.send = self.recv = None
        self.start = self.stop = None


class Nccl:
    def __init__(self):
        self.lib, self.path = load_library("libnccl.so.2", ["nvidia/nccl/lib/libnccl.so.2"])
        self.lib.ncclGetErrorString.restype = ctypes.c_char_p
        self.lib.ncclGetLastError.restype = ctypes.c_char_p
        self.has_all_to_all = hasattr(self.lib, "ncclAlltoAll")
        self.has_windows = hasattr(self.lib, "ncclCommWindowRegister")

    def check(self, code, what):
        if code != 0:
            text = self.lib.ncclGetErrorString(code).decode()
            last = self.lib.ncclGetLastError(None) or b""
            raise RuntimeError(f"{what}: error {code}, {text}; {last.decode(errors='replace')}")

    def call(self, name, *args):
        self.check(getattr(self.lib, name)(*args), name)

    def version(self):
        value = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(value))
        code = value.value
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"

    def unique_id(self):
        unique_id = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(unique_id))
        return unique_id

    def join(self, cuda, ranks, unique_id):
        """Makes the communicators of the ranks of this process."""
        self.call("ncclGroupStart")
        for rank in ranks:
            cuda.use(rank.device)
            rank.comm = ctypes.c_void_p()
            self.call(
                "ncclCommInitRank",
                ctypes.byref(rank.comm),
                ctypes.c_int(rank.size),
                unique_id,
                ctypes.c_int(rank.rank),
            )
        self.call("ncclGroupEnd")

    def malloc(self, cuda, device, size):
        cuda.use(device)
        pointer = ctypes.c_void_p()
        self.call("ncclMemAlloc", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def register_buffers(self, cuda, ranks, size):
        """Registers the send and the receive buffers of all ranks; the result gives each back."""
        handles = []
        for rank in ranks:
            cuda.use(rank.device)
            for pointer in (rank.send, rank.recv):
                handle = ctypes.c_void_p()
                self.call(
                    "ncclCommRegister", rank.comm, pointer, ctypes.c_size_t(size), ctypes.byref(handle)
                )
                handles.append(partial(self.call, "ncclCommDeregister", rank.comm, handle))
        return handles

    def register_windows(self, cuda, ranks, size):
        """Symmetric windows over the send and the receive buffers of all ranks; the result gives each back."""
        handles = []
        for side in ("send", "recv"):
            made = []
            self.call("ncclGroupStart")
            for rank in ranks:
                cuda.use(rank.device)
                window = ctypes.c_void_p()
                self.call(
                    "ncclCommWindowRegister",
                    rank.comm,
                    getattr(rank, side),
                    ctypes.c_size_t(size),
                    ctypes.byref(window),
                    WINDOW_COLLECTIVE_SYMMETRIC,
                )
                made.append((rank, window))
            # The windows are written when the group ends.
            self.call("ncclGroupEnd")
            handles += [
                partial(self.call, "ncclCommWindowDeregister", rank.comm, window) for rank, window in made
            ]
        return handles

    def operation(self, name, ranks, size, lib=None):
        """
        The operation over all ranks of this process as one function. `size`: bytes of the larger side of a rank.
        The function returns 0, or the error codes of its calls joined. `lib`: whose functions to call instead.
        """
        lib = lib or self.lib
        shared = name in ("allGather", "reduceScatter", "allToAll")
        count = ctypes.c_size_t(size // FLOAT_BYTES // (ranks[0].size if shared else 1))
        calls = []
        for r in ranks:
            tail = (r.comm, r.stream)
            both = (r.send, r.recv, count, FLOAT32)
            if name == "allReduce":
                calls.append((lib.ncclAllReduce, (*both, SUM, *tail)))
            elif name == "allGather":
                calls.append((lib.ncclAllGather, (*both, *tail)))
            elif name == "reduceScatter":
                calls.append((lib.ncclReduceScatter, (*both, SUM, *tail)))
            elif name == "broadcast":
                calls.append((lib.ncclBroadcast, (*both, ROOT, *tail)))
            elif name == "reduce":
                calls.append((lib.ncclReduce, (*both, SUM, ROOT, *tail)))
            elif name == "allToAll" and self.has_all_to_all:
                calls.append((lib.ncclAlltoAll, (*both, *tail)))
            elif name == "allToAll":
                for peer in range(r.size):
                    offset = peer * count.value * FLOAT_BYTES
                    to, source = (ctypes.c_void_p(p.value + offset) for p in (r.send, r.recv))
                    calls.append((lib.ncclSend, (to, count, FLOAT32, ctypes.c_int(peer), *tail)))
                    calls.append((lib.ncclRecv, (source, count, FLOAT32, ctypes.c_int(peer), *tail)))
            elif name == "sendRecv":
                after = ctypes.c_int((r.rank + 1) % r.size)
                before = ctypes.c_int((r.rank - 1) % r.size)
                calls.append((lib.ncclSend, (r.send, count, FLOAT32, after, *tail)))
                calls.append((lib.ncclRecv, (r.recv, count, FLOAT32, before, *tail)))
            else:
                raise ValueError(f"operation {name}: there are {', '.join(OPERATIONS)}")
        if len(calls) == 1:
            function, arguments = calls[0]
            return lambda: function(*arguments)
        begin, end = lib.ncclGroupStart, lib.ncclGroupEnd
        if len(calls) == 2:
            (first, first_arguments), (second, second_arguments) = calls
            return lambda: begin() | first(*first_arguments) | second(*second_arguments) | end()

        def grouped():
            code = begin()
            for function, arguments in calls:
                code |= function(*arguments)
            return code | end()

        return grouped


class NothingDone:
    """In place of the library: every function is one of C's that does next to nothing."""

    def __init__(self):
        self.function = ctypes.CDLL(None).labs

    def __getattr__(self, name):
        return self.function


def expected_output(name, rank, size, elements, value):
    """What the receive buffer of a rank holds, as (position, length, function of the position), or nothing."""
    share = elements // size
    everybody = range(size)
    if name == "allReduce" or (name == "reduce" and rank == 0):
        return elements, lambda i: sum(value(r, i) for r in everybody)
    if name == "reduce":
        return 0, None
    if name == "allGather":
        return elements, lambda i: value(i // share, i % share)
    if name == "reduceScatter":
        return share, lambda i: sum(value(r, rank * share + i) for r in everybody)
    if name == "broadcast":
        return elements, lambda i: value(0, i)
    if name == "allToAll":
        return elements, lambda i: value(i // share, rank * share + i % share)
    return elements, lambda i: value((rank - 1) % size, i)
