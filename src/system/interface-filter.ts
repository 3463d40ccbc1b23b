/**
 * The name filter of NCCL_SOCKET_IFNAME and NCCL_IB_HCA.
 *
 * Grammar: `[^][=]name[:port[:rail[:plane]]],...`. A leading `^` excludes the listed names, a following `=`
 * asks for equal names where the default is a common prefix. The order is fixed: `^=eth0` excludes exactly
 * eth0, while `=^eth0` looks for a name that really starts with `^`. An empty list matches every name, so
 * `^=` excludes everything. Source: behaviour of NCCL 2.30 (socket layer, interface discovery).
 */

/** Most items NCCL keeps of a socket interface list; further items are ignored. */
export const MAX_SOCKET_FILTER_ITEMS = 16;
/** Most items NCCL keeps of an InfiniBand device list. */
export const MAX_IB_FILTER_ITEMS = 32;

export interface InterfaceFilterItem {
  name: string;
  /** Port of an InfiniBand device; undefined matches any port. */
  port: number | undefined;
  rail: number | undefined;
  plane: number | undefined;
}

export interface InterfaceFilter {
  exclude: boolean;
  exact: boolean;
  items: readonly InterfaceFilterItem[];
}

function optionalNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
}

/** Reads a filter. `limit` bounds the number of items as NCCL does. */
export function parseInterfaceFilter(text: string, limit: number = MAX_SOCKET_FILTER_ITEMS): InterfaceFilter {
  let rest = text;
  const exclude = rest.startsWith('^');
  if (exclude) rest = rest.slice(1);
  const exact = rest.startsWith('=');
  if (exact) rest = rest.slice(1);
  const items = rest
    .split(',')
    .filter((item) => item !== '')
    .slice(0, limit)
    .map((item) => {
      const [name = '', port, rail, plane] = item.split(':');
      return { name, port: optionalNumber(port), rail: optionalNumber(rail), plane: optionalNumber(plane) };
    });
  return { exclude, exact, items };
}

/** Whether the filter lets `name` (and `port`, for InfiniBand devices) through. */
export function matchesInterfaceFilter(filter: InterfaceFilter, name: string, port?: number): boolean {
  const listed =
    filter.items.length === 0 ||
    filter.items.some(
      (item) =>
        (filter.exact ? name === item.name : name.startsWith(item.name)) &&
        (item.port === undefined || port === undefined || item.port === port),
    );
  return listed !== filter.exclude;
}
