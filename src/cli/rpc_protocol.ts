/**
 * What a client of `rpc` says to its server.
 *
 * A connection begins with sixteen bytes: a magic number, the length of each request, the length of each reply, and
 * zero. Then come requests of that length, as many as the client likes and without waiting, and each is answered in
 * order by a reply of that length. When the client ends its side, the server ends its own after the last reply.
 *
 * @module
 */

/** The port that a server listens on if not said otherwise. */
export const RPC_PORT = 5202;

/** The longest request and reply. */
export const MESSAGE_BYTES_MAX = 1 << 24;

/** Length of the head of a connection. */
export const HEAD_BYTES = 16;

const MAGIC = 0x43565251;

/** The head of a connection. */
export interface RpcHead {
  /** Bytes of each request. */
  requestBytes: number;
  /** Bytes of each reply. */
  replyBytes: number;
}

/** Writes the head of a connection. */
export function emitRpcHead({ requestBytes, replyBytes }: RpcHead): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEAD_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC);
  view.setUint32(4, requestBytes);
  view.setUint32(8, replyBytes);
  return bytes;
}

/** Reads the head of a connection; `null` if it is none. */
export function parseRpcHead(bytes: Uint8Array): RpcHead | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const requestBytes = view.getUint32(4);
  const replyBytes = view.getUint32(8);
  const isLength = (n: number): boolean => n >= 1 && n <= MESSAGE_BYTES_MAX;
  return view.getUint32(0) === MAGIC && isLength(requestBytes) && isLength(replyBytes)
    ? { requestBytes, replyBytes }
    : null;
}
