// The work as a program on bare WASI: arguments on stdin, result on stdout.
import { count } from "./count";

// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "fd_read")
declare function fdRead(fd: i32, iov: usize, n: i32, got: usize): i32;
// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "fd_write")
declare function fdWrite(fd: i32, iov: usize, n: i32, put: usize): i32;
// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "proc_exit")
declare function procExit(code: i32): void;

const vector = memory.data(8);
const length = memory.data(4);

function stdin(): Uint8Array {
  let b = new Uint8Array(4096);
  let n = 0;
  while (true) {
    if (n == b.length) {
      const more = new Uint8Array(2 * n);
      more.set(b);
      b = more;
    }
    store<usize>(vector, b.dataStart + n);
    store<i32>(vector, b.length - n, 4);
    if (fdRead(0, vector, 1, length) != 0 || load<i32>(length) == 0) return b.subarray(0, n);
    n += load<i32>(length);
  }
}

export function _start(): void {
  const out = count(stdin());
  const bytes = String.UTF8.encode(out == null ? "text: required\n" : out);
  store<usize>(vector, changetype<usize>(bytes));
  store<i32>(vector, bytes.byteLength, 4);
  fdWrite(out == null ? 2 : 1, vector, 1, length);
  if (out == null) procExit(1);
}
