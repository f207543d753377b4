import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { isSuperchunkError } from "../../src/errors.ts";
import { MAX_INTEGER_DIGITS, MAX_JSON_DEPTH, parseJson, stringifyJson } from "../../src/format/json.ts";
import { JsonFloat, keepFloats } from "../../src/format/json-float.ts";
import type { JsonValue } from "../../src/format/types.ts";
import { corpusFolder } from "../fixtures/manifest.ts";
import fc from "../property.ts";
import { sweep } from "../scope.ts";
import { errorOf, hex, utf8 } from "./hex.ts";

const parse = (text: string): JsonValue => parseJson(text, "meta/sizes");

it("[FJ-09] floats stay floats, as in json.loads and json.dumps of Python 3.12", () => {
  const again = (text: string): string =>
    stringifyJson(parseJson(text, "text", { floats: "kept" }), { python: true });
  expect(again("[1.0, 1, 100.0, 1e2, 1E16, 1.5, -0.0, -0, 2e-7, 1e400, 123456789012345678901.0]")).toBe(
    "[1.0, 1, 100.0, 100.0, 1e+16, 1.5, -0.0, 0, 2e-07, Infinity, 1.2345678901234568e+20]",
  );
  expect(again('{"a": {"b": [3.0]}}')).toBe('{"a": {"b": [3.0]}}');
  expect(stringifyJson({ x: new JsonFloat(2), y: new JsonFloat(-0), z: new JsonFloat(Number.NaN) })).toBe(
    '{"x":2.0,"y":-0.0,"z":"NaN"}',
  );
  expect(parse("[1.0, 1e2]")).toEqual([1, 100]);
  expect(Number(new JsonFloat(2))).toBe(2);
});

it("[FJ-10] a document read as plain numbers is written with the floats that it had", () => {
  const text = '{"a":1.0,"b":[1.0,1,{"c":-0.0,"d":2.5}],"e":1e300,"__proto__":3.0,"f":9007199254740993}';
  const value = parse(text) as Record<string, JsonValue>;
  expect(value["a"]).toBe(1);
  expect(stringifyJson(value)).toBe(text.replace("1e300", "1e+300"));
  expect(stringifyJson(value["b"] as JsonValue, { python: true })).toBe('[1.0, 1, {"c": -0.0, "d": 2.5}]');
  // A value that replaces a float keeps its own type.
  value["a"] = 2;
  expect(stringifyJson({ ...value })).toMatch(/^{"a":2,"b":\[1\.0,1/);
  expect(stringifyJson(parse('{"a": 1.0, "a": 1}'))).toBe('{"a":1}');
  expect(stringifyJson(parse('{"a": 1, "a": 1.0}'))).toBe('{"a":1.0}');
  const copy = { ...(parse('{"x": 1.0, "y": 2.0, "z": 3}') as object), y: 5 };
  expect(stringifyJson(keepFloats(copy, parse('{"x": 1.0, "y": 2.0}') as object))).toBe(
    '{"x":1.0,"y":5,"z":3}',
  );
});

it("typed text has no float above the largest", () => {
  expect(errorOf(() => parseJson("[1e400]", "value", { floats: "typed" }))).toMatchObject({ code: "LIMIT" });
  expect(errorOf(() => parseJson("-1e309", "value", { floats: "typed" }))).toMatchObject({ code: "LIMIT" });
  expect(parseJson("[Infinity, 1e308]", "value", { floats: "typed" })).toEqual([
    Number.POSITIVE_INFINITY,
    new JsonFloat(1e308),
  ]);
  expect(parse("1e400")).toBe(Number.POSITIVE_INFINITY);
});

describe("reading", () => {
  it("[FJ-01] bare NaN and infinities are numbers", () => {
    expect(parse("[NaN, Infinity, -Infinity, -1.5e3]")).toEqual([
      Number.NaN,
      Number.POSITIVE_INFINITY,
      Number.NEGATIVE_INFINITY,
      -1500,
    ]);
  });

  it("[FJ-02] integers beyond 2^53 are exact, smaller ones numbers", () => {
    expect(parse("[9007199254740991, 9007199254740992, -9007199254740993, 1388534400000000000]")).toEqual([
      9007199254740991,
      9007199254740992n,
      -9007199254740993n,
      1388534400000000000n,
    ]);
    expect(parse("1e300")).toBe(1e300);
    expect(Object.is(parse("-0"), 0)).toBe(true);
    expect(Object.is(parse("-0.0"), -0)).toBe(true);
  });

  it("[FJ-02] the attributes of a zipline table keep their nanoseconds", () => {
    const attrs = parseJson(
      readFileSync(join(corpusFolder, "ctable/bcolz-daily-equities/__attrs__")),
      "__attrs__",
    );
    expect(attrs).toMatchObject({
      start_session_ns: 1388534400000000000n,
      end_session_ns: 1393632000000000000n,
    });
  });

  it("[FJ-03] the last of equal names wins, and __proto__ is an ordinary name", () => {
    expect(parse('{"a": 1, "a": 2}')).toEqual({ a: 2 });
    const value = parse('{"__proto__": {"polluted": true}, "constructor": 1}') as Record<string, unknown>;
    expect(Object.keys(value)).toEqual(["__proto__", "constructor"]);
    expect(value["polluted"]).toBeUndefined();
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  it("[FJ-04] text is UTF-8; escapes and surrogate pairs are decoded, and DEL may appear unescaped", () => {
    expect(parseJson(utf8('"Ω😀\\u03a9\\ud83d\\ude00\\n\\/\\"\u007f\u0085"'), "a")).toBe(
      'Ω😀Ω😀\n/"\u007f\u0085',
    );
    expect(parse('"\\ud83d"')).toBe("\ud83d");
    expect(errorOf(() => parseJson(hex("22 ff 22"), "a")).code).toBe("BAD_FIELD");
    expect(parseJson(hex("ef bb bf 7b 7d"), "a")).toEqual({});
  });

  it("agrees with JSON.parse on any JSON whose integers are safe", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.integer({ min: 0, max: 3 }), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        fc.pre(!/\d{16}/.test(text));
        // -0 is written as 0 by JSON.stringify, so both see the same text.
        expect(parse(text)).toEqual(JSON.parse(text, (_, each) => (Object.is(each, -0) ? 0 : each)));
      }),
    );
  });

  it.each([
    ["[1,]", 3],
    ["{'a': 1}", 1],
    ["[1 2]", 3],
    ['{"a" 1}', 5],
    ['"a\nb"', 2],
    ['"\\x41"', 1],
    ["01", 1],
    ["+1", 0],
    [".5", 0],
    ["nan", 0],
    ["[1]]", 3],
    ["True", 0],
    ['{"é": tru}', 7],
  ])("%s is BAD_FIELD at byte %i", (text, offset) => {
    const error = errorOf(() => parse(text));
    expect(error.code).toBe("BAD_FIELD");
    expect(error.details).toMatchObject({ path: "meta/sizes", offset });
    expect(error.message).not.toContain("\n");
  });

  it("a document cut at any byte is refused, mostly as TRUNCATED", () => {
    const text = '{"shape": [1000, -2.5e3], "a\\u00e9": "b\\n", "c": [true, null, NaN, -Infinity, {}]}';
    let truncated = 0;
    for (let length = 0; length < text.length; length++) {
      const error = errorOf(() => parse(text.slice(0, length)));
      expect(["TRUNCATED", "BAD_FIELD"]).toContain(error.code);
      if (error.code === "TRUNCATED") truncated++;
    }
    expect(truncated).toBeGreaterThan(text.length - 8);
  });

  it("[FJ-05] depth, digits and number of values are limited, with LIMIT", () => {
    expect(parse("[".repeat(MAX_JSON_DEPTH) + "]".repeat(MAX_JSON_DEPTH))).toBeDefined();
    expect(errorOf(() => parse("[".repeat(MAX_JSON_DEPTH + 2))).code).toBe("LIMIT");
    expect(errorOf(() => parse('{"a":'.repeat(1e5))).code).toBe("LIMIT");
    expect(errorOf(() => parse("9".repeat(MAX_INTEGER_DIGITS + 1))).code).toBe("LIMIT");
    expect(errorOf(() => parse(`[${"0,".repeat(4_000_001)}0]`)).code).toBe("LIMIT");
    expect(errorOf(() => parseJson(new Uint8Array((64 << 20) + 1), "a")).code).toBe("LIMIT");
  });

  it("any text gives a value or an error of this library", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...'{}[]",:-0123eE.\\untrfalsNIiy \u0000é') }),
        (text) => {
          try {
            parse(text);
          } catch (error) {
            expect(isSuperchunkError(error)).toBe(true);
          }
        },
      ),
      { numRuns: sweep(2000, 100) },
    );
    expect.hasAssertions();
  });
});

describe("writing", () => {
  const value: JsonValue = {
    "a é": [1, -1.5, 2n ** 60n, Number.NaN, Number.NEGATIVE_INFINITY],
    b: {},
    c: [],
    d: [null, true, "x\n"],
  };

  it("[FJ-06] strict JSON has digits for bigint and names for NaN", () => {
    const text = stringifyJson(value);
    expect(text).toBe(
      '{"a é":[1,-1.5,1152921504606846976,"NaN","-Infinity"],"b":{},"c":[],"d":[null,true,"x\\n"]}',
    );
    expect(() => JSON.parse(text)).not.toThrow();
  });

  it("indent matches JSON.stringify", () => {
    const plain = { a: [1, { b: [] }], c: {}, d: "e" };
    expect(stringifyJson(plain, { indent: 2 })).toBe(JSON.stringify(plain, null, 2));
  });

  it("[FJ-07] Python's style matches json.dumps", () => {
    // What json.dumps of Python 3.11 gives for the same value.
    expect(stringifyJson(value, { python: true })).toBe(
      '{"a \\u00e9": [1, -1.5, 1152921504606846976, NaN, -Infinity], "b": {}, "c": [], "d": [null, true, "x\\n"]}',
    );
    expect(stringifyJson({ k: "v", u: "Ω😀" }, { python: true, compact: true })).toBe(
      '{"k":"v","u":"\\u03a9\\ud83d\\ude00"}',
    );
    const floats = [1e-5, 1.5e-7, 0.0001, 123456789.125, 1e16, 1e22, 1.7976931348623157e308, 5e-324, -0];
    expect(stringifyJson(floats, { python: true })).toBe(
      "[1e-05, 1.5e-07, 0.0001, 123456789.125, 1e+16, 1e+22, 1.7976931348623157e+308, 5e-324, -0.0]",
    );
  });

  it("parse(stringify(value)) is the value, in Python's style", () => {
    const json = fc.letrec<{ value: JsonValue }>((tie) => ({
      value: fc.oneof(
        { depthSize: "small" },
        fc.constant(null),
        fc.boolean(),
        fc.double(),
        fc.bigInt({ min: 2n ** 53n, max: 2n ** 90n }),
        fc.string({ unit: "binary" }),
        fc.array(tie("value")),
        fc.dictionary(fc.string(), tie("value")),
      ),
    })).value;
    fc.assert(
      fc.property(json, fc.boolean(), (each, compact) => {
        expect(parse(stringifyJson(each, { python: true, compact }))).toEqual(each);
      }),
      { numRuns: sweep(100, 30) },
    );
  });
});
