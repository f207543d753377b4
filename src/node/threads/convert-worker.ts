/** A worker thread that converts or verifies the archives that it gets. Knows messages; must not know conversions. */
import { join } from "node:path";
import { parentPort } from "node:worker_threads";
import { open } from "../../archive/open/open.ts";
import { targetOf } from "../../convert/run/convert.ts";
import type { Helper } from "../../convert/run/helpers.ts";
import { packError } from "../../errors.ts";
import { unpackOptions } from "../../plan/plan.ts";
import { SourceHelper } from "../../plan/source-helper.ts";
import { locateDestination, locateSources } from "../convert.ts";
import { verifyLinkAt } from "../dual/link.ts";
import { FileStore } from "../fs/fs-store.ts";
import type { HelperJob, HelperReply, VerifyJob, VerifyReply } from "./convert-helpers.ts";
import { encoderOf } from "./threads.ts";

/** Stores of the folders whose archives are verified. */
const stores = new Map<string, FileStore>();

async function verify({ root, key }: VerifyJob, signal: AbortSignal): Promise<VerifyReply> {
  let dialect: VerifyReply["dialect"];
  try {
    const store = stores.get(root) ?? new FileStore(root);
    stores.set(root, store);
    const archive = await open(store, key, { signal });
    dialect = archive.dialect;
    const report = await archive.verify({ signal });
    const linked = await verifyLinkAt(join(root, key), { signal });
    return { dialect, report, ...(linked === undefined ? {} : { linked }) };
  } catch (error) {
    return { ...(dialect === undefined ? {} : { dialect }), error: packError(error) };
  }
}

let helper: Helper | undefined;
/** The jobs of a conversion so far: each waits for those before it. */
let answered: Promise<unknown> = Promise.resolve();
/** The abort controllers of unanswered jobs. */
const stops = new Map<number, AbortController>();

async function answer(job: HelperJob, signal: AbortSignal): Promise<HelperReply> {
  try {
    if (job.kind === "begin") {
      const { blosc, isResumed } = job;
      const options = { ...unpackOptions(job.options), encoder: encoderOf({ threads: 0, blosc }) };
      const { store: source } = await locateSources(job.from, options.skipFailed);
      const target = targetOf(options.to);
      const destination = locateDestination(job.to, options);
      helper = new SourceHelper({ target, source, destination, options, isResumed });
    } else if (job.kind === "finish") await helper?.finish(signal);
    else return { outcomes: (await helper?.run(job.sources, job.describes, signal)) ?? [] };
    return { outcomes: [] };
  } catch (error) {
    return { outcomes: [], error: packError(error) };
  }
}

type Order =
  | { readonly id: number; readonly job: HelperJob | VerifyJob }
  | { readonly id: number; readonly cancelled: true };

parentPort?.on("message", async (order: Order) => {
  const { id } = order;
  if ("cancelled" in order) return stops.get(id)?.abort();
  const stop = new AbortController();
  stops.set(id, stop);
  const { job } = order;
  const { signal } = stop;
  const answering = job.kind === "verify" ? verify(job, signal) : answered.then(() => answer(job, signal));
  if (job.kind !== "verify") answered = answering;
  const reply = await answering;
  stops.delete(id);
  parentPort?.postMessage({ id, reply });
});
parentPort?.postMessage({ ready: true });
