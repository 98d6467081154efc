/**
 * An OpenSSH server of our own in a namespace: with a host key, a user key and settings that are made for it.
 *
 * The system's server, its keys and its settings are not touched. The server runs in a mount namespace in which `/run` is
 * empty and the users are those that it needs, so it does not matter whether root may log in to this machine, and nothing
 * of it stays.
 *
 * @module
 */

import { linesOf, type Namespace } from "./namespaces.ts";

const PORT = 22;

/** How a client finds and trusts the server. */
export class SshServer {
  readonly #folder: string;

  /**
   * Starts a server that listens for both families in `ns`; it ends with the namespace.
   *
   * @param folder where its files may be
   */
  static async start(ns: Namespace, folder: string): Promise<SshServer> {
    const of = (name: string): string => `${folder}/${name}`;
    for (const key of ["host_key", "user_key"]) {
      await ns.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", of(key));
    }
    await Deno.writeTextFile(of("passwd"), `root:x:0:0::${folder}:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n`);
    await Deno.writeTextFile(of("shadow"), "root:*:20000:0:99999:7:::\nsshd:*:20000:0:99999:7:::\n");
    await Deno.writeTextFile(
      of("sshd_config"),
      [
        ...[`Port ${PORT}`, `HostKey ${of("host_key")}`, `AuthorizedKeysFile ${of("user_key.pub")}`, "PidFile none"],
        ...["UsePAM no", "StrictModes no", "PasswordAuthentication no", "PermitRootLogin prohibit-password"],
        ...["UseDNS no", "PrintMotd no", "PrintLastLog no", "LogLevel ERROR", ""],
      ].join("\n"),
    );
    const hostKey = await Deno.readTextFile(of("host_key.pub"));
    await Deno.writeTextFile(of("known_hosts"), `* ${hostKey}`);
    const script = [
      "set -e",
      "mount -t tmpfs tmpfs /run",
      "mkdir -m 755 /run/sshd",
      `mount --bind "$1/passwd" /etc/passwd`,
      `mount --bind "$1/shadow" /etc/shadow`,
      `/usr/sbin/sshd -t -f "$1/sshd_config"`,
      "echo ready",
      `exec /usr/sbin/sshd -D -e -f "$1/sshd_config"`,
    ].join("\n");
    const options: Deno.CommandOptions = { stdin: "null", stdout: "piped", stderr: "inherit" };
    const child = ns.command(options, "unshare", "--mount", "sh", "-c", script, "sshd", folder).spawn();
    const { value } = await linesOf(child.stdout).next();
    if (value !== "ready") throw new Error("the SSH server did not start");
    await ns.listening(PORT);
    return new SshServer(folder);
  }

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** The words of a client that runs a command as root at `address`. */
  client(address: string): string[] {
    const options = [
      `UserKnownHostsFile=${this.#folder}/known_hosts`,
      ...["StrictHostKeyChecking=yes", "BatchMode=yes", "ConnectTimeout=20", "IdentitiesOnly=yes"],
    ];
    const key = `${this.#folder}/user_key`;
    return ["ssh", "-F", "none", "-i", key, ...options.flatMap((option) => ["-o", option]), `root@${address}`];
  }
}
