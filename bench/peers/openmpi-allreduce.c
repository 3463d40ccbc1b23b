/*
 * All-reduce loop on Open MPI: float sum, out of place. The same measuring rules as the other programs of
 * this benchmark: the plan gives bytes, warm-up and timed iterations of each size; ranks meet in a barrier,
 * time the whole loop, and the slowest rank's mean counts. Inputs are small whole numbers, so sums are exact
 * and every element is checked before and after the timed loop.
 *
 * usage: mpirun -n RANKS openmpi-allreduce BYTES:WARMUP:ITERATIONS,...
 * Rank 0 prints one JSON line per size: {"size":8,"iterations":1000,"us":0.4}
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Value of element i on a rank: whole numbers up to 13 * ranks, exact in float. */
static float element(int rank, size_t i) { return (float)((rank + 1) * (int)(i % 13 + 1)); }

static void check(const float *recv, size_t count, int ranks, const char *when) {
  const int factor = ranks * (ranks + 1) / 2;
  for (size_t i = 0; i < count; i++) {
    const float right = (float)(factor * (int)(i % 13 + 1));
    if (recv[i] != right) {
      fprintf(stderr, "openmpi: %s, element %zu of %zu is %g, not %g\n", when, i, count, recv[i], right);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
}

static double measure(size_t count, long warmup, long iterations, int rank, int ranks) {
  float *send = aligned_alloc(4096, (count * sizeof(float) + 4095) / 4096 * 4096);
  float *recv = aligned_alloc(4096, (count * sizeof(float) + 4095) / 4096 * 4096);
  if (send == NULL || recv == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (size_t i = 0; i < count; i++) {
    send[i] = element(rank, i);
    recv[i] = -1;
  }
  MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  check(recv, count, ranks, "before the timed loop");
  for (long k = 0; k < warmup; k++) MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (long k = 0; k < iterations; k++) {
    MPI_Allreduce(send, recv, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  const double mean = (MPI_Wtime() - start) / (double)iterations * 1e6;
  check(recv, count, ranks, "after the timed loop");
  double slowest = 0;
  MPI_Allreduce(&mean, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  free(send);
  free(recv);
  return slowest;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char *plan = argc == 2 ? argv[1] : "";
  size_t bytes = 0;
  long warmup = 0, iterations = 0;
  int length = 0, steps = 0;
  while (sscanf(plan, "%zu:%ld:%ld%n", &bytes, &warmup, &iterations, &length) == 3) {
    const double us = measure(bytes / sizeof(float), warmup, iterations, rank, ranks);
    if (rank == 0) {
      printf("{\"size\":%zu,\"iterations\":%ld,\"us\":%.4f}\n", bytes, iterations, us);
      fflush(stdout);
    }
    steps++;
    plan += length + (plan[length] == ',');
  }
  if (steps == 0 || *plan != '\0') {
    if (rank == 0) fprintf(stderr, "usage: openmpi-allreduce BYTES:WARMUP:ITERATIONS,... (stopped at '%s')\n", plan);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Finalize();
  return 0;
}
