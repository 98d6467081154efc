/**
 * Looking at ports that read their sockets themselves, for tests of ports without a driver.
 *
 * @module
 */

import { type Instant, NEVER } from "../../src/base/time.ts";
import { MonotonicClock } from "../../src/runtime/clock.ts";
import { acquireLibc, type Libc } from "../../src/runtime/linux/libc.ts";
import { PollSleeper } from "../../src/runtime/linux/poll_sleeper.ts";
import type { PolledPort } from "../../src/runtime/udp_port.ts";

/** The C library, where a test has made sure that there is one. */
export function libcForTest(): Libc {
  const libc = acquireLibc();
  if (typeof libc === "string") throw new Error(libc);
  return libc;
}

/** Has `port` told of datagrams until the answer is disposed of. */
export function pollPort(port: PolledPort): AsyncDisposable {
  const clock = new MonotonicClock();
  const sleeper = new PollSleeper("ppoll", libcForTest(), [port], clock, () => {});
  const sleep = (now: Instant): void => sleeper.sleepUntil(NEVER, now);
  sleeper.keepAlive(true);
  sleep(clock.now());
  // Once datagrams wait nobody is told of more, so it goes to sleep again by itself.
  const again = setInterval(() => sleep(clock.now()), 1);
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(again);
      await sleeper.close();
    },
  };
}
