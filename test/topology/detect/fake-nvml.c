/* A made-up libnvidia-ml.so.1 with two GPUs, to test how facts are read out of a real library. */
#include <stdio.h>
#include <string.h>

typedef struct {
  char busIdLegacy[16];
  unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
} PciInfo;

typedef struct {
  unsigned int fieldId, scopeId;
  long long timestamp, latencyUsec;
  unsigned int valueType;
  int nvmlReturn;
  union {
    double d;
    unsigned int u;
    unsigned long long ull;
  } value;
} FieldValue;

typedef struct {
  unsigned int version;
  unsigned char clusterUuid[16];
  int status;
  unsigned int cliqueId;
  unsigned char state;
  unsigned int healthMask;
} FabricInfo;

typedef struct {
  unsigned int version;
  unsigned char ibGuid[16], chassisSerialNumber[16];
  unsigned char slot, tray, host, peer, module;
} PlatformInfo;

static int gpus[2] = {0, 1};
static int indexOf(int *device) { return device == &gpus[0] ? 0 : device == &gpus[1] ? 1 : -1; }

#ifdef FAILS
int nvmlInit_v2(void) { return 9; }
const char *nvmlErrorString(int result) { return result == 9 ? "Driver Not Loaded" : "?"; }
#else
int nvmlInit_v2(void) { return 0; }
#endif
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
  snprintf(version, length, "580.1.2");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned int *count) { return *count = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, int **device) { return *device = &gpus[index], 0; }
int nvmlDeviceGetName(int *device, char *name, unsigned int length) {
  snprintf(name, length, "Fake %d", indexOf(device));
  return 0;
}
int nvmlDeviceGetPciInfo_v3(int *device, PciInfo *info) {
  int index = indexOf(device);
  if (index < 0) return 2;
  snprintf(info->busIdLegacy, 16, "%04X:%02X:00.0", index, 0xA0 + index);
  snprintf(info->busId, 32, "%08X:%02X:00.0", index, 0xA0 + index);
  info->pciDeviceId = 0x233510DE;
  info->pciSubSystemId = 0x18BF10DE + (index << 16);
  return 0;
}
/* GPU 0 is of capability 9.0, GPU 1 of 8.0. */
int nvmlDeviceGetCudaComputeCapability(int *device, int *major, int *minor) {
  return *major = 9 - indexOf(device), *minor = 0, 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(int *device, unsigned int *value) {
  if (indexOf(device) == 1) return 3;
  return *value = 5, 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(int *device, unsigned int *value) { return *value = 8 + indexOf(device), 0; }
int nvmlDeviceGetNvLinkCapability(int *device, unsigned int link, int what, unsigned int *value) {
  (void)device;
  if (link > 3 || what != 0) return 2;
  return *value = link != 1, 0;
}
/* The old way to ask, right for GPU 1 only: links 0 and 2 are up. */
int nvmlDeviceGetNvLinkState(int *device, unsigned int link, unsigned int *state) {
  if (indexOf(device) == 0) return 3;
  return *state = link == 0 || link == 2, 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(int *device, unsigned int link, PciInfo *info) {
  (void)device;
  if (link == 2) return 3;
  snprintf(info->busIdLegacy, 16, "00AB:%02X:00.0", link);
  snprintf(info->busId, 32, "000000AB:%02X:00.0", link);
  return 0;
}
int nvmlDeviceGetFieldValues(int *device, int count, FieldValue *values) {
  if (count != 1) return 2;
  values->nvmlReturn = 0;
  switch (values->fieldId) {
    case 165: /* NVLink state: links 0 and 3 of GPU 0 */
      values->value.u = indexOf(device) == 0 && (values->scopeId == 0 || values->scopeId == 3);
      return 0;
    case 170:
      return values->value.u = 3, 0;
    case 171:
      return values->value.u = values->scopeId != 1, 0;
    case 172:
      if (values->scopeId == 2) values->nvmlReturn = 3;
      return values->value.u = 1000 + values->scopeId, 0;
    default:
      return 2;
  }
}
int nvmlDeviceGetGpuFabricInfoV(int *device, FabricInfo *info) {
  if (info->version != (sizeof(FabricInfo) | 2u << 24)) return 25;
  if (indexOf(device) == 1) return 3;
  for (int i = 0; i < 16; i++) info->clusterUuid[i] = i;
  return info->status = 0, info->cliqueId = 7, info->state = 3, info->healthMask = 5, 0;
}
#ifndef OLD
int nvmlDeviceGetPlatformInfo(int *device, PlatformInfo *info) {
  (void)device;
  if (info->version != (sizeof(PlatformInfo) | 2u << 24)) return 25;
  memcpy(info->chassisSerialNumber, "1820000000000123", 16);
  return 0;
}
#endif
int nvmlDeviceGetP2PStatus(int *device, int *other, int what, int *status) {
  (void)other;
  return *status = 10 * indexOf(device) + what, 0;
}
