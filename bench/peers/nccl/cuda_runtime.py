"""The CUDA runtime by ctypes: devices, memory, streams, events, graphs. Errors carry CUDA's own name and text.

Handles and sizes are kept as ready-made ctypes objects, so that a call in a measured loop converts nothing.
"""

import ctypes
import glob
import os
import site
import sys

STREAM_NON_BLOCKING = 1
CAPTURE_THREAD_LOCAL = 1
COPY_HOST_TO_DEVICE = 1
COPY_DEVICE_TO_HOST = 2


def load_library(name, package_patterns):
    """The first of the libraries that pip packages brought, or the one that the system finds under its name."""
    folders = [*site.getsitepackages(), site.getusersitepackages(), *sys.path]
    for folder in folders:
        for pattern in package_patterns:
            for path in sorted(glob.glob(os.path.join(folder, pattern))):
                try:
                    return ctypes.CDLL(path), path
                except OSError:
                    continue
    try:
        return ctypes.CDLL(name), name
    except OSError as error:
        raise SystemExit(f"{name}: not found beside Python's packages nor on the system ({error})")


class Cuda:
    def __init__(self):
        self.lib, self.path = load_library(
            "libcudart.so", ["nvidia/cu13/lib/libcudart.so.1?", "nvidia/cuda_runtime/lib/libcudart.so.1?"]
        )
        self.lib.cudaGetErrorName.restype = ctypes.c_char_p
        self.lib.cudaGetErrorString.restype = ctypes.c_char_p
        # CUDA 12 gave cudaGraphInstantiate the three arguments that this name has had all along.
        self.instantiate = getattr(self.lib, "cudaGraphInstantiateWithFlags", None) or self.lib.cudaGraphInstantiate

    def check(self, code, what):
        if code != 0:
            name = self.lib.cudaGetErrorName(code).decode()
            text = self.lib.cudaGetErrorString(code).decode()
            raise RuntimeError(f"{what}: {name}, {text}")

    def call(self, name, *args):
        self.check(getattr(self.lib, name)(*args), name)

    def device_count(self):
        count = ctypes.c_int()
        self.call("cudaGetDeviceCount", ctypes.byref(count))
        return count.value

    def use(self, device):
        self.call("cudaSetDevice", ctypes.c_int(device))

    def start(self, device):
        """Makes the context, so that it is not counted among what comes later."""
        self.use(device)
        self.call("cudaFree", ctypes.c_void_p(None))

    def free_bytes(self, device):
        self.use(device)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def version(self, which):
        value = ctypes.c_int()
        self.call(which, ctypes.byref(value))
        return value.value

    def malloc(self, device, size):
        self.use(device)
        pointer = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def stream(self, device):
        self.use(device)
        stream = ctypes.c_void_p()
        self.call("cudaStreamCreateWithFlags", ctypes.byref(stream), ctypes.c_uint(STREAM_NON_BLOCKING))
        return stream

    def event(self, device):
        self.use(device)
        event = ctypes.c_void_p()
        self.call("cudaEventCreate", ctypes.byref(event))
        return event

    def elapsed_us(self, start, stop):
        ms = ctypes.c_float()
        self.call("cudaEventElapsedTime", ctypes.byref(ms), start, stop)
        return ms.value * 1e3

    def to_device(self, pointer, data):
        address, length = data.buffer_info()
        size = ctypes.c_size_t(length * data.itemsize)
        self.call("cudaMemcpy", pointer, ctypes.c_void_p(address), size, ctypes.c_int(COPY_HOST_TO_DEVICE))

    def to_host(self, data, pointer):
        address, length = data.buffer_info()
        size = ctypes.c_size_t(length * data.itemsize)
        self.call("cudaMemcpy", ctypes.c_void_p(address), pointer, size, ctypes.c_int(COPY_DEVICE_TO_HOST))

    def begin_capture(self, stream):
        self.call("cudaStreamBeginCapture", stream, ctypes.c_int(CAPTURE_THREAD_LOCAL))

    def end_capture(self, stream):
        graph = ctypes.c_void_p()
        self.call("cudaStreamEndCapture", stream, ctypes.byref(graph))
        return graph

    def executable(self, graph):
        """Instantiates a graph, which is given back. No stream of this thread may be capturing any more."""
        executable = ctypes.c_void_p()
        code = self.instantiate(ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        self.check(code, "cudaGraphInstantiate")
        self.call("cudaGraphDestroy", graph)
        return executable


def gpu_facts(devices):
    """Names of the GPUs and the driver's version, as the management library tells them."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    if nvml.nvmlInit_v2() != 0:
        raise RuntimeError("nvmlInit failed")
    text = ctypes.create_string_buffer(96)
    nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(len(text)))
    driver = text.value.decode()
    names = []
    for device in devices:
        handle = ctypes.c_void_p()
        nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(device), ctypes.byref(handle))
        nvml.nvmlDeviceGetName(handle, text, ctypes.c_uint(len(text)))
        names.append(text.value.decode())
    return {"driver": driver, "gpus": names}
