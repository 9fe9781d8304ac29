// The work as a hermes reactor.
import { count, member } from "./count";

// @ts-ignore: decorator
@external("hermes", "input_len")
declare function inputLen(): i32;
// @ts-ignore: decorator
@external("hermes", "input_read")
declare function inputRead(p: usize, off: u32, n: u32): i32;
// @ts-ignore: decorator
@external("hermes", "output_write")
declare function outputWrite(p: usize, n: u32): i32;
// @ts-ignore: decorator
@external("hermes", "error_set")
declare function errorSet(p: usize, n: u32): void;

export function hermes_abi_v1(): void {}

export function hermes_call(): i32 {
  const input = new Uint8Array(inputLen());
  inputRead(input.dataStart, 0, input.length);
  const out = count(member(input, "arguments"));
  if (out == null) {
    const text = String.UTF8.encode("text: required");
    errorSet(changetype<usize>(text), text.byteLength);
    return 1;
  }
  const bytes = String.UTF8.encode(out);
  return outputWrite(changetype<usize>(bytes), bytes.byteLength) < 0 ? 2 : 0;
}
