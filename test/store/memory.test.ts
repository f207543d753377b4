import { MemoryStore } from "../../src/store/memory.ts";
import { describeReading, describeWriting, OBJECTS } from "./store-contract.ts";

describeReading("the store in memory", async () => ({ store: new MemoryStore(OBJECTS), lists: true }));
describeWriting("the store in memory", async () => ({ store: new MemoryStore() }));
