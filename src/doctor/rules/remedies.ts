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
    /(?:server socket|bind|listen).*Address already in use/is,
    {
      cause: 'the port of the meeting point is in use',
      repair:
        'End the process that holds the port (ss -ltnp, often one of an earlier run), or choose another MASTER_PORT for all ranks (torchrun --rdzv-endpoint=HOST:0 takes a free one on one host).',
    },
  ],
  [
    /gai error|Temporary failure in name resolution|Name or service not known|getaddrinfo/i,
    {
      cause: 'the name of a host does not resolve',
      repair:
        'See with getent hosts NAME on that host, or in that pod, why the name is not known: the service and its DNS name in Kubernetes, /etc/hosts, a pod that is not yet there; or give MASTER_ADDR as an address.',
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
    /ProcessGroupNCCL is only supported with GPUs, no GPUs found|No CUDA GPUs are available|no CUDA-capable device is detected/i,
    {
      cause: 'the process sees no GPU',
      repair:
        'Run nvidia-smi in the same container or job step: GPUs that were not asked for (--gpus all, --gres=gpu, limits of nvidia.com/gpu), an empty CUDA_VISIBLE_DEVICES, a driver that is too old or not loaded, or a framework built without CUDA.',
    },
  ],
  [
    /Distributed package doesn't have NCCL built in/i,
    {
      cause: 'the framework was built without NCCL',
      repair:
        'Install a build of the framework with CUDA and NCCL for Linux (torch.distributed.is_nccl_available() says so), or use the backend gloo.',
    },
  ],
  [
    /invalid device ordinal/i,
    {
      cause: 'a process asks for a GPU that it does not have',
      repair:
        'Start as many processes per host as it sees GPUs (nvidia-smi -L in the job; CUDA_VISIBLE_DEVICES, --gres, --gpus-per-task), and count devices from 0 by the local rank; where each task sees one GPU only, it is device 0.',
    },
  ],
  [
    /all CUDA-capable devices are busy or unavailable/i,
    {
      cause: 'the GPU lets no other process in',
      repair:
        'See in nvidia-smi whether the compute mode is E. Process and another process holds the GPU (end it, or nvidia-smi -c 0), and whether a MIG mode without instances or an Xid in dmesg makes it unavailable.',
    },
  ],
  [
    /system not yet initiali[sz]ed/i,
    {
      cause: 'GPUs on NVSwitch cannot be used before the fabric manager runs',
      repair:
        'Start the fabric manager in the version of the driver (systemctl status nvidia-fabricmanager; its log names what it refuses).',
    },
  ],
  [
    /no kernel image is available/i,
    {
      cause: 'the program has no code for this kind of GPU',
      repair:
        'Use a build of NCCL and of the framework that was made for this GPU: a newer one for new GPUs, an older one for GPUs that are no longer supported (torch.cuda.get_arch_list()).',
    },
  ],
  [
    /device-side assert/i,
    {
      cause: 'a check in a kernel of the program failed',
      repair:
        'See the line with "Assertion" before it, mostly an index or a label out of range; CUDA_LAUNCH_BLOCKING=1 shows the call. NCCL only meets it.',
    },
  ],
  [
    /Errno 28\b|No space left on device/i,
    {
      cause: 'a file system is full',
      repair:
        'See with df -h and df -i which one the message means, make room there or write elsewhere; /dev/shm grows with --shm-size.',
    },
  ],
  [
    /std::bad_alloc|MemoryError|Cannot allocate memory/i,
    {
      cause: 'the memory of the host was not enough',
      repair:
        'Give the job more memory (--mem of Slurm, limits.memory) or use fewer workers per process; see free -g on that host while it runs.',
    },
  ],
  [
    /Expected to have finished reduction in the prior iteration/i,
    {
      cause: 'parameters of the model took no part in the loss, so a rank waited for their gradients',
      repair:
        'Pass find_unused_parameters=True to DistributedDataParallel, or let all parameters take part in every step on every rank (TORCH_DISTRIBUTED_DEBUG=DETAIL names them).',
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
    /NET\/OFI Request .*(?:Unresponsive receiver|Unreachable remote)/is,
    {
      cause: 'EFA reaches the other instance and gets no answer',
      repair:
        'Let the security group of the instances allow all traffic from and to itself (inbound and outbound), and see that the process at the other end lives and both images have one version of libfabric and the plugin.',
    },
  ],
  [
    /NET\/OFI Request (?:\S+ )?completed with error/i,
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
