/**
 * The bytes of `memory.wat`, made by `deno test -A tests/base/memory_wasm_test.ts -- --update`; a test compares the two.
 *
 * @module
 */

/** A WebAssembly module, in base64. */
export const WASM_BASE64: string =
  "AGFzbQEAAAABBwFgAn9/AX8DAgEABQYBAYAIgAgHEAIGbWVtb3J5AgADc3VtAAAK7AEB6QECAnsBfwJAA0AgAEEgaiABSw0BIAIgAP0AAAD9f/" +
  "2uASECIAMgAP0AABD9f/2uASEDIABBIGohAAwACwsCQANAIABBCGogAUsNASACIAD9XQAA/X/9rgEhAiAAQQhqIQAMAAsLIAIgA/2uASECIAL9" +
  "GwAgAv0bAWogAv0bAiAC/RsDamohBAJAA0AgAEECaiABSw0BIAQgAC8AAGohBCAAQQJqIQAMAAsLIAAgAUkEQCAEIAAtAABqIQQLIARB//8DcS" +
  "AEQRB2aiEEIARB//8DcSAEQRB2aiEEIARB/wFxQQh0IARBCHZyCw==";
