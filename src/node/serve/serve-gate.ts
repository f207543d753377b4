/**
 * Decides which answers are made and sent, how many at a time, and whose turn is next.
 *
 * A client that requests much and accepts nothing holds memory for as long as it likes, and must not keep others waiting. So
 * each address and each connection has a limited share of the places, small answers have separate places, and while others
 * wait, an answer that its client does not accept is ended. Must not know sockets.
 */

export interface GateLimits {
  /** Answers under way at a time; the same limit applies to large ones and to small ones. */
  readonly answers: number;
  /** How many of these one client address may have. */
  readonly answersOfAddress: number;
  /** Bytes of bodies held by large answers, and by small ones, from which on further requests wait. */
  readonly bytes: number;
  readonly smallBytes: number;
  readonly waitingOfConnection: number;
  /** While others wait, an answer whose client has accepted nothing for this long is ended. */
  readonly patienceMs: number;
}

/** The limits of a server. */
const GATE_LIMITS: GateLimits = {
  answers: 64,
  answersOfAddress: 48,
  bytes: 256 * 1024 * 1024,
  smallBytes: 64 * 1024 * 1024,
  waitingOfConnection: 32,
  patienceMs: 5000,
};

/** The facts of a request that the gate needs. */
export interface Caller {
  /** Address of the client. */
  readonly address: string;
  /** Identifies the connection. HTTP/1.1 requires that its requests are answered one at a time. */
  readonly connection: object;
  /** True for a document or a list, which are short. */
  readonly isSmall: boolean;
  /** Ends the answer. Its place becomes free soon after. */
  end(): void;
}

export interface AnswerPlace {
  /** Counts the bytes that the answer holds from now on, and starts waiting for its client to accept them. */
  hold(bytes: number): void;
  /** The client has accepted some of them. */
  moved(): void;
  leave(): void;
}

/** Answers under way, and the bytes that they hold. */
interface Lane {
  readonly mostBytes: number;
  readonly answers: Set<Answer>;
  readonly ofAddress: Map<string, number>;
  bytes: number;
}

interface Answer {
  readonly caller: Caller;
  /** When its client last accepted something; undefined while it does not wait for its client. */
  movedAt: number | undefined;
  bytes: number;
}

interface Waiter {
  readonly caller: Caller;
  admit(): void;
}

/** Admits requests: among those allowed to enter, the oldest one of the address with the fewest places. */
export class AnswerGate {
  readonly #limits: GateLimits;
  readonly #lanes: readonly [Lane, Lane];
  /** In order of arrival. */
  readonly #waiting: Waiter[] = [];
  readonly #busy = new Set<object>();
  readonly #now: () => number;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(limits: Partial<GateLimits> = {}, now: () => number = () => performance.now()) {
    this.#limits = { ...GATE_LIMITS, ...limits };
    this.#lanes = [makeLane(this.#limits.bytes), makeLane(this.#limits.smallBytes)];
    this.#now = now;
  }

  /**
   * Waits for a place; undefined if the connection already has too many waiting requests. Throws the signal's reason if the
   * client stops waiting for the answer.
   */
  async enter(caller: Caller, signal: AbortSignal): Promise<AnswerPlace | undefined> {
    signal.throwIfAborted();
    if (this.#waiting.length === 0 && this.#canEnter(caller)) return this.#place(caller);
    const own = this.#waiting.filter(({ caller: { connection } }) => connection === caller.connection);
    if (own.length >= this.#limits.waitingOfConnection) return undefined;
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        this.#watch();
        reject(signal.reason);
      };
      const waiter: Waiter = {
        caller,
        admit: () => {
          signal.removeEventListener("abort", stop);
          resolve(this.#place(caller));
        },
      };
      signal.addEventListener("abort", stop, { once: true });
      this.#waiting.push(waiter);
      this.#admit();
    });
  }

  /** Ends the answers that others wait for and whose clients accept nothing. Called regularly while any wait. */
  endStalled(): void {
    const latest = this.#now() - this.#limits.patienceMs;
    for (const lane of this.#lanes) {
      if (
        !this.#waiting.some(
          ({ caller }) => this.#laneOf(caller) === lane && !this.#busy.has(caller.connection),
        )
      )
        continue;
      for (const { caller, movedAt } of lane.answers)
        if (movedAt !== undefined && movedAt <= latest) caller.end();
    }
  }

  #laneOf({ isSmall }: Caller): Lane {
    return this.#lanes[isSmall ? 1 : 0];
  }

  #canEnter(caller: Caller): boolean {
    const { answers, ofAddress, bytes, mostBytes } = this.#laneOf(caller);
    return (
      answers.size < this.#limits.answers &&
      bytes < mostBytes &&
      !this.#busy.has(caller.connection) &&
      (ofAddress.get(caller.address) ?? 0) < this.#limits.answersOfAddress
    );
  }

  #admit(): void {
    for (;;) {
      let best: Waiter | undefined;
      let fewest = Number.POSITIVE_INFINITY;
      for (const waiter of this.#waiting) {
        const { caller } = waiter;
        const places = this.#laneOf(caller).ofAddress.get(caller.address) ?? 0;
        if (places >= fewest || !this.#canEnter(caller)) continue;
        best = waiter;
        fewest = places;
      }
      if (best === undefined) break;
      this.#waiting.splice(this.#waiting.indexOf(best), 1);
      best.admit();
    }
    this.#watch();
  }

  /** Checks for stalled answers while any request waits. */
  #watch(): void {
    if (this.#waiting.length === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    } else if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.endStalled(), this.#limits.patienceMs / 8);
      this.#timer.unref();
    }
  }

  #place(caller: Caller): AnswerPlace {
    const lane = this.#laneOf(caller);
    const { address, connection } = caller;
    const answer: Answer = { caller, movedAt: undefined, bytes: 0 };
    lane.answers.add(answer);
    lane.ofAddress.set(address, (lane.ofAddress.get(address) ?? 0) + 1);
    this.#busy.add(connection);
    return {
      hold: (bytes) => {
        answer.bytes += bytes;
        lane.bytes += bytes;
        answer.movedAt = this.#now();
      },
      moved: () => {
        answer.movedAt = this.#now();
      },
      leave: () => {
        if (!lane.answers.delete(answer)) return;
        lane.bytes -= answer.bytes;
        this.#busy.delete(connection);
        const left = (lane.ofAddress.get(address) ?? 1) - 1;
        if (left === 0) lane.ofAddress.delete(address);
        else lane.ofAddress.set(address, left);
        if (this.#waiting.length > 0) this.#admit();
      },
    };
  }
}

function makeLane(mostBytes: number): Lane {
  return { mostBytes, answers: new Set(), ofAddress: new Map(), bytes: 0 };
}

/** Memory for reading and sending chunks, reused: allocating it for each answer takes longer than reading. */

/** Most buffers to keep, and most bytes of each. */
const MOST_KEPT = 16;
const MOST_BYTES = 16 << 20;

/** A buffer lent to one answer. */
interface LentBuffer {
  /** Passed to the reader: contains the buffer until the reader uses it. */
  readonly list: Uint8Array[];
  /** Gives it back once nothing is sent from it any more. `bytes` is what was sent. */
  giveBack(bytes: Uint8Array | undefined): void;
}

/** Lends buffers of the size that was last needed. */
export class ServeBuffers {
  readonly #kept: Uint8Array[] = [];
  #size = 1 << 16;

  lend(): LentBuffer {
    const buffer = this.#kept.pop() ?? new Uint8Array(this.#size);
    const list = [buffer];
    return {
      list,
      giveBack: (bytes) => {
        const isFree = list.length > 0 || bytes?.buffer === buffer.buffer;
        if (isFree && buffer.length === this.#size && this.#kept.length < MOST_KEPT) this.#kept.push(buffer);
        // A failed read may still be writing into the buffer, so no other answer may get it.
        if (isFree || bytes === undefined || bytes.buffer.byteLength <= this.#size) return;
        // The buffer was too small: all of its size are dropped.
        this.#size = Math.min(MOST_BYTES, bytes.buffer.byteLength);
        this.#kept.length = 0;
      },
    };
  }
}
