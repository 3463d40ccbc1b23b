/**
 * A verbs library with made-up devices for tests: the form of libibverbs, none of its content.
 *
 * Four devices: one that answers, one that cannot be opened, one that does not answer, one that knows no number. With
 * BROKEN the list cannot be had. What was opened must be closed, and the list given back: open_things() counts.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ibv_device { const char *name; int maxQueuePairs; };
struct ibv_context { struct ibv_device *device; };

/* The start of the structure of infiniband/verbs.h, up to the member that is read, and some more. */
struct ibv_device_attr {
  char fw_ver[64];
  uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
  uint32_t vendor_id, vendor_part_id, hw_ver;
  int max_qp, max_qp_wr;
};

static struct ibv_device devices[] = {{"mlx5_0", 262144}, {"mlx5_1", 5}, {"mlx5_2", 6}, {"mlx5_3", 0}};
static struct ibv_device *list[] = {&devices[0], &devices[1], &devices[2], &devices[3], NULL};
static struct ibv_context contexts[4];
static int opened = 0;

int open_things(void) { return opened; }

struct ibv_device **ibv_get_device_list(int *count) {
#ifdef BROKEN
  *count = 0;
  return NULL;
#else
  *count = 4;
  opened++;
  return list;
#endif
}

void ibv_free_device_list(struct ibv_device **given) { if (given == list) opened--; }

const char *ibv_get_device_name(struct ibv_device *device) { return device->name; }

struct ibv_context *ibv_open_device(struct ibv_device *device) {
  int number = (int)(device - devices);
  if (number == 1) return NULL;
  opened++;
  contexts[number].device = device;
  return &contexts[number];
}

int ibv_close_device(struct ibv_context *context) {
  opened--;
  context->device = NULL;
  return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes) {
  if (context->device == &devices[2]) return 19;
  memset(attributes, 0x7f, sizeof *attributes);
  attributes->max_qp = context->device->maxQueuePairs;
  return 0;
}
