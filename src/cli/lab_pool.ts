/**
 * Runs the cells of an experiment on all cores.
 *
 * A cell is a plain value, and running it depends on nothing else, so that the result is the same wherever it is run and
 * in whichever order. Each worker is a thread with a module of its own and is given one cell at a time, the costly ones
 * first if the caller orders them so. Where a worker cannot be started (the program may not read its own modules), cells
 * run one after the other in this thread.
 *
 * @module
 */

import { Failure, messageOf } from "./command.ts";
import { runFastRetransmitCell } from "../lab/fast_retransmit.ts";
import { runHystartCell } from "../lab/hystart.ts";
import { runRttEstimationCell } from "../lab/rtt_estimation.ts";

/** What can be run: the function of one cell of each experiment. */
const RUNS = {
  "fast-retransmit": runFastRetransmitCell,
  hystart: runHystartCell,
  "rtt-estimation": runRttEstimationCell,
} as const;

/** Experiments whose cells can be run on many cores. */
export type PooledExperiment = keyof typeof RUNS;

/** A cell of that experiment. */
export type CellOf<E extends PooledExperiment> = Parameters<(typeof RUNS)[E]>[0];

/** What a cell of that experiment gives. */
export type ResultOf<E extends PooledExperiment> = ReturnType<(typeof RUNS)[E]>;

/** A cell on its way to a worker. */
export interface CellTask {
  /** The experiment. */
  readonly experiment: PooledExperiment;
  /** The cell. */
  readonly cell: unknown;
}

/** A result on its way back; an error as its message. */
export type CellAnswer = { readonly result: unknown } | { readonly error: string };

/** Runs one cell here. */
export function runCell({ experiment, cell }: CellTask): CellAnswer {
  const run = RUNS[experiment] as (cell: unknown) => unknown;
  try {
    return { result: run(cell) };
  } catch (error) {
    return { error: `${experiment} ${JSON.stringify(cell)}: ${messageOf(error)}` };
  }
}

/** How {@linkcode runCells} goes about it. */
export interface PoolOptions {
  /** Threads (default one a core). */
  readonly jobs?: number;
  /** Told how many cells are done each time one is. */
  readonly onDone?: (done: number) => void;
}

/**
 * Runs all cells.
 *
 * @returns their results, in the order of the cells
 * @throws {Failure} what the first failing cell said
 */
export async function runCells<E extends PooledExperiment>(
  experiment: E,
  cells: readonly CellOf<E>[],
  { jobs = navigator.hardwareConcurrency, onDone }: PoolOptions = {},
): Promise<ResultOf<E>[]> {
  const results = new Array<ResultOf<E>>(cells.length);
  let next = 0;
  let done = 0;
  const take = async (run: (task: CellTask) => Promise<CellAnswer>): Promise<void> => {
    while (next < cells.length) {
      const i = next++;
      const answer = await run({ experiment, cell: cells[i] });
      if ("error" in answer) throw new Failure(answer.error);
      results[i] = answer.result as ResultOf<E>;
      onDone?.(++done);
    }
  };
  const workers = startWorkers(Math.min(jobs, cells.length));
  try {
    if (workers.length === 0) await take((task) => Promise.resolve(runCell(task)));
    else await Promise.all(workers.map((worker) => take((task) => ask(worker, task))));
  } finally {
    next = cells.length;
    for (const worker of workers) worker.terminate();
  }
  return results;
}

/** So many workers; none if one thread is enough or no worker may be started. */
function startWorkers(count: number): Worker[] {
  const workers: Worker[] = [];
  try {
    for (let i = 0; count > 1 && i < count; i++) {
      workers.push(new Worker(new URL("./lab_worker.ts", import.meta.url), { type: "module" }));
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
  }
  return workers;
}

function ask(worker: Worker, task: CellTask): Promise<CellAnswer> {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<CellAnswer>) => resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      reject(new Error(event.message));
    };
    worker.postMessage(task);
  });
}
