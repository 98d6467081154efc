/**
 * Addresses for the names of peers.
 *
 * The system's resolver is asked (getaddrinfo): it knows the files and the servers of the machine, and needs no permission but
 * that to use the network at the name. How long an answer holds it does not tell.
 *
 * @module
 */

import { lookup } from "node:dns/promises";
import { IpAddr } from "../wire/ip_addr.ts";

/**
 * Gives the addresses of a name in the resolver's order, at least one.
 *
 * @throws {Error} if there are none, saying why
 */
export type ResolveName = (hostname: string) => Promise<readonly IpAddr[]>;

/** Asks the system's resolver. */
export const resolveBySystem: ResolveName = async (hostname) => {
  try {
    const answers = await lookup(hostname, { all: true, verbatim: true });
    return answers.map(({ address }) => IpAddr.parse(address.replace(/%.*$/, "")));
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (error instanceof Deno.errors.NotCapable || code === "EPERM") {
      throw new Deno.errors.NotCapable(`looking up ${hostname} needs --allow-net=${hostname}`);
    }
    if (code === "ENOTFOUND" || code === "EAI_NODATA" || code === "EAI_NONAME") {
      throw new Error("there is no such name");
    }
    throw error;
  }
};

/** Has a resolver be asked for each name once, and for a bounded number of names at a time. */
export function limitResolver(resolve: ResolveName, limit: number): ResolveName {
  const known = new Map<string, Promise<readonly IpAddr[]>>();
  const waiting: (() => void)[] = [];
  let running = 0;
  const ask = async (hostname: string): Promise<readonly IpAddr[]> => {
    if (running === limit) await new Promise<void>((go) => waiting.push(go));
    else running++;
    try {
      return await resolve(hostname);
    } finally {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
  return (hostname) => {
    let answer = known.get(hostname);
    if (answer === undefined) known.set(hostname, answer = ask(hostname));
    return answer;
  };
}
