/**
 * The named profiles: each can be used, says rate and limit first, and has room for what is in flight.
 *
 * @module
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { SECOND } from "../../src/base/time.ts";
import { parseNetem } from "../../src/impair/parse.ts";
import { PROFILE_NAMES, profileText } from "../../src/impair/profile.ts";
import { Wire } from "../testing/wire.ts";

Deno.test("profiles: all of them are there, in both directions", () => {
  assertEquals(PROFILE_NAMES.toSorted(), [
    ...["3g", "5g", "cable", "dsl", "fibre", "geo-satellite", "leo-satellite", "lte", "transatlantic", "wifi"],
  ]);
  for (const name of PROFILE_NAMES) {
    for (const direction of ["down", "up"] as const) {
      const text = profileText(name, direction)!;
      assertMatch(text, /^rate \S+ limit \d+ delay /, name);
      const warnings: string[] = [];
      const config = parseNetem(`profile ${name} ${direction}`, { warn: ({ text }) => warnings.push(text) });
      assertEquals([config, warnings], [parseNetem(text), []]);
      // In flight, and a buffer of a round trip or of 50 packets.
      const inFlight = config.rateBytesPerSec * config.delay / SECOND / 1500;
      assert(config.limit >= Math.floor(inFlight + Math.max(2 * inFlight, 50)), `${name}: ${config.limit}`);
      assert(config.limit <= 1.1 * (inFlight + Math.max(2 * inFlight, 50)) + 12, `${name}: ${config.limit}`);
    }
  }
  assertEquals([profileText("isdn", "up"), profileText("toString", "up")], [null, null]);
});

Deno.test("profiles: a saturated profile fills its link", () => {
  for (const name of PROFILE_NAMES) {
    const config = parseNetem(`profile ${name}`);
    const wire = new Wire(config);
    for (let i = 0; i < config.limit; i++) wire.send(0, 1500);
    assertEquals(wire.refused, []);
    const last = wire.arrivals().at(-1)!;
    const expected = config.delay + config.limit * 1500 / config.rateBytesPerSec * SECOND;
    assert(Math.abs(last.at - expected) <= config.jitter * 4 + config.limit, name);
    assertEquals(last.n, config.limit - 1);
  }
});
