import { describe, expect, it } from 'vitest';
import { binaryTree, type TreePlace } from '#src/topology/connect/binary-tree.js';
import { doubleTree } from '#src/topology/connect/double-tree.js';

/** parent, child 0, child 1, child type (- at a root). */
const text = ({ parent, child0, child1, childType }: TreePlace) =>
  [parent, child0, child1, parent === -1 ? '-' : childType].join();

/** Rows: number of nodes, node, its place in the first and in the second tree. */
const VECTORS = [
  [1, 0, '-1,-1,-1,-', '-1,-1,-1,-'],
  [2, 0, '-1,-1,1,-', '1,-1,-1,1'],
  [2, 1, '0,-1,-1,1', '-1,-1,0,-'],
  [3, 0, '-1,-1,2,-', '1,2,-1,1'],
  [3, 1, '2,-1,-1,0', '-1,-1,0,-'],
  [3, 2, '0,1,-1,1', '0,-1,-1,0'],
  [4, 0, '-1,-1,2,-', '1,-1,-1,1'],
  [4, 1, '2,-1,-1,0', '3,2,0,1'],
  [4, 2, '0,1,3,1', '1,-1,-1,0'],
  [4, 3, '2,-1,-1,1', '-1,-1,1,-'],
  [5, 0, '-1,-1,4,-', '1,3,-1,1'],
  [5, 1, '2,-1,-1,0', '-1,-1,0,-'],
  [5, 2, '4,1,3,0', '3,-1,-1,0'],
  [5, 3, '2,-1,-1,1', '0,2,4,0'],
  [5, 4, '0,2,-1,1', '3,-1,-1,1'],
  [8, 0, '-1,-1,4,-', '1,-1,-1,1'],
  [8, 1, '2,-1,-1,0', '3,2,0,1'],
  [8, 2, '4,1,3,0', '1,-1,-1,0'],
  [8, 3, '2,-1,-1,1', '7,5,1,1'],
  [8, 4, '0,2,6,1', '5,-1,-1,1'],
  [8, 5, '6,-1,-1,0', '3,6,4,0'],
  [8, 6, '4,5,7,1', '5,-1,-1,0'],
  [8, 7, '6,-1,-1,1', '-1,-1,3,-'],
] as const;

describe('double binary tree', () => {
  it('equals the vectors computed by hand [C04-23]', () => {
    for (const [count, node, first, second] of VECTORS) {
      expect([count, node, ...doubleTree(count, node).map(text)]).toEqual([count, node, first, second]);
    }
  });

  it('has the six-node tree of the text book example', () => {
    const tree = Array.from({ length: 6 }, (_, node) => text(binaryTree(6, node)));
    expect(tree).toEqual(['-1,-1,4,-', '2,-1,-1,0', '4,1,3,0', '2,-1,-1,1', '0,2,5,1', '4,-1,-1,1']);
  });

  it('is two trees for every number of nodes to 1,024: one root, agreeing ends, all reached [C04-23]', () => {
    for (let count = 1; count <= 1024; count++) {
      const places = Array.from({ length: count }, (_, node) => doubleTree(count, node));
      for (const k of [0, 1] as const) {
        const fault = faultOf(places.map((both) => both[k]));
        if (fault !== undefined) expect.fail(`tree ${k} of ${count} nodes: ${fault}`);
      }
    }
  });

  it('lets no node carry both trees: none if their number is even, only node 0 if it is odd', () => {
    for (let count = 2; count <= 1024; count++) {
      const inBoth = [];
      for (let node = 0; node < count; node++) {
        if (doubleTree(count, node).every(isInterior)) inBoth.push(node);
      }
      expect([count, ...inBoth]).toEqual(count % 2 === 0 ? [count] : [count, 0]);
    }
  });

  it('is as deep as a balanced tree', () => {
    for (const [count, depth] of [
      [2, 1],
      [8, 3],
      [9, 4],
      [1000, 10],
      [1024, 10],
    ] as const) {
      const places = Array.from({ length: count }, (_, node) => binaryTree(count, node));
      const depths = places.map((_, node) => {
        let steps = 0;
        for (let at = node; places[at]!.parent !== -1; at = places[at]!.parent) steps++;
        return steps;
      });
      expect([count, Math.max(...depths)]).toEqual([count, depth]);
    }
  });
});

const isInterior = ({ child0, child1 }: TreePlace) => child0 !== -1 || child1 !== -1;

/** What is wrong with a tree, undefined if it is one. */
function faultOf(places: readonly TreePlace[]): string | undefined {
  const roots = places.flatMap(({ parent }, node) => (parent === -1 ? [node] : []));
  if (roots.length !== 1) return `roots ${roots}`;
  let reached = 0;
  const left = [...roots];
  for (let node = left.pop(); node !== undefined; node = left.pop()) {
    reached++;
    const { child0, child1 } = places[node]!;
    for (const [type, child] of [child0, child1].entries()) {
      if (child === -1) continue;
      const { parent, childType } = places[child]!;
      if (parent !== node || childType !== type) return `${node} and its child ${child} disagree`;
      left.push(child);
    }
    if (reached > places.length) return 'a cycle';
  }
  return reached === places.length ? undefined : `${reached} nodes below the root`;
}
