// The work of the benchmark in AssemblyScript, on bytes. See workload/go/count.

function skipSpace(b: Uint8Array, i: i32): i32 {
  while (i < b.length && (b[i] == 32 || b[i] == 9 || b[i] == 10 || b[i] == 13)) i++;
  return i;
}

// The index after the string that starts at i, or -1.
function skipString(b: Uint8Array, i: i32): i32 {
  for (i++; i < b.length; i++) {
    if (b[i] == 92) i++;
    else if (b[i] == 34) return i + 1;
  }
  return -1;
}

// The index after the value at i, or -1.
function skipValue(b: Uint8Array, i: i32): i32 {
  let depth = 0;
  while (i >= 0 && i < b.length) {
    const c = b[i];
    if (c == 34) {
      i = skipString(b, i);
      continue;
    }
    if (c == 123 || c == 91) depth++;
    else if (c == 125 || c == 93) {
      if (depth == 0) return i;
      depth--;
    } else if (c == 44 && depth == 0) return i;
    i++;
  }
  return i;
}

function same(b: Uint8Array, from: i32, to: i32, key: string): bool {
  if (to - from != key.length) return false;
  for (let i = 0; i < key.length; i++) if (b[from + i] != key.charCodeAt(i)) return false;
  return true;
}

// The raw value of a key of the object in json.
export function member(json: Uint8Array, key: string): Uint8Array | null {
  let i = skipSpace(json, 0);
  if (i >= json.length || json[i] != 123) return null;
  while (true) {
    i = skipSpace(json, i + 1);
    if (i >= json.length || json[i] != 34) return null;
    const name = i + 1;
    i = skipString(json, i);
    if (i < 0) return null;
    const found = same(json, name, i - 1, key);
    i = skipSpace(json, i);
    if (i >= json.length || json[i] != 58) return null;
    const value = skipSpace(json, i + 1);
    i = skipValue(json, value);
    if (i < 0) return null;
    if (found) return json.subarray(value, i);
    if (i >= json.length || json[i] != 44) return null;
  }
}

function hex4(b: Uint8Array, i: i32): u32 {
  let v: u32 = 0;
  for (let n = 0; n < 4; n++) {
    const c = b[i + n];
    v = (v << 4) | <u32>(c <= 57 ? c - 48 : (c | 32) - 87);
  }
  return v;
}

// Writes code point v at o and gives the index after it.
function utf8(v: u32, out: Uint8Array, o: i32): i32 {
  if (v < 0x80) {
    out[o] = <u8>v;
    return o + 1;
  }
  const more: i32 = v < 0x800 ? 1 : v < 0x10000 ? 2 : 3;
  const lead: u32 = more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0;
  out[o] = <u8>(lead | (v >> (6 * more)));
  for (let n = more - 1; n >= 0; n--) out[o + more - n] = <u8>(0x80 | ((v >> (6 * n)) & 63));
  return o + more + 1;
}

function unescape(c: u8): u8 {
  switch (c) {
    case 110: return 10;
    case 116: return 9;
    case 114: return 13;
    case 98: return 8;
    case 102: return 12;
    default: return c;
  }
}

function unquote(raw: Uint8Array): Uint8Array | null {
  if (raw.length < 2 || raw[0] != 34) return null;
  const out = new Uint8Array(raw.length);
  let o = 0;
  let i = 1;
  while (i < raw.length && raw[i] != 34) {
    if (raw[i] != 92) {
      out[o++] = raw[i++];
      continue;
    }
    const c = raw[i + 1];
    i += 2;
    if (c != 117) {
      out[o++] = unescape(c);
      continue;
    }
    if (i + 4 > raw.length) return null;
    let v = hex4(raw, i);
    i += 4;
    if (v >= 0xd800 && v < 0xdc00 && i + 6 <= raw.length) {
      v = 0x10000 + ((v - 0xd800) << 10) + (hex4(raw, i + 2) - 0xdc00);
      i += 6;
    }
    o = utf8(v, out, o);
  }
  return out.subarray(0, o);
}

function hex(v: u64): string {
  let s = "";
  for (let i = 60; i >= 0; i -= 4) s += "0123456789abcdef".charAt(<i32>((v >> i) & 15));
  return s;
}

// The result for the arguments in json, or null if they are not right.
export function count(json: Uint8Array | null): string | null {
  if (json == null) return null;
  const raw = member(json, "text");
  if (raw == null) return null;
  const text = unquote(raw);
  if (text == null) return null;
  let hash: u64 = 14695981039346656037;
  let words = 0;
  let inside = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    hash = (hash ^ c) * 1099511628211;
    const space = c == 32 || c == 9 || c == 10 || c == 13;
    if (!space && !inside) words++;
    inside = !space;
  }
  return '{"words":' + words.toString() + ',"fnv1a":"' + hex(hash) + '"}';
}
