/**
 * Messages that tell their own cause: what they mean and what helps. Of PyTorch, CUDA, the verbs library and NCCL, for
 * rules that know no more than the message.
 */

export interface Remedy {
  /** What the message means, as the end of a sentence. */
  readonly cause: string;
  readonly repair: string;
}

const REMEDIES: readonly (readonly [RegExp, Remedy])[] = [
  [
    /out of memory.*(?:[1-9]\d*|\d+\.\d+) GiB is reserved by PyTorch but unallocated/is,
    {
      cause: 'the GPU memory is in pieces: PyTorch keeps gigabytes that it does not use',
      repair:
        'Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, look for shapes that change from step to step, and empty the cache only as the last resort.',
    },
  ],
  [
    /unable to enable P2P/i,
    {
      cause: 'GPUs do not reach each other directly and copy through the host',
      repair:
        'See nvidia-smi topo -m and topo -p2p r: use GPUs of one PCIe root or with NVLink together, and look for ACS and the IOMMU.',
    },
  ],
  [
    /DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly/i,
    {
      cause: 'a worker of its data loader was ended, mostly because memory ran out',
      repair:
        'Look into dmesg of the host, and the events of its container, for the out-of-memory killer; give the job more memory or /dev/shm, or use fewer workers; num_workers=0 shows an exception of the worker itself.',
    },
  ],
  [
    /Could not find real path of \/sys\/class\/pci_bus/i,
    {
      cause: 'the PCI bus of a GPU is not visible in /sys',
      repair:
        'Give the container the /sys of the host; under WSL use a newer NCCL, which does without it, or one GPU.',
    },
  ],
  [
    /DataLoader worker .*(?:Bus error|shared memory)/is,
    {
      cause: 'its data loader ran out of shared memory',
      repair:
        'Give the container a larger /dev/shm (docker --shm-size or --ipc=host, a memory-backed emptyDir in Kubernetes), or use fewer workers of the data loader.',
    },
  ],
  [
    /Detected mismatch between collectives on ranks/i,
    {
      cause: 'ranks called different collectives, as the message says',
      repair:
        'Make all ranks call the same collectives in the same order, with the same shapes and types: look for branches on the rank at the calls that the message names.',
    },
  ],
  [
    /monitoredBarrier|failed to pass .*barrier/i,
    {
      cause: 'the ranks that the message names did not reach a barrier',
      repair:
        'Look at the ranks that the message names: their exceptions and stacks (py-spy dump) at that time.',
    },
  ],
  [
    /waiting for clients\. \d+\/\d+ clients joined/i,
    {
      cause: 'not all ranks came to the meeting point in time',
      repair:
        'See which ranks did not start (scheduler, image, an earlier exception), and that all have the same world size and MASTER_ADDR and MASTER_PORT.',
    },
  ],
  [
    /client socket has (?:timed out|failed to connect)|connect\(\) timed out|The server socket has failed/i,
    {
      cause: 'the meeting point of the ranks could not be reached',
      repair:
        'Check that MASTER_ADDR resolves on every host to an address that is reached there, that rank 0 runs and listens on MASTER_PORT, and that no firewall stands between.',
    },
  ],
  [
    /NVIDIA driver on your system is too old/i,
    {
      cause: 'the driver is too old for the CUDA version of the framework',
      repair: 'Update the driver, or install a framework built for a CUDA version that the driver supports.',
    },
  ],
  [
    /undefined symbol: *p?nccl/i,
    {
      cause: 'another libnccl is loaded than the one that the program was built with',
      repair:
        'See with ldd and LD_DEBUG=libs which libnccl.so.2 is loaded, and remove the older one from LD_LIBRARY_PATH, LD_PRELOAD or the image.',
    },
  ],
  [
    /uncorrectable (?:NVLink|ECC) error|ECC error encountered/i,
    {
      cause: 'a GPU has a hardware error in its memory or links',
      repair:
        'Look at dmesg (Xid) and nvidia-smi -q -d ECC of that host, reset the GPU, and replace it if the error comes back.',
    },
  ],
  [
    /nvls\.cc.*invalid argument/is,
    {
      cause: 'multicast of NVSwitch could not be used',
      repair:
        'Check that the fabric manager runs in the version of the driver and that the container may use /dev/nvidia-caps-imex-channels; NCCL_NVLS_ENABLE=0 does without multicast.',
    },
  ],
  [
    /peer access is not supported/i,
    {
      cause: 'these GPUs do not reach each other’s memory',
      repair:
        'See nvidia-smi topo -p2p r, and whether a virtual machine or the container hides the way between the GPUs; NCCL_P2P_DISABLE=1 goes through host memory.',
    },
  ],
  [
    /peer mapping resources exhausted/i,
    {
      cause: 'a GPU maps the memory of more peers than CUDA allows (8 without NVSwitch)',
      repair:
        'Let fewer GPUs of the machine reach each other directly: smaller groups per host, NCCL_P2P_LEVEL=PXB or lower.',
    },
  ],
  [
    /ibv_reg_mr\w* failed.*Bad address/i,
    {
      cause: 'the adapter could not register memory of a GPU',
      repair:
        'Load the module nvidia-peermem on that host (modprobe nvidia-peermem), or a kernel and driver with DMA-BUF; NCCL_NET_GDR_LEVEL=LOC does without GPUDirect.',
    },
  ],
  [
    /completion with error (?:5|10)\b|status[= ](?:5|10)\b.*(?:opcode|vendor)/i,
    {
      cause:
        'the adapter flushed a request or was refused access at the other side, after an earlier failure',
      repair:
        'Look for the first failure: the peer that the message names ended, or its memory was no longer registered.',
    },
  ],
  [
    /NET\/OFI Request completed with error/i,
    {
      cause: 'the network plugin reports a request that failed',
      repair:
        'Look at the process at the other end first, then at the adapter: its link, its driver’s log, and the service that repeats requests (cxi_rh on Slingshot).',
    },
  ],
  [
    /Attempt to use communicator before/i,
    {
      cause: 'a communicator was used before its set-up ended',
      repair:
        'Wait until ncclCommGetAsyncError returns ncclSuccess for a non-blocking communicator before using it.',
    },
  ],
  [
    /Invalid config .*attribute/i,
    {
      cause: 'the configuration was made for another version of NCCL',
      repair:
        'Initialise it with NCCL_CONFIG_INITIALIZER, and load the libnccl whose nccl.h the program was built with (ldd, LD_LIBRARY_PATH).',
    },
  ],
];

/** What a message tells of itself; undefined where it is not known. */
export const remedyOf = (text: string): Remedy | undefined =>
  REMEDIES.find(([pattern]) => pattern.test(text))?.[1];
