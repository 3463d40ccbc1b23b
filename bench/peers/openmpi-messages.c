/*
 * Loops of messages on Open MPI: MPI_Sendrecv around the ring, MPI_Gather and MPI_Scatter with root 0. The same measuring
 * rules as openmpi-allreduce.c; BYTES is what one rank sends (Sendrecv) or one block.
 *
 * usage: mpirun -n RANKS openmpi-messages sendrecv|gather|scatter BYTES:WARMUP:ITERATIONS,...
 * Rank 0 prints one JSON line per size: {"size":8,"iterations":1000,"us":0.4}
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static unsigned char value(int owner, size_t i) { return (unsigned char)(owner * 37 + i % 251); }

static unsigned char *make(size_t bytes) {
  unsigned char *made = aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);
  if (made == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  return made;
}

static void check(const unsigned char *data, size_t bytes, int owner) {
  for (size_t i = 0; i < bytes; i++) {
    if (data[i] == value(owner, i)) continue;
    fprintf(stderr, "openmpi: byte %zu of %zu from %d is wrong\n", i, bytes, owner);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static void call(char what, unsigned char *own, unsigned char *other, unsigned char *all, int bytes) {
  if (what == 's') {
    MPI_Sendrecv(own, bytes, MPI_BYTE, (rank + 1) % ranks, 0, other, bytes, MPI_BYTE, (rank + ranks - 1) % ranks,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (what == 'g') {
    MPI_Gather(own, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  } else {
    MPI_Scatter(all, bytes, MPI_BYTE, other, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
  }
}

static double measure(char what, size_t bytes, long warmup, long iterations) {
  unsigned char *own = make(bytes), *other = make(bytes), *all = make(bytes * (size_t)ranks);
  for (size_t i = 0; i < bytes; i++) own[i] = value(rank, i);
  for (int r = 0; r < ranks; r++) {
    for (size_t i = 0; i < bytes; i++) all[(size_t)r * bytes + i] = what == 'c' ? value(r, i) : 0;
  }
  memset(other, 0, bytes);
  for (long k = 0; k < warmup + 1; k++) call(what, own, other, all, (int)bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (long k = 0; k < iterations; k++) call(what, own, other, all, (int)bytes);
  const double mean = (MPI_Wtime() - start) / (double)iterations * 1e6;
  if (what == 's') check(other, bytes, (rank + ranks - 1) % ranks);
  if (what == 'c') check(other, bytes, rank);
  for (int r = 0; what == 'g' && rank == 0 && r < ranks; r++) check(all + (size_t)r * bytes, bytes, r);
  double slowest = 0;
  MPI_Allreduce(&mean, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  free(own);
  free(other);
  free(all);
  return slowest;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char *name = argc == 3 ? argv[1] : "";
  const char what = strcmp(name, "sendrecv") == 0 ? 's' : strcmp(name, "gather") == 0 ? 'g'
                  : strcmp(name, "scatter") == 0 ? 'c' : 0;
  const char *plan = what == 0 ? "" : argv[2];
  size_t bytes = 0;
  long warmup = 0, iterations = 0;
  int length = 0, steps = 0;
  while (sscanf(plan, "%zu:%ld:%ld%n", &bytes, &warmup, &iterations, &length) == 3) {
    const double us = measure(what, bytes, warmup, iterations);
    if (rank == 0) {
      printf("{\"size\":%zu,\"iterations\":%ld,\"us\":%.4f}\n", bytes, iterations, us);
      fflush(stdout);
    }
    steps++;
    plan += length + (plan[length] == ',');
  }
  if (steps == 0 || *plan != '\0') {
    if (rank == 0) fprintf(stderr, "usage: openmpi-messages sendrecv|gather|scatter BYTES:WARMUP:ITERATIONS,...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Finalize();
  return 0;
}
