/**
 * Which answers are made and sent, how many at a time, and whose turn is next.
 *
 * A client that asks for much and takes nothing holds memory for as long as it likes, and must not keep others waiting.
 * So an address and a connection have a share of the places, small answers have places of their own, and while others
 * wait, an answer that its client does not take is ended. Must not know sockets.
 */

/** How much of everything there is. */
export interface GateLimits {
  /** Answers under way at a time, of large ones and of small ones each. */
  readonly answers: number;
  /** How many of these one client address may have. */
  readonly answersOfAddress: number;
  /** Bytes of bodies that large answers hold, and that small ones hold, before further requests wait. */
  readonly bytes: number;
  readonly smallBytes: number;
  /** Requests of one connection that wait. */
  readonly waitingOfConnection: number;
  /** While others wait, an answer of which its client has taken nothing for this long is ended. */
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

/** A request, as far as the gate needs to know it. */
export interface Caller {
  /** Address of the client. */
  readonly address: string;
  /** What its requests have in common: one of them is answered at a time, as HTTP/1.1 wants it. */
  readonly connection: object;
  /** A document or a list, which are short. */
  readonly isSmall: boolean;
  /** Ends the answer. Its place is left soon after. */
  end(): void;
}

/** One answer's place. */
export interface Place {
  /** Counts the bytes that the answer holds from now on, and waits for its client to take them. */
  hold(bytes: number): void;
  /** The client has taken some of them. */
  moved(): void;
  leave(): void;
}

/** Answers under way, and the bytes that they hold. */
interface Lane {
  readonly isSmall: boolean;
  readonly mostBytes: number;
  readonly answers: Set<Answer>;
  readonly ofAddress: Map<string, number>;
  bytes: number;
}

interface Answer {
  readonly caller: Caller;
  /** When its client last took something; undefined while it does not wait for its client. */
  movedAt: number | undefined;
  bytes: number;
}

interface Waiter {
  readonly caller: Caller;
  admit(): void;
}

/** Lets requests in: of those that may enter, one of the address that has the fewest places, in order. */
export class Gate {
  readonly #limits: GateLimits;
  readonly #lanes: readonly [Lane, Lane];
  /** In the order in which they came. */
  readonly #waiting: Waiter[] = [];
  readonly #busy = new Set<object>();
  readonly #now: () => number;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(limits: Partial<GateLimits> = {}, now: () => number = () => performance.now()) {
    this.#limits = { ...GATE_LIMITS, ...limits };
    this.#lanes = [makeLane(false, this.#limits.bytes), makeLane(true, this.#limits.smallBytes)];
    this.#now = now;
  }

  /**
   * Waits for a place; undefined if the connection has too many requests that wait already. Throws the signal's
   * reason once the client does not wait for the answer any more.
   */
  async enter(caller: Caller, signal: AbortSignal): Promise<Place | undefined> {
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

  /** Ends the answers that others wait for and whose clients take nothing. Called now and then while any wait. */
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

  /** Looks for stalled answers while any request waits. */
  #watch(): void {
    if (this.#waiting.length === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    } else if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.endStalled(), this.#limits.patienceMs / 8);
      this.#timer.unref();
    }
  }

  #place(caller: Caller): Place {
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

function makeLane(isSmall: boolean, mostBytes: number): Lane {
  return { isSmall, mostBytes, answers: new Set(), ofAddress: new Map(), bytes: 0 };
}

/** Memory that chunks are read into and sent from, used again: allocating it for each answer costs more than reading. */

/** Buffers that are kept, and bytes of one that is. */
const MOST_KEPT = 16;
const MOST_BYTES = 16 << 20;

/** A buffer lent to one answer. */
interface LentBuffer {
  /** What is handed to who reads: the buffer is in it until it is used. */
  readonly list: Uint8Array[];
  /** Gives it back once nothing is sent from it any more. `bytes` is what was sent. */
  giveBack(bytes: Uint8Array | undefined): void;
}

/** Lends buffers as large as the last one that was needed. */
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
        // Where a read failed it may still go on, into a buffer that no other answer may get then.
        if (isFree || bytes === undefined || bytes.buffer.byteLength <= this.#size) return;
        // It was too small; those of its size are let go.
        this.#size = Math.min(MOST_BYTES, bytes.buffer.byteLength);
        this.#kept.length = 0;
      },
    };
  }
}
