/** True where the machine keeps numbers little-endian, as typed arrays show them. */
export const IS_LITTLE_ENDIAN: boolean = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;
