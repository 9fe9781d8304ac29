/**
 * hermes.ts is the library for tools written in AssemblyScript and compiled to WebAssembly for
 * hermes. It needs the standard library alone: put it beside the program.
 *
 *   import { Call, Json, Tool, serve } from "./hermes";
 *   export { hermes_abi_v1, hermes_describe, hermes_call } from "./hermes";
 *
 *   function greet(call: Call): Json {
 *     const name = call.args.get("name").str();
 *     if (name.length == 0) return call.fail("name: required");
 *     return Json.object().set("hello", name);
 *   }
 *
 *   serve("greeter", "1.0.0", [
 *     new Tool("greet", "Greets somebody.", `{"type":"object","properties":{"name":{"type":"string"}}}`, greet),
 *   ]);
 *
 *   asc greeter.ts -o greeter.wasm -O3 --exportStart _initialize --use abort=hermes/abort --use seed=hermes/seed
 *
 * Capabilities (http, kvGet and its like, callTool, progress) ask the host, which does what the
 * declaration of the tool grants. A capability is an import of the module only if the program
 * uses it, so that the list of imports is the list of what a tool can do.
 *
 * Calls come one at a time, and nothing is kept from one call to the next. What throws ends the
 * call; its message goes to the log of the host.
 */

@external("hermes", "input_len")
declare function hostInputLen(): i32;
@external("hermes", "input_read")
declare function hostInputRead(p: usize, off: u32, n: u32): i32;
@external("hermes", "output_write")
declare function hostOutputWrite(p: usize, n: u32): i32;
@external("hermes", "error_set")
declare function hostErrorSet(p: usize, n: u32): void;
@external("hermes", "log")
declare function hostLog(level: i32, p: usize, n: u32): void;
@external("hermes", "result_len")
declare function hostResultLen(h: i32): i32;
@external("hermes", "result_read")
declare function hostResultRead(h: i32, p: usize, off: u32, n: u32): i32;
@external("hermes", "result_close")
declare function hostResultClose(h: i32): void;
@external("hermes_http", "fetch")
declare function hostFetch(p: usize, n: u32): i32;
@external("hermes_kv", "get")
declare function hostGet(p: usize, n: u32): i32;
@external("hermes_kv", "put")
declare function hostPut(p: usize, n: u32): i32;
@external("hermes_kv", "delete")
declare function hostDelete(p: usize, n: u32): i32;
@external("hermes_kv", "list")
declare function hostList(p: usize, n: u32): i32;
@external("hermes_tools", "call")
declare function hostCall(p: usize, n: u32): i32;
@external("hermes_progress", "report")
declare function hostReport(p: usize, n: u32): i32;
@external("wasi_snapshot_preview1", "random_get")
declare function wasiRandomGet(p: usize, n: usize): i32;
@external("wasi_snapshot_preview1", "clock_time_get")
declare function wasiClockTimeGet(id: i32, precision: u64, p: usize): i32;

// ---- Text ----

/** Encodes text as UTF-8; half of a surrogate pair becomes U+FFFD. */
export function encode(text: string): ArrayBuffer {
  return String.UTF8.encode(text, false, String.UTF8.ErrorMode.REPLACE);
}

/** Decodes UTF-8; a byte that belongs to no character becomes U+FFFD. */
export function decode(bytes: ArrayBuffer): string {
  const b = Uint8Array.wrap(bytes);
  const out = new Uint16Array(b.length);
  let n = 0;
  for (let i = 0; i < b.length; ) {
    const size = sizeOf(b, i);
    let point: u32 = 0xfffd;
    if (size == 1) point = b[i];
    if (size > 1) point = <u32>b[i] & (<u32>0xff >> (size + 1));
    for (let j = 1; j < size; j++) point = (point << 6) | (<u32>b[i + j] & 0x3f);
    i += max(size, 1);
    if (point >= 0x10000) {
      out[n++] = <u16>(0xd800 + ((point - 0x10000) >> 10));
      point = 0xdc00 + ((point - 0x10000) & 0x3ff);
    }
    out[n++] = <u16>point;
  }
  return String.UTF16.decodeUnsafe(out.dataStart, n << 1);
}

/** The length of the character at i, or 0 if there is none. */
function sizeOf(b: Uint8Array, i: i32): i32 {
  const c = b[i];
  if (c < 0x80) return 1;
  const size = c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
  if (i + size > b.length) return 0;
  for (let j = 1; j < size; j++) if ((b[i + j] & 0xc0) != 0x80) return 0;
  if (size > 2) {
    const second = b[i + 1];
    if (c == 0xe0 && second < 0xa0) return 0;
    if (c == 0xed && second > 0x9f) return 0;
    if (c == 0xf0 && second < 0x90) return 0;
    if (c == 0xf4 && second > 0x8f) return 0;
  }
  return size;
}

// ---- JSON ----

/** How deep objects and arrays may lie in each other. */
export const MAX_DEPTH = 512;

export enum Kind {
  Null,
  Bool,
  Number,
  String,
  Array,
  Object,
}

/** A JSON value. Numbers keep their text, and so all of their digits. */
export class Json {
  private names: string[] = [];
  private items: Json[] = [];

  private constructor(
    readonly kind: Kind,
    private text: string,
  ) {}

  /** Reads a text that must be one JSON value and nothing else; else gives null. */
  static parse(text: string): Json | null {
    const p = new Parser(text);
    p.space();
    const v = p.value(0);
    return p.at == text.length ? v : null;
  }

  static null(): Json {
    return new Json(Kind.Null, "null");
  }

  static object(): Json {
    return new Json(Kind.Object, "");
  }

  static array(): Json {
    return new Json(Kind.Array, "");
  }

  /** A number as its text, which must be one of JSON. */
  static number(text: string): Json {
    return new Json(Kind.Number, text);
  }

  /** Makes a value of a string, a number, a bool or a Json; infinity and NaN are null. */
  static of<T>(v: T): Json {
    if (isBoolean<T>()) return new Json(Kind.Bool, v ? "true" : "false");
    if (isInteger<T>()) return new Json(Kind.Number, v.toString());
    if (isFloat<T>()) return isFinite(<f64>v) ? new Json(Kind.Number, (<f64>v).toString()) : Json.null();
    if (isString<T>()) return new Json(Kind.String, <string>v);
    return <Json>v;
  }

  /** Adds a member to an object, after those with the same name. Gives the object. */
  set<T>(name: string, v: T): Json {
    assert(this.kind == Kind.Object, "set of a value that is no object");
    this.names.push(name);
    this.items.push(Json.of<T>(v));
    return this;
  }

  /** Adds an element to an array. Gives the array. */
  push<T>(v: T): Json {
    assert(this.kind == Kind.Array, "push to a value that is no array");
    this.items.push(Json.of<T>(v));
    return this;
  }

  /** The member of an object, of equal names the last; null if there is none. */
  get(name: string): Json {
    for (let i = this.names.length - 1; i >= 0; i--) if (this.names[i] == name) return this.items[i];
    return Json.null();
  }

  /** The element of an array, or the value of a member by its position; null if there is none. */
  at(index: i32): Json {
    return index >= 0 && index < this.items.length ? this.items[index] : Json.null();
  }

  /** The name of a member by its position. */
  name(index: i32): string {
    return this.names[index];
  }

  /** The number of elements or members. */
  get length(): i32 {
    return this.items.length;
  }

  get isNull(): bool {
    return this.kind == Kind.Null;
  }

  str(or: string = ""): string {
    return this.kind == Kind.String ? this.text : or;
  }

  bool(or: bool = false): bool {
    return this.kind == Kind.Bool ? this.text == "true" : or;
  }

  f64(or: f64 = 0): f64 {
    if (this.kind != Kind.Number) return or;
    const v = parseFloat(this.text);
    return isFinite(v) ? v : or;
  }

  /** Whether it is an integer that fits into i64 exactly. 5.0 and 1e3 are integers, too. */
  get isInt(): bool {
    if (this.kind != Kind.Number) return false;
    if (!this.plain) {
      const v = parseFloat(this.text);
      return v == Math.trunc(v) && Math.abs(v) <= 9007199254740992;
    }
    const v = I64.parseInt(this.text);
    return v.toString() == this.text || this.text == "-0";
  }

  i64(or: i64 = 0): i64 {
    if (!this.isInt) return or;
    return this.plain ? I64.parseInt(this.text) : <i64>parseFloat(this.text);
  }

  private get plain(): bool {
    return !this.text.includes(".") && !this.text.includes("e") && !this.text.includes("E");
  }

  /** The text as JSON. */
  toString(): string {
    const parts: string[] = [];
    this.write(parts);
    return parts.join("");
  }

  write(out: string[]): void {
    switch (this.kind) {
      case Kind.String:
        quote(this.text, out);
        return;
      case Kind.Array:
      case Kind.Object:
        break;
      default:
        out.push(this.text);
        return;
    }
    const object = this.kind == Kind.Object;
    out.push(object ? "{" : "[");
    for (let i = 0; i < this.items.length; i++) {
      if (i > 0) out.push(",");
      if (object) {
        quote(this.names[i], out);
        out.push(":");
      }
      this.items[i].write(out);
    }
    out.push(object ? "}" : "]");
  }
}

function quote(s: string, out: string[]): void {
  out.push('"');
  let plain = 0;
  for (let i = 0; i < s.length; i++) {
    const c = s.charCodeAt(i);
    if (c >= 0x20 && c != 0x22 && c != 0x5c) continue;
    out.push(s.substring(plain, i));
    plain = i + 1;
    if (c < 0x20) out.push("\\u00" + (c < 16 ? "0" : "") + c.toString(16));
    else out.push(c == 0x22 ? '\\"' : "\\\\");
  }
  out.push(s.substring(plain));
  out.push('"');
}

/** Reads values; every method gives null or false where the text is not right. */
class Parser {
  at: i32 = 0;

  constructor(private s: string) {}

  private peek(): i32 {
    return this.at < this.s.length ? this.s.charCodeAt(this.at) : -1;
  }

  space(): void {
    for (let c = this.peek(); c == 0x20 || c == 0x0a || c == 0x09 || c == 0x0d; c = this.peek()) this.at++;
  }

  /** Reads c and the space after it, if it is there. */
  private takes(c: i32): bool {
    if (this.peek() != c) return false;
    this.at++;
    this.space();
    return true;
  }

  value(depth: i32): Json | null {
    switch (this.peek()) {
      case 0x7b: // {
        return this.items(Json.object(), depth, 0x7d);
      case 0x5b: // [
        return this.items(Json.array(), depth, 0x5d);
      case 0x22: {
        const s = this.str();
        return s === null ? null : Json.of<string>(s);
      }
      case 0x74:
        return this.word("true") ? Json.of<bool>(true) : null;
      case 0x66:
        return this.word("false") ? Json.of<bool>(false) : null;
      case 0x6e:
        return this.word("null") ? Json.null() : null;
    }
    return this.number();
  }

  private items(out: Json, depth: i32, close: i32): Json | null {
    if (depth == MAX_DEPTH) return null;
    this.at++;
    this.space();
    if (this.takes(close)) return out;
    while (true) {
      let name: string | null = null;
      if (out.kind == Kind.Object) {
        name = this.str();
        if (name === null || !this.takes(0x3a)) return null;
      }
      const v = this.value(depth + 1);
      if (v === null) return null;
      if (name !== null) out.set<Json>(name, v);
      else out.push<Json>(v);
      if (this.takes(close)) return out;
      if (!this.takes(0x2c)) return null;
    }
  }

  private word(word: string): bool {
    if (!this.s.startsWith(word, this.at)) return false;
    this.at += word.length;
    this.space();
    return true;
  }

  private digits(): bool {
    const start = this.at;
    for (let c = this.peek(); c >= 0x30 && c <= 0x39; c = this.peek()) this.at++;
    return this.at > start;
  }

  private number(): Json | null {
    const start = this.at;
    if (this.peek() == 0x2d) this.at++;
    if (this.peek() == 0x30) this.at++;
    else if (!this.digits()) return null;
    if (this.peek() == 0x2e) {
      this.at++;
      if (!this.digits()) return null;
    }
    if (this.peek() == 0x65 || this.peek() == 0x45) {
      this.at++;
      if (this.peek() == 0x2b || this.peek() == 0x2d) this.at++;
      if (!this.digits()) return null;
    }
    const text = this.s.substring(start, this.at);
    this.space();
    return Json.number(text);
  }

  private str(): string | null {
    if (this.peek() != 0x22) return null;
    const parts: string[] = [];
    let plain = ++this.at;
    for (let c = this.peek(); c != 0x22; c = this.peek()) {
      if (c < 0x20) return null;
      if (c != 0x5c) {
        this.at++;
        continue;
      }
      parts.push(this.s.substring(plain, this.at));
      const escaped = this.escape();
      if (escaped === null) return null;
      parts.push(escaped);
      plain = this.at;
    }
    parts.push(this.s.substring(plain, this.at));
    this.at++;
    this.space();
    return parts.join("");
  }

  private escape(): string | null {
    const c = this.at + 1 < this.s.length ? this.s.charAt(this.at + 1) : "?";
    if (c != "u") {
      const i = '"\\/bfnrt'.indexOf(c);
      if (i < 0) return null;
      this.at += 2;
      return '"\\/\b\f\n\r\t'.charAt(i);
    }
    const high = this.unit();
    if (high < 0) return null;
    this.at += 6;
    if (high < 0xd800 || high > 0xdfff) return String.fromCharCode(high);
    const low = this.unit();
    // Half of a surrogate pair is no character.
    if (high > 0xdbff || low < 0xdc00 || low > 0xdfff) return "\ufffd";
    this.at += 6;
    return String.fromCharCode(high, low);
  }

  /** Reads \uXXXX without moving, or gives -1. */
  private unit(): i32 {
    if (this.at + 6 > this.s.length || !this.s.startsWith("\\u", this.at)) return -1;
    let v = 0;
    for (let i = this.at + 2; i < this.at + 6; i++) {
      const d = "0123456789abcdef".indexOf(this.s.charAt(i).toLowerCase());
      if (d < 0) return -1;
      v = (v << 4) | d;
    }
    return v;
  }
}

// ---- Tools ----

/** One call of a tool. */
export class Call {
  private problem: string | null = null;

  constructor(
    /** The name it was called by. */
    readonly tool: string,
    /** An object. */
    readonly args: Json,
    /** An object with id, agent, session, run, deadline_ms (left when it started), idempotency_key. */
    readonly info: Json,
  ) {}

  /** Ends the call with an error, whose text is what the model is told: return call.fail(…). */
  fail(text: string): Json {
    this.problem = text;
    return Json.null();
  }

  get failure(): string | null {
    return this.problem;
  }
}

/** One tool of a module. The schema is the JSON Schema of the arguments, an object. */
export class Tool {
  constructor(
    readonly name: string,
    readonly description: string,
    readonly schema: string,
    readonly run: (call: Call) => Json,
  ) {}
}

class Module {
  constructor(
    readonly name: string,
    readonly version: string,
    readonly tools: Tool[],
    readonly wants: string,
  ) {}
}

let served: Module | null = null;

/**
 * Makes the program a module with these tools; call it once, at the top level. wants are the
 * capabilities it would like, as JSON, for example
 * [{"capability":"http","hosts":["https://api.example.com"]}]; the operator decides.
 */
export function serve(name: string, version: string, tools: Tool[], wants: string = "[]"): void {
  served = new Module(name, version, tools, wants);
}

export function hermes_abi_v1(): void {}

export function hermes_describe(): i32 {
  const m = served;
  if (m === null) return refuse(2, "the program serves no module");
  const tools = Json.array();
  for (let i = 0; i < m.tools.length; i++) {
    const t = m.tools[i];
    const schema = Json.parse(t.schema);
    if (schema === null) return refuse(2, "the schema of " + t.name + " is not JSON");
    tools.push(Json.object().set("name", t.name).set("description", t.description).set("input_schema", schema));
  }
  const wants = Json.parse(m.wants);
  if (wants === null) return refuse(2, "the wants of the module are not JSON");
  return write(Json.object().set("abi", 1).set("name", m.name).set("version", m.version).set("tools", tools).set("wants", wants));
}

export function hermes_call(): i32 {
  const m = served;
  if (m === null) return refuse(2, "the program serves no module");
  const bytes = new ArrayBuffer(max(0, hostInputLen()));
  const got = hostInputRead(changetype<usize>(bytes), 0, bytes.byteLength);
  const input = got == bytes.byteLength ? Json.parse(decode(bytes)) : null;
  if (input === null) return refuse(2, "the input of the call cannot be read");
  const call = new Call(input.get("tool").str(), input.get("arguments"), input.get("call"));
  for (let i = 0; i < m.tools.length; i++) {
    // A module with one tool answers to any name, so that a declaration can rename it.
    if (m.tools.length > 1 && m.tools[i].name != call.tool) continue;
    const result = m.tools[i].run(call);
    const failure = call.failure;
    return failure === null ? write(result) : refuse(1, failure);
  }
  return refuse(1, "the module has no tool " + call.tool);
}

function write(v: Json): i32 {
  const b = encode(v.toString());
  if (hostOutputWrite(changetype<usize>(b), b.byteLength) < 0) return refuse(1, "the result is over the limit of the declaration");
  return 0;
}

function refuse(code: i32, text: string): i32 {
  const b = encode(text);
  hostErrorSet(changetype<usize>(b), b.byteLength);
  if (code > 1) log(Level.Error, text);
  return code;
}

export enum Level {
  Debug,
  Info,
  Warn,
  Error,
}

/** Writes to the log of the host. How much a call may log is limited, and going over ends the call. */
export function log(level: Level, text: string): void {
  const b = encode(text);
  hostLog(level, changetype<usize>(b), b.byteLength);
}

/** What the compiler calls for what is thrown, and for broken assertions. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const where = file === null ? "" : " at " + file + ":" + line.toString() + ":" + column.toString();
  log(Level.Error, (message === null ? "aborted" : message) + where);
  unreachable();
}

/** What the compiler calls to seed Math.random. */
export function seed(): f64 {
  const b = new ArrayBuffer(8);
  wasiRandomGet(changetype<usize>(b), 8);
  return load<f64>(changetype<usize>(b));
}

/** The time in milliseconds since 1970. */
export function now(): i64 {
  const b = new ArrayBuffer(8);
  wasiClockTimeGet(0, 1000000, changetype<usize>(b));
  return load<u64>(changetype<usize>(b)) / 1000000;
}

// ---- Capabilities ----

/** What a capability answers. */
export class Answer {
  /** What was refused or failed, which a tool may show its caller; null: nothing. */
  error: string | null = null;
  /** Of an error, for example "not_granted", "denied", "too_large". */
  kind: string = "";
  /** An object: http has status, headers, url, truncated; kvList keys, more. */
  head: Json = Json.object();
  /** Of http, the value of kvGet, the result of callTool as JSON. */
  body: ArrayBuffer = new ArrayBuffer(0);

  /** Of http. */
  get status(): i32 {
    return <i32>this.head.get("status").i64();
  }

  /** Of kvGet and kvDelete. */
  get found(): bool {
    return this.head.get("found").bool();
  }

  /** The body as text. */
  text(): string {
    return decode(this.body);
  }
}

function refused(kind: string, error: string): Answer {
  const a = new Answer();
  a.kind = kind;
  a.error = error;
  return a;
}

function numbered(no: i32): Answer {
  switch (no) {
    case 2:
      return refused("not_granted", "not granted: the declaration of the tool has no such grant");
    case 28:
      return refused("invalid", "the host could not read the request");
    case 51:
      return refused("too_large", "too many answers are kept unread");
    case 61:
      return refused("too_large", "a limit of the declaration is reached");
  }
  return refused("internal", "the host failed");
}

/** Reads the frame of an answer: a length, a head, a body. */
function answer(handle: i32): Answer {
  if (handle < 0) return numbered(-handle);
  const n = max(0, hostResultLen(handle));
  const b = new ArrayBuffer(n);
  const got = hostResultRead(handle, changetype<usize>(b), 0, n);
  hostResultClose(handle);
  if (got != n || n < 4) return numbered(0);
  const size = load<u32>(changetype<usize>(b));
  if (size > <u32>n - 4) return numbered(0);
  const head = Json.parse(decode(b.slice(4, 4 + size)));
  if (head === null) return numbered(0);
  const error = head.get("error");
  if (error.kind == Kind.Object) return refused(error.get("kind").str("internal"), error.get("message").str("the host did not say why"));
  const a = new Answer();
  a.head = head;
  a.body = b.slice(4 + size);
  return a;
}

/** A request to be sent by the host. */
export class Request {
  method: string = "GET";
  headers: Json = Json.object();
  body: ArrayBuffer = new ArrayBuffer(0);

  constructor(public url: string) {}
}

/** Sends a request under the http grants of the declaration. Any status is an answer. */
export function http(r: Request): Answer {
  const request = Json.object().set("method", r.method).set("url", r.url).set("headers", r.headers);
  if (r.body.byteLength > 0) request.set("body_base64", base64(r.body));
  const b = encode(request.toString());
  return answer(hostFetch(changetype<usize>(b), b.byteLength));
}

function base64(bytes: ArrayBuffer): string {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const b = Uint8Array.wrap(bytes);
  const out: string[] = [];
  for (let i = 0; i < b.length; i += 3) {
    const two = i + 1 < b.length;
    const three = i + 2 < b.length;
    const v = (<u32>b[i] << 16) | (two ? <u32>b[i + 1] << 8 : 0) | (three ? <u32>b[i + 2] : 0);
    out.push(digits.charAt(v >> 18) + digits.charAt((v >> 12) & 63));
    out.push((two ? digits.charAt((v >> 6) & 63) : "=") + (three ? digits.charAt(v & 63) : "="));
  }
  return out.join("");
}

/** Reads a value of the store that the kv grant names: found and body. Keys are text of 1 to 512 bytes, values any bytes. */
export function kvGet(key: string): Answer {
  const b = encode(Json.object().set("key", key).toString());
  return answer(hostGet(changetype<usize>(b), b.byteLength));
}

/** Stores a value; over the quota the kind is "too_large" and nothing changes. */
export function kvPut(key: string, value: ArrayBuffer): Answer {
  const b = encode(Json.object().set("key", key).set("value_base64", base64(value)).toString());
  return answer(hostPut(changetype<usize>(b), b.byteLength));
}

/** Removes a key: found says whether it was there. */
export function kvDelete(key: string): Answer {
  const b = encode(Json.object().set("key", key).toString());
  return answer(hostDelete(changetype<usize>(b), b.byteLength));
}

/**
 * Lists keys, sorted by their bytes: head has keys, a list of {"key","size"}, and more. after:
 * only keys greater than it; limit 0: as many as the host gives.
 */
export function kvList(prefix: string = "", after: string = "", limit: i32 = 0): Answer {
  const request = Json.object();
  if (prefix.length > 0) request.set("prefix", prefix);
  if (after.length > 0) request.set("after", after);
  if (limit > 0) request.set("limit", limit);
  const b = encode(request.toString());
  return answer(hostList(changetype<usize>(b), b.byteLength));
}

/**
 * Calls another tool, which the tools grant must allow, under that tool's own grants and policies.
 * The arguments are an object; the text of the answer is the result, one JSON value.
 */
export function callTool(name: string, args: Json): Answer {
  const b = encode(Json.object().set("tool", name).set("arguments", args).toString());
  const a = answer(hostCall(changetype<usize>(b), b.byteLength));
  if (a.error === null && !a.head.get("ok").bool()) return refused("internal", "the tool failed, and the host did not say why");
  return a;
}

/** Tells the caller how far the call has come, in any unit; total 0: not known. Reports that come too fast are dropped. */
export function progress(message: string, done: f64, total: f64 = 0): Answer {
  const b = encode(Json.object().set("message", message).set("done", done).set("total", total).toString());
  return answer(hostReport(changetype<usize>(b), b.byteLength));
}
