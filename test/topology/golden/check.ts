/** Compares our answers for golden files with what they hold. */
import { join } from 'node:path';
import type { XmlElement } from '#src/topology/xml/element.js';
import { readXml } from '#src/topology/xml/read.js';
import { ASPECTS, type AspectResult, compareAspect } from './aspects.js';
import { LAST_TOPOLOGY, readGolden, readLastTopology, readTopology } from './folder.js';
import type { GoldenFile } from './format.js';
import { goldenInputs } from './inputs.js';
import { ownParts } from './ours.js';

/** One golden file to check. */
export interface Job {
  readonly machine: string;
  readonly folder: string;
  readonly file: string;
}

export interface FileResult extends Job {
  /** Why nothing could be compared: the file is unreadable, or our computation failed. */
  readonly error: string | null;
  /** The aspects that the file or our answer has. */
  readonly aspects: readonly AspectResult[];
  readonly seconds: number;
}

/** Topologies that were read, by path. */
const topologies = new Map<string, XmlElement>();

/** A topology file of a folder, read once. */
function topologyOf(folder: string, name: string, read: (folder: string) => string): XmlElement {
  const file = join(folder, name);
  const known = topologies.get(file) ?? readXml(read(folder), { root: 'system', file }).root;
  topologies.set(file, known);
  return known;
}

/** The calls that a file decides; with one rank there is nothing to decide. */
const callsOf = ({ oracle, decisions }: GoldenFile) => (oracle.nRanks > 1 ? (decisions ?? {}) : {});

/** Computes and compares one file; errors become part of the result. */
export function checkFile(job: Job, aspects: readonly string[] = ASPECTS): FileResult {
  const start = performance.now();
  const result = (error: string | null, compared: readonly AspectResult[]): FileResult => ({
    ...job,
    error,
    aspects: compared,
    seconds: (performance.now() - start) / 1000,
  });
  try {
    const golden = readGolden(job.folder, job.file);
    const topology = topologyOf(job.folder, 'topo.xml', readTopology);
    const last =
      golden.oracle.lastNodeDiffers === 0
        ? undefined
        : topologyOf(job.folder, LAST_TOPOLOGY, readLastTopology);
    const own = ownParts(goldenInputs(topology, golden.oracle, last), callsOf(golden));
    const compared = aspects
      .map((aspect) => compareAspect(aspect, golden, own))
      .filter((outcome) => outcome !== null);
    return result(null, compared);
  } catch (error) {
    return result(error instanceof Error ? (error.stack ?? error.message) : String(error), []);
  }
}
