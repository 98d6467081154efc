/**
 * A worker of `lab`: runs the cells that it is sent, one at a time, and sends back what they give.
 *
 * @module
 */

import { type CellTask, runCell } from "./lab_pool.ts";

/** What a worker's global scope has, which the types of the main thread do not know. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<CellTask>) => void) | null;
  postMessage(message: unknown): void;
}

const scope = globalThis as unknown as WorkerScope;
scope.onmessage = ({ data }) => scope.postMessage(runCell(data));
