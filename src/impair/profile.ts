/**
 * Named profiles of access links and long paths, for both directions, with where their figures come from.
 *
 * A profile is the text of an impairment: first `rate` and `limit`, which decide what a transport protocol sees, then
 * half the round-trip time that the source gives, in each direction. `limit` is what is in flight (the rate times the
 * delay, in packets of 1,500 bytes) plus a buffer of one round trip, or of 50 packets if that is more (C. Villamizar and
 * C. Song, High Performance TCP in ANSNET, 1994). No profile loses packets by itself: these sources measured above link
 * layers that repeat what was lost, and the full buffer loses enough. They are starting points and no measurements of
 * your network; options behind a profile replace its own.
 *
 * @module
 */

/** The name of a profile. */
export type ProfileName =
  | "3g"
  | "lte"
  | "5g"
  | "dsl"
  | "cable"
  | "fibre"
  | "wifi"
  | "geo-satellite"
  | "leo-satellite"
  | "transatlantic";

/** Both directions of a link: towards its user, and from its user. */
interface Profile {
  readonly down: string;
  readonly up: string;
}

const PROFILES: Readonly<Record<ProfileName, Profile>> = {
  // WebPageTest, connectivity.ini.sample, [3G]: 1.6 Mbit/s and 768 kbit/s, round trip of 300 ms.
  "3g": { down: "rate 1.6mbit limit 70 delay 150ms", up: "rate 768kbit limit 60 delay 150ms" },
  // WebPageTest, preset "LTE": 12 Mbit/s both ways, round trip of 70 ms.
  "lte": { down: "rate 12mbit limit 105 delay 35ms", up: "rate 12mbit limit 105 delay 35ms" },
  // Ookla, Growing and Slowing: The State of 5G Worldwide in 2021: median 166.13 and 21.08 Mbit/s; latency 47 ms: Ookla
  // on the fastest network of the USA in the first half of 2024 (RCR Wireless News, 17 July 2024).
  "5g": { down: "rate 166.13mbit limit 977 delay 23.5ms", up: "rate 21.08mbit limit 125 delay 23.5ms" },
  // WebPageTest, connectivity.ini.sample, [DSL]: 1.5 Mbit/s and 384 kbit/s, round trip of 50 ms.
  "dsl": { down: "rate 1.5mbit limit 54 delay 25ms", up: "rate 384kbit limit 51 delay 25ms" },
  // WebPageTest, connectivity.ini.sample, [Cable]: 5 and 1 Mbit/s, round trip of 28 ms.
  "cable": { down: "rate 5mbit limit 56 delay 14ms", up: "rate 1mbit limit 52 delay 14ms" },
  // WebPageTest, connectivity.ini.sample, [FIOS]: 20 and 5 Mbit/s, round trip of 4 ms.
  "fibre": { down: "rate 20mbit limit 54 delay 2ms", up: "rate 5mbit limit 51 delay 2ms" },
  // K. Sui et al., Characterizing and Improving WiFi Latency in Large-Scale Operational Networks, MobiSys 2016: 90 % of
  // round trips over the Wi-Fi hop within about 20 ms, with a long tail (99 % within 250 ms, of which this has only a
  // part). Rate: 60 % of the 433.3 Mbit/s of IEEE 802.11ac with one stream in 80 MHz.
  "wifi": {
    down: "rate 260mbit limit 326 delay 5ms 5ms distribution pareto",
    up: "rate 260mbit limit 326 delay 5ms 5ms distribution pareto",
  },
  // G. Huston, Testing LEO and GEO satellite services in Australia, APNIC 2022: round trips of about 600 ms. Rates: the
  // subscription of 100 and 10 Mbit/s in Fact checking Starlink's performance figures, APNIC 2022.
  "geo-satellite": { down: "rate 100mbit limit 7500 delay 300ms", up: "rate 10mbit limit 750 delay 300ms" },
  // Fact checking Starlink's performance figures, APNIC 2022: median round trip of 50 ms, quartiles of 40 and 60 ms.
  // Rates: Ookla's medians of the first quarter of 2025, 104.71 and 14.84 Mbit/s (RCR Wireless News).
  "leo-satellite": {
    down: "rate 104.71mbit limit 655 delay 25ms 10ms distribution normal",
    up: "rate 14.84mbit limit 93 delay 25ms 10ms distribution normal",
  },
  // New York to London and back: 65 ms over AC-1, 58.95 ms over the shortest cable (Silicon UK, September 2011; The
  // Broadcast Bridge, 2015). Rate: a port of 1 Gbit/s at both ends.
  "transatlantic": { down: "rate 1gbit limit 8126 delay 32.5ms", up: "rate 1gbit limit 8126 delay 32.5ms" },
};

/** The names of all profiles. */
export const PROFILE_NAMES: readonly ProfileName[] = Object.keys(PROFILES) as ProfileName[];

/**
 * The text of a profile in one direction.
 *
 * @param direction `"down"` towards the user of the link, `"up"` from it
 * @returns `null` if there is no profile of that name
 */
export function profileText(name: string, direction: "down" | "up"): string | null {
  return Object.hasOwn(PROFILES, name) ? PROFILES[name as ProfileName][direction] : null;
}
