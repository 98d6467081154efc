import { assertAlmostEquals, assertEquals } from "@std/assert";
import { jainIndex, median } from "../../src/lab/statistics.ts";

Deno.test("lab statistics: the median does not depend on the order and leaves its input alone", () => {
  const values = [5, 1, 30, 2, 4];
  assertEquals(median(values), 4);
  assertEquals(values, [5, 1, 30, 2, 4]);
  assertEquals([median([3, 1]), median([7]), median([])], [2, 7, NaN]);
});

Deno.test("lab statistics: Jain's index is 1 for equal shares and 1/n if one has all", () => {
  assertEquals(jainIndex([3, 3, 3, 3]), 1);
  assertAlmostEquals(jainIndex([8, 0, 0, 0]), 0.25);
  assertAlmostEquals(jainIndex([1, 2, 3]), 36 / 42);
});
