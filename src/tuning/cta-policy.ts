/**
 * What a user prefers thread blocks (CTAs) to be used for: speed, few of them, or none at all.
 *
 * (NCCL 2.30.7, init.cc.)
 */
import { TuttiError } from '../errors/tutti-error.js';
import { type LogSink, SILENT } from '../topology/log.js';

/** Bits of a policy, NCCL's numbers. */
export const CtaPolicy = {
  DEFAULT: 0,
  /** As few blocks as the NVSwitch needs. */
  EFFICIENCY: 1,
  /** Copy engines in place of kernels where they can do it. */
  ZERO: 2,
} as const;

const ALL = CtaPolicy.EFFICIENCY | CtaPolicy.ZERO;

/**
 * Policy of NCCL_CTA_POLICY: a digit 0, 1 or 2 (only the first character counts), or names joined by '|'.
 *
 * @returns undefined if the text is absent or holds no policy
 */
export function parseCtaPolicy(text: string | undefined, log: LogSink = SILENT): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (/^[0-9]/.test(text)) {
    const value = Number(text[0]);
    if (value <= CtaPolicy.ZERO) return value;
    log('INFO', 'ENV', `Invalid value ${text} for NCCL_CTA_POLICY, use 0, 1 or 2.`);
    return undefined;
  }
  let policy: number | undefined;
  for (const name of text.split('|')) {
    if (Object.hasOwn(CtaPolicy, name)) policy = (policy ?? 0) | CtaPolicy[name as keyof typeof CtaPolicy];
  }
  return policy;
}

/**
 * Policy of a communicator: the environment wins over the configuration, and ZERO over EFFICIENCY.
 *
 * @throws TuttiError invalidArgument for a configured value outside 0..3
 */
export function resolveCtaPolicy(
  environment: number | undefined,
  configured: number = CtaPolicy.DEFAULT,
  log: LogSink = SILENT,
): number {
  if (!Number.isInteger(configured) || configured < 0 || configured > ALL) {
    throw new TuttiError(
      'invalidArgument',
      `CTA policy ${configured} is unknown; use 0 (default), 1 (efficiency), 2 (zero) or 3 (both)`,
    );
  }
  const policy = environment ?? configured;
  if (policy !== ALL) return policy;
  log('WARN', 'INIT', 'CTA policies EFFICIENCY and ZERO exclude each other; EFFICIENCY is ignored');
  return CtaPolicy.ZERO;
}
