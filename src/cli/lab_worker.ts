/**
 * A worker of `lab`: runs the cells that it is sent, one at a time, and sends back what they give.
 *
 * @module
 */

import { type CellTask, runCell } from "./lab_pool.ts";

self.onmessage = ({ data }: MessageEvent<CellTask>) => self.postMessage(runCell(data));
