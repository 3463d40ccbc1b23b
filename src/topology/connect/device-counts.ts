/**
 * Ranks should see equally many network devices: a rank that lacks one would choose other NICs than its peers expect.
 * For NICs that is an error only on demand (NCCL_IGNORE_NET_MISMATCH=0), for CollNet unless the user allows it.
 *
 * (NCCL 2.30.7, init.cc.)
 */
import { TuttiError } from '../../errors/tutti-error.js';
import { greatestOf, leastOf } from '../extremes.js';
import { type LogSink, SILENT } from '../log.js';
import type { TopologySettings } from '../settings.js';
import type { DomainInfo } from './domain.js';

/**
 * Compares what the plugins report; domains that report nothing are left out.
 *
 * @throws TuttiError systemError if the numbers differ where they must not.
 */
export function checkDeviceCounts(
  domains: readonly DomainInfo[],
  settings: TopologySettings,
  log: LogSink = SILENT,
): void {
  const counts = domains.flatMap(({ devices }) => (devices === undefined ? [] : [devices]));
  if (counts.length === 0) return;
  for (const [kind, name, ignored] of [
    ['net', 'Net', settings.ignoreNetMismatch],
    ['collnet', 'CollNet', settings.ignoreCollnetMismatch],
  ] as const) {
    const numbers = counts.map((devices) => devices[kind]);
    const least = leastOf(numbers);
    const most = greatestOf(numbers);
    log('INFO', 'INIT', `Local ${name} device counts across ranks: min ${least} max ${most}`);
    if (least === most || ignored) continue;
    const variable = `NCCL_IGNORE_${name.toUpperCase()}_MISMATCH`;
    const message =
      `ranks have different numbers of ${name} devices (${least} to ${most}): make the same devices visible to ` +
      `all, or set ${variable}=1 to go on`;
    log('WARN', 'INIT', message);
    throw new TuttiError('systemError', message);
  }
}
