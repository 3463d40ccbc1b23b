/**
 * One answer to "why?": a fact with its numbers, the rule behind it, and what would change it.
 */

/** What an explanation is about, in the order in which people read them. */
export const TOPIC_TITLES = {
  split: 'Why one host counts as several nodes',
  ring: 'Ring: why these channels and not more',
  tree: 'Tree',
  nvls: 'NVLS (NVLink SHARP)',
  collnet: 'CollNet (SHARP in the network)',
  p2p: 'Peer-to-peer between GPUs',
  gdr: 'GPUDirect RDMA between GPUs and NICs',
  pxn: 'NICs through other GPUs (PXN)',
  channels: 'Number of channels',
  variables: 'Variables that are set',
} as const;
export type Topic = keyof typeof TOPIC_TITLES;

/** Values that a program can check an explanation by: numbers in GB/s, ranks, names. */
export type Evidence = Readonly<Record<string, string | number | boolean | readonly (string | number)[]>>;

export interface Explanation {
  readonly topic: Topic;
  /** One or a few whole sentences. */
  readonly text: string;
  readonly evidence: Evidence;
}

/** An explanation, for short code. */
export const because = (topic: Topic, text: string, evidence: Evidence = {}): Explanation => ({
  topic,
  text,
  evidence,
});

/** The first letter in upper case. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
