/** A worker thread that checks files, one job after the other. */
import { parentPort } from "node:worker_threads";
import { type HeadJob, readHeads } from "./head-reads.ts";

parentPort?.on("message", ({ id, job }: { id: number; job: HeadJob }) => {
  parentPort?.postMessage({ id, reply: readHeads(job) });
});
parentPort?.postMessage({ ready: true });
