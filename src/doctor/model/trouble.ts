/**
 * What a message of NCCL reports, as data: the same fault has different words in different versions.
 */

export type Trouble =
  /** A shared memory segment could not be made or extended. */
  | { readonly kind: 'shm'; readonly path: string; readonly bytes: number; readonly reason: string }
  /** A connection to a peer failed for good. */
  | { readonly kind: 'connect'; readonly address: string | undefined; readonly reason: string }
  /** A connection failed and is tried again. */
  | { readonly kind: 'retry'; readonly address: string; readonly reason: string }
  | { readonly kind: 'bind'; readonly reason: string }
  /** Another system call failed. */
  | { readonly kind: 'call'; readonly call: string; readonly reason: string }
  | { readonly kind: 'peerClosed'; readonly peer: string }
  /** The helper thread of the same process failed, or did not answer. */
  | { readonly kind: 'proxy' }
  | { readonly kind: 'noInterface' }
  /** A queue pair could not be connected. */
  | {
      readonly kind: 'queuePair';
      readonly reason: string;
      readonly device: string | undefined;
      readonly localGid: string | undefined;
      readonly remoteGid: string | undefined;
      readonly gidIndex: number | undefined;
    }
  /** The adapter completed a request with an error. */
  | {
      readonly kind: 'completion';
      readonly status: number;
      readonly peer: string;
      readonly device: string | undefined;
    }
  /** The adapter reported a change of a port; before 2.20 without saying which. */
  | {
      readonly kind: 'portEvent';
      readonly device: string | undefined;
      readonly port: number | undefined;
      readonly event: string;
    }
  /** A connection was closed while something was still on its way. */
  | { readonly kind: 'closing' }
  | { readonly kind: 'cuda'; readonly reason: string; readonly number: number | undefined }
  | { readonly kind: 'sameGpu' }
  | { readonly kind: 'versions' }
  | { readonly kind: 'noTransport'; readonly from: number | undefined; readonly to: number | undefined }
  | { readonly kind: 'multicast'; readonly reason: string }
  /** Memory could not be registered with the adapter. */
  | { readonly kind: 'registration'; readonly call: string; readonly reason: string }
  | { readonly kind: 'noNetwork' }
  /** A plugin was loaded and found nothing that it could use. */
  | { readonly kind: 'pluginInit' }
  /** An adapter is there and could not be opened. */
  | { readonly kind: 'openDevice' }
  /** GPUs that are connected may not reach each other. */
  | {
      readonly kind: 'p2pOff';
      readonly from: number | undefined;
      readonly to: number | undefined;
      readonly isNvlink: boolean;
    }
  | { readonly kind: 'misuse'; readonly what: string }
  /** A call got an argument that is refused. */
  | { readonly kind: 'argument'; readonly what: string }
  /** A variable has a value that is not understood. */
  | { readonly kind: 'variable'; readonly name: string; readonly value: string }
  /** Ranks that met told the root different sizes of the communicator. */
  | { readonly kind: 'rankCounts'; readonly sizes: readonly number[] }
  /** The peer at a socket is not the one that was meant, or speaks another version. */
  | { readonly kind: 'wrongPeer'; readonly what: string }
  | { readonly kind: 'other' };
