#!/usr/bin/env python3
"""Times NCCL's collectives on the GPUs of this machine, by the loops that bench/cuda times ours with.

usage: nccl_loops.py [--plan BYTES:CALLS:LAUNCHES,...] [--processes 1|N] [--gpus 2] [--operations allReduce,...]
                     [--kinds plain,graph,...] [--repetitions 5] [--limit SECONDS] [--out FILE]
  --processes 1: this process drives all GPUs, with group calls; N: a process for each GPU.
  --kinds: `plain` calls on memory of cudaMalloc; `registered`: on memory of ncclMemAlloc under ncclCommRegister;
           `symmetric`: on symmetric windows. Each also as `graph`, `registered-graph`, `symmetric-graph`.

A sample of one operation, size and kind: a call and a wait for it, a second call that lines the GPUs up, then an
event, so many calls (or launches of a graph of 20 calls) without a pause, an event, a wait. Per call: `eventUs` is
the time between the events, `wallUs` the host's time from the first call until the wait is over, `enqueueUs` the
host's time for the calls alone. Each is that of the slowest rank. Result: one JSON object.

Python's own share of a call is told: `pythonUs` is what the same calls take when the functions do nothing.
NVLink multicast stays off.
"""

import argparse
import array
import ctypes
import json
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time

os.environ["NCCL_NVLS_ENABLE"] = "0"
os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cuda_runtime import Cuda, gpu_facts  # noqa: E402
from nccl_library import (  # noqa: E402
    FLOAT_BYTES,
    OPERATIONS,
    Nccl,
    NothingDone,
    Rank,
    UniqueId,
    expected_output,
)

KINDS = ("plain", "graph", "registered", "registered-graph", "symmetric", "symmetric-graph")
GRAPH_CALLS = 20
CHECKED_BYTES = 512 * 1024
# Work of the host before the first row: a processor takes about a second of it until it runs at its full speed.
WARM_UP_SECONDS = 1
DEFAULT_PLAN = "8:200:20,524288:100:10,33554432:30:2"


def parse_plan(text):
    """(bytes, calls of a plain sample, launches of a graph in a graph sample) of each size."""
    return [tuple(int(number) for number in entry.split(":")) for entry in text.split(",")]


class Meeting:
    """Where the processes wait for each other: one counter each in a file that all of them map."""

    def __init__(self, path, rank, size):
        self.rank, self.size, self.turn = rank, size, 0
        if path is not None:
            with open(path, "r+b") as file:
                self.words = mmap.mmap(file.fileno(), 8 * size)

    def wait(self):
        if self.size == 1:
            return
        self.turn += 1
        struct.pack_into("q", self.words, 8 * self.rank, self.turn)
        while any(struct.unpack_from("q", self.words, 8 * r)[0] < self.turn for r in range(self.size)):
            pass


class Loops:
    def __init__(self, cuda, nccl, ranks, meeting, options):
        self.cuda, self.nccl, self.ranks, self.meeting = cuda, nccl, ranks, meeting
        self.repetitions = options.repetitions
        self.rows = []

    def synchronize(self):
        for rank in self.ranks:
            self.cuda.call("cudaStreamSynchronize", rank.stream)

    def run(self, operation, what):
        self.nccl.check(operation(), what)
        self.synchronize()

    def capture(self, operation, calls, what):
        """A graph per GPU of so many calls; the result launches them all."""
        cuda = self.cuda
        for rank in self.ranks:
            cuda.use(rank.device)
            cuda.begin_capture(rank.stream)
        for _ in range(calls):
            self.nccl.check(operation(), what)
        graphs = []
        for rank in self.ranks:
            cuda.use(rank.device)
            graphs.append(cuda.end_capture(rank.stream))
        executables = []
        for rank, graph in zip(self.ranks, graphs):
            cuda.use(rank.device)
            executables.append((cuda.executable(graph), rank.stream))
        launch = cuda.lib.cudaGraphLaunch
        if len(executables) == 1:
            executable, stream = executables[0]
            return (lambda: launch(executable, stream)), executables

        def launch_all():
            code = 0
            for executable, stream in executables:
                code |= launch(executable, stream)
            return code

        return launch_all, executables

    def samples(self, step, steps, calls_per_step):
        """Repeats `step` and times it: see the head of this file."""
        record = self.cuda.lib.cudaEventRecord
        results = []
        for _ in range(self.repetitions):
            self.meeting.wait()
            code = step()
            self.synchronize()
            code |= step()
            for rank in self.ranks:
                code |= record(rank.start, rank.stream)
            begin = time.perf_counter()
            for _ in range(steps):
                code |= step()
            enqueued = time.perf_counter()
            for rank in self.ranks:
                code |= record(rank.stop, rank.stream)
            self.synchronize()
            end = time.perf_counter()
            if code != 0:
                raise RuntimeError(f"a call of the measured loop failed with code {code}")
            calls = steps * calls_per_step
            events = [self.cuda.elapsed_us(rank.start, rank.stop) for rank in self.ranks]
            results.append(
                {
                    "eventUs": max(events) / calls,
                    "wallUs": (end - begin) * 1e6 / calls,
                    "enqueueUs": (enqueued - begin) * 1e6 / calls,
                }
            )
        return results

    def measure(self, name, size, plain_calls, launches, kind):
        is_graph = kind.endswith("graph")
        what = f"{name}, {size} bytes, {kind}"
        operation = self.nccl.operation(name, self.ranks, size)
        for _ in range(3):
            self.run(operation, what)
        executables = []
        if is_graph:
            steps, calls = launches, GRAPH_CALLS
            step, executables = self.capture(operation, calls, what)
        else:
            step, steps, calls = operation, plain_calls, 1
        samples = self.samples(step, steps, calls)
        for executable, _ in executables:
            self.cuda.call("cudaGraphExecDestroy", executable)
        self.rows.append(
            {
                "operation": name,
                "bytes": size,
                "kind": kind,
                "launch": "graph" if is_graph else "plain",
                "calls": steps * calls,
                "samples": samples,
            }
        )

    def verify(self, name, size):
        """Compares one operation's results element by element; returns the number of wrong elements."""
        elements = size // FLOAT_BYTES

        def value(rank, i):
            return float((i % 251) + 3 * rank)

        for rank in self.ranks:
            self.cuda.use(rank.device)
            self.cuda.to_device(rank.send, array.array("f", [value(rank.rank, i) for i in range(elements)]))
            self.cuda.to_device(rank.recv, array.array("f", [-1.0]) * elements)
        self.meeting.wait()
        self.run(self.nccl.operation(name, self.ranks, size), name)
        wrong = 0
        for rank in self.ranks:
            length, expected = expected_output(name, rank.rank, rank.size, elements, value)
            result = array.array("f", bytes(FLOAT_BYTES * elements))
            self.cuda.use(rank.device)
            self.cuda.to_host(result, rank.recv)
            wrong += sum(result[i] != expected(i) for i in range(length))
        return wrong


def python_us(nccl, ranks, names):
    """What Python takes for each operation: its time with functions that do next to nothing, least of some loops."""
    nothing = NothingDone()
    shares = {}
    for name in names:
        operation = nccl.operation(name, ranks, 1024, nothing)
        loops = []
        for _ in range(10):
            begin = time.perf_counter()
            for _ in range(1000):
                operation()
            loops.append((time.perf_counter() - begin) * 1e6 / 1000)
        shares[name] = min(loops)
    return shares


def exchange_id(nccl, is_first, meeting, folder):
    """The unique id that rank 0 makes, by way of a file."""
    path = os.path.join(folder, "id")
    if is_first:
        with open(path, "wb") as file:
            file.write(bytes(nccl.unique_id()))
    meeting.wait()
    with open(path, "rb") as file:
        return UniqueId.from_buffer_copy(file.read())


class MemoryKind:
    """A kind of memory for the buffers, with the kinds of measurements on it."""

    def __init__(self, name, allocate, free, register=None):
        self.name, self.allocate, self.free, self.register = name, allocate, free, register
        self.kinds = [name, "graph" if name == "plain" else f"{name}-graph"]


def memory_kinds(cuda, nccl, size):
    def malloc(device):
        return cuda.malloc(device, size)

    def nccl_malloc(device):
        return nccl.malloc(cuda, device, size)

    def free(pointer):
        cuda.call("cudaFree", pointer)

    def nccl_free(pointer):
        nccl.call("ncclMemFree", pointer)

    kinds = [
        MemoryKind("plain", malloc, free),
        MemoryKind("registered", nccl_malloc, nccl_free, nccl.register_buffers),
    ]
    if nccl.has_windows:
        kinds.append(MemoryKind("symmetric", nccl_malloc, nccl_free, nccl.register_windows))
    return kinds


def measure_ranks(options, rank_numbers, meeting, folder):
    """Everything that this process does; the result is its part of the report."""
    cuda, nccl = Cuda(), Nccl()
    if cuda.device_count() < options.gpus:
        raise SystemExit(f"--gpus {options.gpus}: this machine has {cuda.device_count()}")
    ranks = [Rank(number, options.gpus, number) for number in rank_numbers]
    for rank in ranks:
        cuda.start(rank.device)
        rank.stream = cuda.stream(rank.device)
        rank.start, rank.stop = cuda.event(rank.device), cuda.event(rank.device)
    unique_id = exchange_id(nccl, rank_numbers[0] == 0, meeting, folder)
    free = [cuda.free_bytes(rank.device) for rank in ranks]
    meeting.wait()
    began = time.perf_counter()
    nccl.join(cuda, ranks, unique_id)
    init_ms = (time.perf_counter() - began) * 1e3

    largest = max(CHECKED_BYTES, *(size for size, _, _ in options.plan))
    loops = Loops(cuda, nccl, ranks, meeting, options)
    wrong = {}
    first_ms = None

    def used(buffers):
        """What the communicators hold, without the benchmark's buffers."""
        return [before - cuda.free_bytes(rank.device) - buffers for before, rank in zip(free, ranks)]

    memory = {"afterInit": used(0)}
    for memory_kind in memory_kinds(cuda, nccl, largest):
        kinds = [kind for kind in memory_kind.kinds if kind in options.kinds]
        if not kinds:
            continue
        for rank in ranks:
            rank.send, rank.recv = memory_kind.allocate(rank.device), memory_kind.allocate(rank.device)
        handles = memory_kind.register(cuda, ranks, largest) if memory_kind.register else []
        if first_ms is None:
            began = time.perf_counter()
            loops.run(nccl.operation("allReduce", ranks, options.plan[0][0]), "allReduce")
            first_ms = (time.perf_counter() - began) * 1e3
            memory["afterAllReduce"] = used(2 * largest)
            until = time.perf_counter() + WARM_UP_SECONDS
            while time.perf_counter() < until:
                loops.synchronize()
        for name in options.operations:
            wrong[f"{name}, {memory_kind.name}"] = loops.verify(name, CHECKED_BYTES)
        for name in options.operations:
            for entry in options.plan:
                for kind in kinds:
                    loops.measure(name, *entry, kind)
        memory[f"after {memory_kind.name}"] = used(2 * largest)
        for give_back in handles:
            give_back()
        for rank in ranks:
            cuda.use(rank.device)
            memory_kind.free(rank.send)
            memory_kind.free(rank.recv)

    report = {
        "version": nccl.version(),
        "library": os.path.basename(nccl.path),
        "cudaRuntime": cuda.version("cudaRuntimeGetVersion"),
        "initMs": init_ms,
        "firstCallMs": first_ms,
        "memoryBytes": memory,
        "pythonUs": python_us(nccl, ranks, options.operations),
        "notes": [] if nccl.has_windows else ["this version of NCCL has no symmetric windows"],
        "wrong": wrong,
        "rows": loops.rows,
    }
    meeting.wait()
    for rank in ranks:
        cuda.use(rank.device)
        nccl.call("ncclCommDestroy", rank.comm)
    return report


def slowest(parts):
    """One report of the reports of all processes: the slowest rank's times, everybody's memory."""
    whole = parts[0]
    for key in whole["memoryBytes"]:
        whole["memoryBytes"][key] = [used for part in parts for used in part["memoryBytes"][key]]
    for key in whole["wrong"]:
        whole["wrong"][key] = sum(part["wrong"][key] for part in parts)
    for index, row in enumerate(whole["rows"]):
        for repetition, sample in enumerate(row["samples"]):
            for key in sample:
                sample[key] = max(part["rows"][index]["samples"][repetition][key] for part in parts)
    return whole


def run_processes(options, folder):
    """Runs this script again as a process for each rank."""
    meeting = os.path.join(folder, "meeting")
    with open(meeting, "wb") as file:
        file.write(bytes(8 * options.gpus))
    outputs = [os.path.join(folder, f"rank{rank}.json") for rank in range(options.gpus)]
    children = [
        subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--rank", str(rank),
                          "--folder", folder, "--out", outputs[rank]])
        for rank in range(options.gpus)
    ]
    try:
        codes = [child.wait() for child in children]
    finally:
        for child in children:
            child.kill()
    if any(codes):
        raise SystemExit(f"the processes of the ranks ended with {codes}")
    parts = []
    for path in outputs:
        with open(path) as file:
            parts.append(json.load(file))
    return slowest(parts)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Times NCCL's collectives.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--plan", default=DEFAULT_PLAN)
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--out", default=None)
    parser.add_argument("--rank", type=int, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--folder", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.processes not in (1, options.gpus):
        parser.error(f"--processes {options.processes}: 1 for all GPUs, or {options.gpus}, one for each")
    options.plan = parse_plan(options.plan)
    options.operations = options.operations.split(",")
    options.kinds = options.kinds.split(",")
    for given, known, what in ((options.operations, OPERATIONS, "operations"), (options.kinds, KINDS, "kinds")):
        for name in given:
            if name not in known:
                parser.error(f"--{what} {name}: there are {', '.join(known)}")
    return options


def main():
    options = parse_arguments()

    def give_up():
        sys.stderr.write(f"NCCL's loops took longer than {options.limit} s\n")
        sys.stderr.flush()
        os._exit(3)

    watch = threading.Timer(options.limit, give_up)
    watch.daemon = True
    watch.start()
    began = time.time()
    if options.rank is not None:
        meeting = Meeting(os.path.join(options.folder, "meeting"), options.rank, options.gpus)
        report = measure_ranks(options, [options.rank], meeting, options.folder)
    else:
        with tempfile.TemporaryDirectory(prefix="tutti-bench-nccl-") as folder:
            if options.processes == 1:
                report = measure_ranks(options, list(range(options.gpus)), Meeting(None, 0, 1), folder)
            else:
                report = run_processes(options, folder)
        report = {
            "program": "nccl",
            "processes": options.processes,
            "ranks": options.gpus,
            **gpu_facts(range(options.gpus)),
            "seconds": time.time() - began,
            **report,
        }
    text = json.dumps(report)
    if options.out is None:
        print(text)
    else:
        with open(options.out, "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
