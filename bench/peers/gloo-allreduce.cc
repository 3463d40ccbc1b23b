/*
 * All-reduce loop on Gloo over TCP loopback, one process per rank: float sum, out of place. The same measuring
 * rules as openmpi-allreduce.c. Buffers are registered and options are built once per size, so the loop holds
 * nothing but gloo::allreduce.
 *
 * usage: gloo-allreduce RANK RANKS FOLDER ring|bcube BYTES:WARMUP:ITERATIONS,...
 * FOLDER is an empty folder that all ranks share, for the rendezvous.
 * Rank 0 prints one JSON line per size: {"size":8,"iterations":1000,"us":20.1}
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

namespace {

using Algorithm = gloo::AllreduceOptions::Algorithm;
using Clock = std::chrono::steady_clock;

// Value of element i on a rank: whole numbers up to 13 * ranks, exact in float.
float element(int rank, size_t i) { return static_cast<float>((rank + 1) * static_cast<int>(i % 13 + 1)); }

void check(const std::vector<float>& recv, int ranks, const char* when) {
  const int factor = ranks * (ranks + 1) / 2;
  for (size_t i = 0; i < recv.size(); i++) {
    const float right = static_cast<float>(factor * static_cast<int>(i % 13 + 1));
    if (recv[i] != right) {
      std::fprintf(stderr, "gloo: %s, element %zu of %zu is %g, not %g\n", when, i, recv.size(), recv[i], right);
      std::exit(1);
    }
  }
}

double slowest(const std::shared_ptr<gloo::Context>& context, double mean) {
  gloo::AllreduceOptions options(context);
  options.setOutput(&mean, 1);
  options.setReduceFunction([](void* out, const void* a, const void* b, size_t n) {
    gloo::max<double>(out, a, b, n);
  });
  gloo::allreduce(options);
  return mean;
}

double measure(const std::shared_ptr<gloo::Context>& context, Algorithm algorithm, size_t count, long warmup,
               long iterations) {
  std::vector<float> send(count), recv(count, -1.0f);
  for (size_t i = 0; i < count; i++) send[i] = element(context->rank, i);
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(algorithm);
  options.setInput(send.data(), count);
  options.setOutput(recv.data(), count);
  options.setReduceFunction([](void* out, const void* a, const void* b, size_t n) {
    gloo::sum<float>(out, a, b, n);
  });
  gloo::allreduce(options);
  check(recv, context->size, "before the timed loop");
  for (long k = 0; k < warmup; k++) gloo::allreduce(options);
  gloo::BarrierOptions barrier(context);
  gloo::barrier(barrier);
  const auto start = Clock::now();
  for (long k = 0; k < iterations; k++) gloo::allreduce(options);
  const std::chrono::duration<double, std::micro> elapsed = Clock::now() - start;
  check(recv, context->size, "after the timed loop");
  return slowest(context, elapsed.count() / static_cast<double>(iterations));
}

int run(int argc, char** argv) {
  const std::string algorithm = argc == 6 ? argv[4] : "";
  if (algorithm != "ring" && algorithm != "bcube") {
    std::fprintf(stderr, "usage: gloo-allreduce RANK RANKS FOLDER ring|bcube BYTES:WARMUP:ITERATIONS,...\n");
    return 2;
  }
  gloo::transport::tcp::attr attr("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(attr);
  auto context = std::make_shared<gloo::rendezvous::Context>(std::atoi(argv[1]), std::atoi(argv[2]));
  gloo::rendezvous::FileStore store(argv[3]);
  context->connectFullMesh(store, device);

  const char* plan = argv[5];
  size_t bytes = 0;
  long warmup = 0, iterations = 0;
  int length = 0, steps = 0;
  while (std::sscanf(plan, "%zu:%ld:%ld%n", &bytes, &warmup, &iterations, &length) == 3) {
    const double us = measure(context, algorithm == "ring" ? Algorithm::RING : Algorithm::BCUBE,
                              bytes / sizeof(float), warmup, iterations);
    if (context->rank == 0) {
      std::printf("{\"size\":%zu,\"iterations\":%ld,\"us\":%.4f}\n", bytes, iterations, us);
      std::fflush(stdout);
    }
    steps++;
    plan += length + (plan[length] == ',');
  }
  if (steps == 0 || *plan != '\0') {
    std::fprintf(stderr, "gloo: cannot read the plan at '%s'\n", plan);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo: %s\n", error.what());
    return 1;
  }
}
