/**
 * A simulated network: the same stack, queueing and impairments as in the real runtime, under a virtual clock.
 *
 * A run of an hour takes seconds, and the same seed gives the same packets to the byte. Programs on the hosts are
 * sans-IO: they call the stack's sockets and are told of events and times; nothing waits.
 *
 * ```ts
 * import { IpAddr, MILLISECOND, SECOND, Simulator, Tcb, TcpListener } from "@culvert/culvert/netsim";
 *
 * const sim = new Simulator({ seed: 1 });
 * const a = sim.addStack("a", { address: "10.0.0.1/24", peers: [{ name: "b", allowed: "10.0.0.2" }] });
 * const b = sim.addStack("b", { address: "10.0.0.2/24", peers: [{ name: "a", allowed: "10.0.0.1" }] });
 * sim.link(["a", 1], ["b", 1], { delay: 20 * MILLISECOND, impair: "loss 0.5% rate 50mbit" });
 *
 * const listener = b.tcp.listen(IpAddr.parse("10.0.0.2"), 80);
 * const conn = a.tcp.connect(IpAddr.parse("10.0.0.2"), 80, {}, sim.now);
 * if (!(listener instanceof TcpListener) || !(conn instanceof Tcb)) throw new Error("refused");
 * conn.write(new TextEncoder().encode("hello"), 0, 5);
 * sim.run(10 * SECOND);
 * console.log(listener.accept()?.readableBytes, conn.info().rtt, sim.digest);
 * ```
 *
 * @module
 */

export { DropCounters, DropReason, dropReasonName, type DropSink } from "../base/drop.ts";
export { SocketErrorKind } from "../base/errors.ts";
export { EventQueue, type EventSource, SocketEvent } from "../base/event_queue.ts";
export { Packet, PacketPool } from "../base/packet.ts";
export { RingBuffer } from "../base/ring_buffer.ts";
export { Rng } from "../base/rng.ts";
export { type Stage } from "../base/stage.ts";
export {
  type Duration,
  fromMilliseconds,
  type Instant,
  MICROSECOND,
  MILLISECOND,
  NEVER,
  SECOND,
  toMilliseconds,
} from "../base/time.ts";
export { Icmp } from "../icmp/icmp.ts";
export { type PingHost, PingOutcome, type PingResult, PingSocket } from "../icmp/ping_socket.ts";
export {
  type DistributionTable,
  type LossGemodel,
  type LossState,
  NETEM_DEFAULTS,
  type NetemConfig,
  netemConfig,
  type NetemDelivery,
  type NetemDistribution,
  type NetemSlot,
  type NetemTrace,
} from "../impair/config.ts";
export { formatNetem } from "../impair/format.ts";
export { type NetemDelays, type NetemFigure, type NetemReport } from "../impair/meter.ts";
export { NetemStage } from "../impair/netem_stage.ts";
export { type NetemTextOptions, type NetemWarning, parseNetem } from "../impair/parse.ts";
export { type TraceRow } from "../impair/trace.ts";
export { IpLayer } from "../ip/ip_layer.ts";
export { type NetInterface } from "../ip/network.ts";
export { type Route, RouteKind, type RouteOptions, RouteTable } from "../ip/route_table.ts";
export { type FqOptions } from "../qdisc/fq.ts";
export { type PfifoOptions } from "../qdisc/pfifo.ts";
export { type Qdisc } from "../qdisc/qdisc.ts";
export { type CapturedInterface, PacketCapture, StackCapture } from "../stack/capture.ts";
export {
  type HostOptions,
  type HostPeerOptions,
  type HostTunOptions,
  type ImpairOption,
  type NetemOption,
} from "../stack/config.ts";
export { DeviceInterface } from "../stack/device_interface.ts";
export {
  type ConnectionSnapshot,
  type ImpairSnapshot,
  type InterfaceSnapshot,
  type PingSnapshot,
  type StackSnapshot,
  type UdpSnapshot,
} from "../stack/inspect.ts";
export { InterfaceStages } from "../stack/interface_stages.ts";
export {
  type EcnMode,
  type EncapsulationConfig,
  type Endpoint,
  type ImpairConfig,
  type LinuxPortConfig,
  type PeerConfig,
  type QdiscConfig,
  type RouteConfig,
  type RouteType,
  type SleeperConfig,
  type StackOptions,
  type TunConfig,
} from "../stack/options.ts";
export { type PacketTap, TapPoint } from "../stack/packet_tap.ts";
export { type PeerEvent, PeerEvents } from "../stack/peer_events.ts";
export { Stack } from "../stack/stack.ts";
export { AckSample, type CongestionControl, CongestionSignal, LossSample } from "../tcp/congestion/control.ts";
export { type SegmentError } from "../tcp/icmp_errors.ts";
export { type CongestionEvent, CongestionTrace, formatCongestionEvents } from "../tcp/congestion_trace.ts";
export { type TcpInfo } from "../tcp/info.ts";
export { TcpListener } from "../tcp/listener.ts";
export { type TcpNetwork } from "../tcp/network.ts";
export { type EcnOption, type TcpOptions } from "../tcp/options.ts";
export { type PacingMode } from "../tcp/pacing.ts";
export { RateSampler } from "../tcp/rate_sample.ts";
export { Reassembly } from "../tcp/reassembly.ts";
export { type RateState, RetransmitQueue } from "../tcp/retransmit_queue.ts";
export { type RtoModel, RttEstimator } from "../tcp/rtt.ts";
export { RecoveryState, TcpState } from "../tcp/state.ts";
export { Tcb, TcpCounters } from "../tcp/tcb.ts";
export { Tcp, type TcpConnectOptions } from "../tcp/tcp.ts";
export { type Encapsulation } from "../tunnel/encapsulation.ts";
export { type LearnedBy, Peer, type PeerOptions, PeerTable } from "../tunnel/peer_table.ts";
export { Tunnel } from "../tunnel/tunnel.ts";
export { type UdpError } from "../udp/network.ts";
export { Udp, type UdpOptions } from "../udp/udp.ts";
export { type PathMtuDiscovery, type UdpHost, UdpSocket } from "../udp/udp_socket.ts";
export { IpAddr, IpInterface, IpPrefix } from "../wire/ip_addr.ts";
export { IpHeader } from "../wire/ip_header.ts";
export { PcapngClock, PcapngDirection } from "../wire/pcapng.ts";
export { TcpHeader } from "../wire/tcp.ts";
export { SimBottleneck, type SimBottleneckOptions } from "./bottleneck.ts";
export { captureLinks } from "./capture.ts";
export { Simulator, type SimulatorOptions } from "./simulator.ts";
export {
  type SimApp,
  SimDirection,
  type SimDirectionOptions,
  type SimHost,
  SimLink,
  SimNode,
  type SimPort,
  type SimTracer,
  TraceKind,
} from "./topology.ts";
export { AckFacts } from "../tcp/ack_facts.ts";
export { BusyTime, Limit } from "../tcp/busy_time.ts";
export { type KeepaliveOptions, Keepalives, type PeerState } from "../tunnel/keepalive.ts";
export { type MtuProbing, PathMtu } from "../tcp/pmtud.ts";
export { Prr } from "../tcp/prr.ts";
export { Rack } from "../tcp/rack.ts";
export { ReceiveTuning } from "../tcp/autotune.ts";
export { type ReversePathMode } from "../ip/reverse_path.ts";
export { SynCookieCounters } from "../tcp/syn_cookies.ts";
export { HashUse, TcpSecrets } from "../tcp/secrets.ts";
