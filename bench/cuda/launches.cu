// What a launch costs the host and the GPU, in C: kernels (with and without programmatic stream serialization) and graphs
// of one kernel, which is what prepared operations choose between (src/device/cuda/launch-costs.ts).
//
// usage: nvcc -O2 -std=c++17 -arch=native bench/cuda/launches.cu -lcuda -o launches && ./launches
//
// A row: the kernel's blocks, how long it spins, the bytes of its parameters; microseconds a launch, medians of 15 loops of
// 200 launches, between CUDA events (GPU) and of the launches alone (host). The rows come twice, since the processor of a
// machine that had nothing to do is slow at first.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#define CHECK(call)                                         \
  do {                                                      \
    CUresult code = (call);                                 \
    if (code != CUDA_SUCCESS) {                             \
      const char* text;                                     \
      cuGetErrorString(code, &text);                        \
      fprintf(stderr, "%s: %s\n", #call, text);             \
      exit(1);                                              \
    }                                                       \
  } while (0)

constexpr int LOOPS = 15;
constexpr int LAUNCHES = 200;

template <int BYTES>
struct Parameters {
  long long cycles;
  long long unused[BYTES / 8 - 1];
};

template <int BYTES, bool OVERLAPS>
__global__ void spin(Parameters<BYTES> parameters, long long* never) {
  if (OVERLAPS) asm volatile("griddepcontrol.launch_dependents; griddepcontrol.wait;" ::: "memory");
  long long start = clock64();
  while (clock64() - start < parameters.cycles) {
  }
  if (parameters.cycles < 0) *never = parameters.unused[BYTES / 8 - 2];
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e6 + time.tv_nsec * 1e-3;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Launch>
void measure(const char* kind, int blocks, double us, int bytes, CUstream stream, Launch launch) {
  CUevent start, stop;
  CHECK(cuEventCreate(&start, 0));
  CHECK(cuEventCreate(&stop, 0));
  for (int i = 0; i < 50; i++) launch();
  CHECK(cuStreamSynchronize(stream));
  std::vector<double> gpu, host;
  for (int loop = 0; loop < LOOPS; loop++) {
    launch();
    CHECK(cuEventRecord(start, stream));
    double begin = now();
    for (int i = 0; i < LAUNCHES; i++) launch();
    double end = now();
    CHECK(cuEventRecord(stop, stream));
    CHECK(cuStreamSynchronize(stream));
    float ms;
    CHECK(cuEventElapsedTime(&ms, start, stop));
    gpu.push_back(ms * 1e3 / LAUNCHES);
    host.push_back((end - begin) / LAUNCHES);
  }
  printf("%-34s %3d blocks, %4.1f us, %4d bytes: GPU %5.2f, host %5.2f\n", kind, blocks, us, bytes, median(gpu), median(host));
  cuEventDestroy(start);
  cuEventDestroy(stop);
}

template <int BYTES>
void rows(CUstream stream, int blocks, double us, double cyclesPerUs) {
  cudaFunction_t found;
  cudaGetFuncBySymbol(&found, (const void*)spin<BYTES, false>);
  CUfunction plain = (CUfunction)found;
  cudaGetFuncBySymbol(&found, (const void*)spin<BYTES, true>);
  CUfunction overlapping = (CUfunction)found;

  Parameters<BYTES> parameters = {};
  parameters.cycles = (long long)(us * cyclesPerUs);
  long long* never = nullptr;
  void* arguments[] = {&parameters, &never};
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 128;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;

  auto launchPlain = [&] { CHECK(cuLaunchKernel(plain, blocks, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr)); };
  auto launchOverlapping = [&] { CHECK(cuLaunchKernelEx(&config, overlapping, arguments, nullptr)); };
  auto capture = [&](auto record) {
    CUgraph graph;
    CUgraphExec executable;
    CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    record();
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
  };
  CUgraphExec graph = capture(launchPlain);
  CUgraphExec other = capture(launchOverlapping);
  bool turn = false;

  auto row = [&](const char* kind, auto launch) { measure(kind, blocks, us, BYTES, stream, launch); };
  row("kernel", launchPlain);
  row("kernel that overlaps", launchOverlapping);
  row("graph of one kernel", [&] { CHECK(cuGraphLaunch(graph, stream)); });
  row("graph of a kernel that overlaps", [&] { CHECK(cuGraphLaunch(other, stream)); });
  row("two graphs in turns", [&] { CHECK(cuGraphLaunch((turn = !turn) ? graph : other, stream)); });
  row("overlapping kernel, graph in turns", [&] {
    if ((turn = !turn)) launchOverlapping();
    else CHECK(cuGraphLaunch(other, stream));
  });
  cuGraphExecDestroy(graph);
  cuGraphExecDestroy(other);
}

int main() {
  CHECK(cuInit(0));
  cudaSetDevice(0);
  cudaFree(nullptr);
  int kilohertz;
  cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0);
  double cyclesPerUs = kilohertz * 1e-3;
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int pass = 0; pass < 2; pass++) {
    rows<256>(stream, 1, 0, cyclesPerUs);
    rows<256>(stream, 1, 4, cyclesPerUs);
    rows<256>(stream, 128, 4, cyclesPerUs);
    rows<256>(stream, 128, 10, cyclesPerUs);
    rows<24>(stream, 1, 0, cyclesPerUs);
    rows<1024>(stream, 1, 0, cyclesPerUs);
  }
}
