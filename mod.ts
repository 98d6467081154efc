/**
 * Culvert: a userspace router and TCP/IP host whose link layer is IP in UDP between peers.
 *
 * {@linkcode openHost} makes a host; its sockets have the shape of Deno's own.
 *
 * ```ts
 * import { openHost } from "@culvert/culvert";
 *
 * const toB = { endpoint: "127.0.0.1:7102", allowed: ["10.7.0.2"], impair: { out: "delay 5ms" } };
 * const toA = { endpoint: "127.0.0.1:7101", allowed: ["10.7.0.1"] };
 * await using a = await openHost({ address: "10.7.0.1/24", listen: "127.0.0.1:7101", peers: [toB] });
 * await using b = await openHost({ address: "10.7.0.2/24", listen: "127.0.0.1:7102", peers: [toA] });
 *
 * using listener = b.listen({ port: 80 });
 * await using conn = await a.connect({ hostname: "10.7.0.2", port: 80 });
 * await using served = await listener.accept();
 * await served.write(new TextEncoder().encode("hello"));
 * const buffer = new Uint8Array(16);
 * console.log(await conn.read(buffer), conn.info().rtt);
 * ```
 *
 * @module
 */

export { type Duration, type Instant, MICROSECOND, MILLISECOND, SECOND } from "./src/base/time.ts";
export {
  type ConnectionServer,
  type Connector,
  connector,
  type ConnectorOptions,
  serve,
  TcpDuplex,
  type TcpDuplexOptions,
  toDuplex,
} from "./src/host/duplex.ts";
export {
  type DistributionTable,
  type LossGemodel,
  type LossState,
  type NetemConfig,
  type NetemDelivery,
  type NetemDistribution,
  type NetemSlot,
  type NetemTrace,
} from "./src/impair/config.ts";
export { type NetemDelays, type NetemFigure, type NetemReport } from "./src/impair/meter.ts";
export { type NetemTextOptions, type NetemWarning, parseNetem } from "./src/impair/parse.ts";
export { type TraceRow } from "./src/impair/trace.ts";
export { CaptureFile, type CaptureFileOptions, type CaptureFileStats } from "./src/runtime/capture_file.ts";
export { type DriverStats } from "./src/runtime/driver.ts";
export {
  type CloseOptions,
  type ConnectOptions,
  type HostInspection,
  type ListenDatagramOptions,
  type ListenOptions,
  type TunInspection,
} from "./src/runtime/host.ts";
export { type LookupInspection } from "./src/runtime/endpoint_lookups.ts";
export { type LatenessStats } from "./src/runtime/lateness.ts";
export { Host, openHost } from "./src/runtime/open_host.ts";
export { type DeviceStats } from "./src/runtime/packet_device.ts";
export { type UdpPortStats } from "./src/runtime/udp_port.ts";
export { type UnderlayChoice } from "./src/runtime/underlay.ts";
export { type NetAddr } from "./src/socket/address.ts";
export {
  type PingAnswer,
  type PingError,
  type PingOptions,
  type PingReply,
  type PingTimeout,
} from "./src/socket/ping.ts";
export { TcpConn } from "./src/socket/tcp_conn.ts";
export { TcpListener } from "./src/socket/tcp_listener.ts";
export { UdpConn } from "./src/socket/udp_conn.ts";
export {
  type HostOptions,
  type HostPeerOptions,
  type HostTunOptions,
  type ImpairOption,
  type NetemOption,
} from "./src/stack/config.ts";
export {
  type ConnectionSnapshot,
  type ImpairSnapshot,
  type InterfaceSnapshot,
  type PingSnapshot,
  type StackSnapshot,
  type UdpSnapshot,
} from "./src/stack/inspect.ts";
export { type EcnMode, type LinuxPortConfig, type RouteType, type SleeperConfig } from "./src/stack/options.ts";
export { type PeerEvent } from "./src/stack/peer_events.ts";
export { type CongestionEvent, formatCongestionEvents } from "./src/tcp/congestion_trace.ts";
export { type TcpInfo } from "./src/tcp/info.ts";
export { type EcnOption, type TcpOptions } from "./src/tcp/options.ts";
export { type PacingMode } from "./src/tcp/pacing.ts";
export { type PeerState } from "./src/tunnel/keepalive.ts";
export { type LearnedBy } from "./src/tunnel/peer_table.ts";
export { type UdpOptions } from "./src/udp/udp.ts";
export { type PathMtuDiscovery } from "./src/udp/udp_socket.ts";
export { type MtuProbing } from "./src/tcp/pmtud.ts";
export { type RtoModel } from "./src/tcp/rtt.ts";
