/** Colours of maps and pictures: ramps that are also readable for the colour-blind, and colours for names. */

/** A colour as a canvas pixel on little-endian machines, which all browsers run on. */
export type Pixel = number;

export function pixel(red: number, green: number, blue: number): Pixel {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Points of the ramp: dark violet to green to yellow, in about equal steps of lightness. */
const RAMP: readonly (readonly [number, number, number])[] = [
  [68, 12, 84],
  [66, 62, 133],
  [48, 104, 142],
  [36, 142, 140],
  [56, 180, 112],
  [142, 212, 66],
  [246, 228, 56],
];

/** The colour of a share from 0 to 1, as red, green and blue. */
function rampAt(share: number): readonly [number, number, number] {
  const at = Math.max(0, Math.min(1, share)) * (RAMP.length - 1);
  const i = Math.min(RAMP.length - 2, Math.floor(at));
  const [low = [0, 0, 0], high = [0, 0, 0]] = RAMP.slice(i, i + 2);
  const mix = (k: 0 | 1 | 2): number =>
    Math.round((low.at(k) ?? 0) + ((high.at(k) ?? 0) - (low.at(k) ?? 0)) * (at - i));
  return [mix(0), mix(1), mix(2)];
}

/** The ramp as 256 pixels. */
export const RAMP_PIXELS: Uint32Array = Uint32Array.from({ length: 256 }, (_, i) =>
  pixel(...rampAt(i / 255)),
);

/** The ramp as a CSS background. */
export const RAMP_CSS: string = `linear-gradient(to right, ${RAMP.map((colour) => `rgb(${colour.join(" ")})`).join(", ")})`;

/** Colours of names, in turn. */
export const NAMED: readonly (readonly [number, number, number])[] = [
  [47, 127, 209],
  [230, 145, 56],
  [64, 160, 110],
  [170, 100, 190],
  [120, 130, 140],
  [200, 90, 110],
  [60, 165, 175],
  [150, 140, 50],
];

/** The colour of the name with a number. */
export function nameColour(i: number): string {
  return cssOf(NAMED[i % NAMED.length] as (typeof NAMED)[number]);
}

export function cssOf([red, green, blue]: readonly [number, number, number]): string {
  return `rgb(${red} ${green} ${blue})`;
}
