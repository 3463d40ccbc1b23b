/**
 * The functions of the NVIDIA driver (libcuda.so.1) that are used, as they are declared in cuda.h.
 *
 * Every function returns a CUresult, 0 for success. Handles and addresses are numbers: user addresses lie below 2^53
 * on every system that has these GPUs, and numbers cost the least at the border to C. A parameter that C writes is an
 * array of one element. Everything behind this interface can be played by a program without a GPU.
 */

/** Where C leaves one number. */
export type Out = [number];

export interface DriverFunctions {
  cuInit(flags: number): number;
  cuDriverGetVersion(version: Out): number;
  cuGetErrorName(code: number, text: [string | null]): number;
  cuGetErrorString(code: number, text: [string | null]): number;

  cuDeviceGetCount(count: Out): number;
  cuDeviceGet(device: Out, ordinal: number): number;
  cuDeviceGetName(name: Uint8Array, bytes: number, device: number): number;
  cuDeviceGetUuid(uuid: Uint8Array, device: number): number;
  cuDeviceGetPCIBusId(text: Uint8Array, bytes: number, device: number): number;
  cuDeviceGetAttribute(value: Out, attribute: number, device: number): number;
  cuDeviceTotalMem(bytes: Out, device: number): number;
  cuDeviceCanAccessPeer(can: Out, device: number, peer: number): number;
  cuDeviceGetP2PAttribute(value: Out, attribute: number, from: number, to: number): number;
  cuDevicePrimaryCtxRetain(context: Out, device: number): number;
  cuDevicePrimaryCtxRelease(device: number): number;
  cuCtxSetCurrent(context: number): number;
  cuCtxEnablePeerAccess(context: number, flags: number): number;

  cuMemAlloc(address: Out, bytes: number): number;
  cuMemFree(address: number): number;
  cuMemGetInfo(free: Out, total: Out): number;
  cuMemHostAlloc(address: Out, bytes: number, flags: number): number;
  cuMemFreeHost(address: number): number;
  cuMemHostRegister(address: number, bytes: number, flags: number): number;
  cuMemHostUnregister(address: number): number;
  cuMemHostGetDevicePointer(address: Out, host: number, flags: number): number;
  cuMemcpyHtoDAsync(to: number, from: ArrayBufferView, bytes: number, stream: number): number;
  cuMemcpyDtoHAsync(to: ArrayBufferView, from: number, bytes: number, stream: number): number;
  cuMemcpyDtoDAsync(to: number, from: number, bytes: number, stream: number): number;
  cuMemsetD8Async(to: number, value: number, bytes: number, stream: number): number;
  cuMemGetAddressRange(base: Out, bytes: Out, address: number): number;
  cuPointerGetAttribute(value: Out, attribute: number, address: number): number;
  /** `location` is a CUmemLocation: type and number. */
  cuMemGetAccess(flags: Out, location: Int32Array, address: number): number;
  /** Virtual memory. Handles of allocations are numbers that the driver counts the holders of. */
  cuMemRetainAllocationHandle(handle: Out, address: number): number;
  cuMemRelease(handle: number): number;
  cuMemExportToShareableHandle(descriptor: Out, handle: number, type: number, flags: number): number;
  cuMemImportFromShareableHandle(handle: Out, descriptor: number, type: number): number;
  cuMemAddressReserve(address: Out, bytes: number, align: number, wish: number, flags: number): number;
  cuMemAddressFree(address: number, bytes: number): number;
  cuMemMap(address: number, bytes: number, offset: number, handle: number, flags: number): number;
  cuMemUnmap(address: number, bytes: number): number;
  /** `descriptors` are CUmemAccessDesc: location (type and number) and flags. */
  cuMemSetAccess(address: number, bytes: number, descriptors: Int32Array, count: number): number;
  cuIpcGetMemHandle(handle: Uint8Array, address: number): number;
  cuIpcOpenMemHandle(address: Out, handle: { bytes: Uint8Array }, flags: number): number;
  cuIpcCloseMemHandle(address: number): number;

  cuStreamCreate(stream: Out, flags: number): number;
  cuStreamDestroy(stream: number): number;
  cuStreamQuery(stream: number): number;
  cuStreamSynchronize(stream: number): number;
  cuStreamWaitEvent(stream: number, event: number, flags: number): number;
  cuStreamIsCapturing(stream: number, status: Out): number;
  cuStreamGetCtx(stream: number, context: Out): number;
  cuEventCreate(event: Out, flags: number): number;
  cuEventDestroy(event: number): number;
  cuEventRecord(event: number, stream: number): number;
  cuEventQuery(event: number): number;
  cuEventElapsedTime(milliseconds: Out, start: number, end: number): number;

  cuLinkCreate(count: number, options: number, values: number, state: Out): number;
  cuLinkAddData(
    state: number,
    type: number,
    data: Uint8Array,
    bytes: number,
    name: string,
    count: number,
    options: number,
    values: number,
  ): number;
  cuLinkComplete(state: number, image: Out, bytes: Out): number;
  cuLinkDestroy(state: number): number;
  cuModuleLoadData(module: Out, image: Uint8Array): number;
  cuModuleUnload(module: number): number;
  cuModuleGetFunction(fn: Out, module: number, name: string): number;
  cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: Out,
    fn: number,
    threads: number,
    sharedBytes: number,
  ): number;
  cuLaunchKernel(
    fn: number,
    gridX: number,
    gridY: number,
    gridZ: number,
    blockX: number,
    blockY: number,
    blockZ: number,
    sharedBytes: number,
    stream: number,
    parameters: number,
    extra: number,
  ): number;
  /** `config` is the address of a CUlaunchConfig. */
  cuLaunchKernelEx(config: number, fn: number, parameters: number, extra: number): number;

  cuStreamBeginCapture(stream: number, mode: number): number;
  cuStreamEndCapture(stream: number, graph: Out): number;
  cuGraphInstantiate(executable: Out, graph: number, flags: number): number;
  cuGraphLaunch(executable: number, stream: number): number;
  cuGraphExecDestroy(executable: number): number;
  cuGraphDestroy(graph: number): number;
}

/** What stands beside the functions: memory of this process as C sees it. */
export interface ProcessMemory {
  /** Memory at an address as an array buffer. */
  view(address: number, bytes: number): ArrayBuffer;
  /** Where the first byte of an array lies, for as long as somebody holds the array. */
  addressOf(array: ArrayBufferView): number;
}

/**
 * Declarations by the names above. Names with a suffix are the ones under which the library has today's form of a
 * function (cuda.h renames them by macros).
 */
export const DECLARATIONS: Readonly<Record<keyof DriverFunctions, string>> = {
  cuInit: 'int cuInit(uint32_t flags)',
  cuDriverGetVersion: 'int cuDriverGetVersion(_Out_ int *version)',
  cuGetErrorName: 'int cuGetErrorName(int code, _Out_ const char **text)',
  cuGetErrorString: 'int cuGetErrorString(int code, _Out_ const char **text)',
  cuDeviceGetCount: 'int cuDeviceGetCount(_Out_ int *count)',
  cuDeviceGet: 'int cuDeviceGet(_Out_ int *device, int ordinal)',
  cuDeviceGetName: 'int cuDeviceGetName(void *name, int bytes, int device)',
  cuDeviceGetUuid: 'int cuDeviceGetUuid(void *uuid, int device)',
  cuDeviceGetPCIBusId: 'int cuDeviceGetPCIBusId(void *text, int bytes, int device)',
  cuDeviceGetAttribute: 'int cuDeviceGetAttribute(_Out_ int *value, int attribute, int device)',
  cuDeviceTotalMem: 'int cuDeviceTotalMem_v2(_Out_ size_t *bytes, int device)',
  cuDeviceCanAccessPeer: 'int cuDeviceCanAccessPeer(_Out_ int *can, int device, int peer)',
  cuDeviceGetP2PAttribute: 'int cuDeviceGetP2PAttribute(_Out_ int *value, int attribute, int from, int to)',
  cuDevicePrimaryCtxRetain: 'int cuDevicePrimaryCtxRetain(_Out_ uintptr_t *context, int device)',
  cuDevicePrimaryCtxRelease: 'int cuDevicePrimaryCtxRelease_v2(int device)',
  cuCtxSetCurrent: 'int cuCtxSetCurrent(uintptr_t context)',
  cuCtxEnablePeerAccess: 'int cuCtxEnablePeerAccess(uintptr_t context, uint32_t flags)',
  cuMemAlloc: 'int cuMemAlloc_v2(_Out_ uintptr_t *address, size_t bytes)',
  cuMemFree: 'int cuMemFree_v2(uintptr_t address)',
  cuMemGetInfo: 'int cuMemGetInfo_v2(_Out_ size_t *free, _Out_ size_t *total)',
  cuMemHostAlloc: 'int cuMemHostAlloc(_Out_ uintptr_t *address, size_t bytes, uint32_t flags)',
  cuMemFreeHost: 'int cuMemFreeHost(uintptr_t address)',
  cuMemHostRegister: 'int cuMemHostRegister_v2(uintptr_t address, size_t bytes, uint32_t flags)',
  cuMemHostUnregister: 'int cuMemHostUnregister(uintptr_t address)',
  cuMemHostGetDevicePointer:
    'int cuMemHostGetDevicePointer_v2(_Out_ uintptr_t *address, uintptr_t host, uint32_t flags)',
  cuMemcpyHtoDAsync:
    'int cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t bytes, uintptr_t stream)',
  cuMemcpyDtoHAsync: 'int cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t bytes, uintptr_t stream)',
  cuMemcpyDtoDAsync: 'int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, uintptr_t stream)',
  cuMemsetD8Async: 'int cuMemsetD8Async(uintptr_t to, uint8_t value, size_t bytes, uintptr_t stream)',
  cuMemGetAddressRange:
    'int cuMemGetAddressRange_v2(_Out_ uintptr_t *base, _Out_ size_t *bytes, uintptr_t address)',
  cuPointerGetAttribute:
    'int cuPointerGetAttribute(_Inout_ uint64_t *value, int attribute, uintptr_t address)',
  cuMemGetAccess: 'int cuMemGetAccess(_Inout_ uint64_t *flags, const void *location, uintptr_t address)',
  cuMemRetainAllocationHandle: 'int cuMemRetainAllocationHandle(_Out_ uintptr_t *handle, uintptr_t address)',
  cuMemRelease: 'int cuMemRelease(uintptr_t handle)',
  cuMemExportToShareableHandle:
    'int cuMemExportToShareableHandle(_Out_ int *descriptor, uintptr_t handle, int type, uint64_t flags)',
  cuMemImportFromShareableHandle:
    'int cuMemImportFromShareableHandle(_Out_ uintptr_t *handle, intptr_t descriptor, int type)',
  cuMemAddressReserve:
    'int cuMemAddressReserve(_Out_ uintptr_t *address, size_t bytes, size_t align, uintptr_t wish, uint64_t flags)',
  cuMemAddressFree: 'int cuMemAddressFree(uintptr_t address, size_t bytes)',
  cuMemMap: 'int cuMemMap(uintptr_t address, size_t bytes, size_t offset, uintptr_t handle, uint64_t flags)',
  cuMemUnmap: 'int cuMemUnmap(uintptr_t address, size_t bytes)',
  cuMemSetAccess:
    'int cuMemSetAccess(uintptr_t address, size_t bytes, const void *descriptors, size_t count)',
  cuIpcGetMemHandle: 'int cuIpcGetMemHandle(void *handle, uintptr_t address)',
  cuIpcOpenMemHandle:
    'int cuIpcOpenMemHandle_v2(_Out_ uintptr_t *address, CUipcMemHandle handle, uint32_t flags)',
  cuIpcCloseMemHandle: 'int cuIpcCloseMemHandle(uintptr_t address)',
  cuStreamCreate: 'int cuStreamCreate(_Out_ uintptr_t *stream, uint32_t flags)',
  cuStreamDestroy: 'int cuStreamDestroy_v2(uintptr_t stream)',
  cuStreamQuery: 'int cuStreamQuery(uintptr_t stream)',
  cuStreamSynchronize: 'int cuStreamSynchronize(uintptr_t stream)',
  cuStreamWaitEvent: 'int cuStreamWaitEvent(uintptr_t stream, uintptr_t event, uint32_t flags)',
  cuStreamIsCapturing: 'int cuStreamIsCapturing(uintptr_t stream, _Out_ int *status)',
  cuStreamGetCtx: 'int cuStreamGetCtx(uintptr_t stream, _Out_ uintptr_t *context)',
  cuEventCreate: 'int cuEventCreate(_Out_ uintptr_t *event, uint32_t flags)',
  cuEventDestroy: 'int cuEventDestroy_v2(uintptr_t event)',
  cuEventRecord: 'int cuEventRecord(uintptr_t event, uintptr_t stream)',
  cuEventQuery: 'int cuEventQuery(uintptr_t event)',
  cuEventElapsedTime: 'int cuEventElapsedTime(_Out_ float *milliseconds, uintptr_t start, uintptr_t end)',
  cuLinkCreate:
    'int cuLinkCreate_v2(uint32_t count, uintptr_t options, uintptr_t values, _Out_ uintptr_t *state)',
  cuLinkAddData:
    'int cuLinkAddData_v2(uintptr_t state, int type, void *data, size_t bytes, const char *name, uint32_t count, uintptr_t options, uintptr_t values)',
  cuLinkComplete: 'int cuLinkComplete(uintptr_t state, _Out_ uintptr_t *image, _Out_ size_t *bytes)',
  cuLinkDestroy: 'int cuLinkDestroy(uintptr_t state)',
  cuModuleLoadData: 'int cuModuleLoadData(_Out_ uintptr_t *module, const void *image)',
  cuModuleUnload: 'int cuModuleUnload(uintptr_t module)',
  cuModuleGetFunction: 'int cuModuleGetFunction(_Out_ uintptr_t *fn, uintptr_t module, const char *name)',
  cuOccupancyMaxActiveBlocksPerMultiprocessor:
    'int cuOccupancyMaxActiveBlocksPerMultiprocessor(_Out_ int *blocks, uintptr_t fn, int threads, size_t sharedBytes)',
  cuLaunchKernel:
    'int cuLaunchKernel(uintptr_t fn, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t sharedBytes, uintptr_t stream, uintptr_t parameters, uintptr_t extra)',
  cuLaunchKernelEx:
    'int cuLaunchKernelEx(uintptr_t config, uintptr_t fn, uintptr_t parameters, uintptr_t extra)',
  cuStreamBeginCapture: 'int cuStreamBeginCapture_v2(uintptr_t stream, int mode)',
  cuStreamEndCapture: 'int cuStreamEndCapture(uintptr_t stream, _Out_ uintptr_t *graph)',
  cuGraphInstantiate:
    'int cuGraphInstantiateWithFlags(_Out_ uintptr_t *executable, uintptr_t graph, unsigned long long flags)',
  cuGraphLaunch: 'int cuGraphLaunch(uintptr_t executable, uintptr_t stream)',
  cuGraphExecDestroy: 'int cuGraphExecDestroy(uintptr_t executable)',
  cuGraphDestroy: 'int cuGraphDestroy(uintptr_t graph)',
};

/** Size of a CUipcMemHandle, which goes over the border by value. */
export const IPC_HANDLE_BYTES = 64;
