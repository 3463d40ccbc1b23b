/**
 * Remembers what was chosen: programs repeat the same calls, and on a communicator a choice depends on nothing but
 * collective, bytes, whether it is an average, and whether its sums are wide.
 */
import { hasWideSum, type Reduction } from '../../collectives/arithmetic.js';
import type { Collective } from '../../collectives/control-block.js';
import { type Algorithm, reducesElements } from '../../collectives/registry.js';
import { type HostSelection, type HostSelectionSetting, selectOnHost } from '../host-selection.js';

/** Choices remembered for each collective; a program with more sizes starts again. */
const MOST_SIZES = 4096;

export class HostSelector {
  readonly #setting: HostSelectionSetting;
  readonly #known = new Map<Collective, Map<number, HostSelection>>();

  constructor(setting: HostSelectionSetting) {
    this.#setting = setting;
  }

  /**
   * As `selectOnHost`.
   *
   * @throws TuttiError invalidUsage where nothing may run the call
   */
  select(
    collective: Collective,
    { type, op }: Reduction,
    bytes: number,
    setUp?: (algorithm: Algorithm) => string | undefined,
  ): HostSelection {
    const isWide = reducesElements(collective) && hasWideSum(type) && (op === 'sum' || op === 'avg');
    const choose = (): HostSelection =>
      selectOnHost({
        ...this.#setting,
        ...{ collective, op, bytes, hasWideSum: isWide },
        ...(setUp !== undefined && { setUp }),
      });
    // What switches can do depends on more than is remembered; lists that allow them are rare.
    if (!this.#setting.choices.anyAlgorithm(collective)) return choose();
    let sizes = this.#known.get(collective);
    if (sizes === undefined) {
      sizes = new Map();
      this.#known.set(collective, sizes);
    }
    const key = 4 * bytes + (isWide ? 2 : 0) + (op === 'avg' ? 1 : 0);
    let selection = sizes.get(key);
    if (selection === undefined) {
      selection = choose();
      if (sizes.size >= MOST_SIZES) sizes.clear();
      sizes.set(key, selection);
    }
    return selection;
  }
}
