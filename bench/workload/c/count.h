// The work of the benchmark in C: finds a member of a JSON object, decodes its string,
// counts the words and hashes the bytes. See workload/go/count.
#ifndef COUNT_H
#define COUNT_H

#include <stddef.h>
#include <stdint.h>

// A text in memory; p is NULL when there is none.
typedef struct { const char *p; size_t n; } text;

static const char *skip_space(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
  return p;
}

// skip_string gives what follows a string that starts at p, or NULL.
static const char *skip_string(const char *p, const char *end) {
  for (p++; p < end; p++) {
    if (*p == '\\') p++;
    else if (*p == '"') return p + 1;
  }
  return NULL;
}

// skip_value gives what follows the value at p, or NULL.
static const char *skip_value(const char *p, const char *end) {
  int depth = 0;
  while (p != NULL && p < end) {
    if (*p == '"') p = skip_string(p, end);
    else {
      if (*p == '{' || *p == '[') depth++;
      if (*p == '}' || *p == ']') { if (depth == 0) return p; depth--; }
      if (*p == ',' && depth == 0) return p;
      p++;
    }
    if (depth == 0 && p != NULL && p < end && (*p == ',' || *p == '}' || *p == ']')) return p;
  }
  return p;
}

// member gives the raw value of a key of the object in json.
static text member(text json, const char *key, size_t key_len) {
  const text none = {NULL, 0};
  const char *p = json.p, *end = json.p + json.n;
  p = skip_space(p, end);
  if (p == end || *p != '{') return none;
  p++;
  for (;;) {
    p = skip_space(p, end);
    if (p >= end || *p != '"') return none;
    const char *name = p + 1;
    p = skip_string(p, end);
    if (p == NULL) return none;
    size_t n = (size_t)(p - 1 - name);
    int found = n == key_len && __builtin_memcmp(name, key, n) == 0;
    p = skip_space(p, end);
    if (p >= end || *p != ':') return none;
    const char *value = skip_space(p + 1, end);
    p = skip_value(value, end);
    if (p == NULL) return none;
    if (found) return (text){value, (size_t)(p - value)};
    if (p >= end || *p != ',') return none;
    p++;
  }
}

static unsigned hex4(const char *p) {
  unsigned v = 0;
  for (int i = 0; i < 4; i++) {
    char c = p[i];
    v = v << 4 | (unsigned)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  }
  return v;
}

static size_t utf8(unsigned c, char *out) {
  if (c < 0x80) { out[0] = (char)c; return 1; }
  if (c < 0x800) { out[0] = (char)(0xc0 | c >> 6); out[1] = (char)(0x80 | (c & 63)); return 2; }
  if (c < 0x10000) {
    out[0] = (char)(0xe0 | c >> 12); out[1] = (char)(0x80 | (c >> 6 & 63)); out[2] = (char)(0x80 | (c & 63));
    return 3;
  }
  out[0] = (char)(0xf0 | c >> 18); out[1] = (char)(0x80 | (c >> 12 & 63));
  out[2] = (char)(0x80 | (c >> 6 & 63)); out[3] = (char)(0x80 | (c & 63));
  return 4;
}

// unquote decodes a raw JSON string into out, which has room for raw.n bytes, and gives
// the number of bytes, or -1.
static long unquote(text raw, char *out) {
  if (raw.n < 2 || raw.p[0] != '"') return -1;
  const char *p = raw.p + 1, *end = raw.p + raw.n;
  char *o = out;
  while (p < end && *p != '"') {
    if (*p != '\\') { *o++ = *p++; continue; }
    if (end - p < 2) return -1;
    char c = p[1];
    p += 2;
    switch (c) {
      case 'n': *o++ = '\n'; break;
      case 't': *o++ = '\t'; break;
      case 'r': *o++ = '\r'; break;
      case 'b': *o++ = '\b'; break;
      case 'f': *o++ = '\f'; break;
      case 'u': {
        if (end - p < 4) return -1;
        unsigned v = hex4(p);
        p += 4;
        if (v >= 0xd800 && v < 0xdc00 && end - p >= 6) {
          v = 0x10000 + ((v - 0xd800) << 10) + (hex4(p + 2) - 0xdc00);
          p += 6;
        }
        o += utf8(v, o);
        break;
      }
      default: *o++ = c;
    }
  }
  return o - out;
}

// count writes the result for the arguments in json, and gives its length or -1. scratch
// has room for json.n bytes, out for 64.
static long count(text json, char *scratch, char *out) {
  long n = unquote(member(json, "text", 4), scratch);
  if (n < 0) return -1;
  uint64_t hash = 14695981039346656037ULL;
  unsigned words = 0;
  int inside = 0;
  for (long i = 0; i < n; i++) {
    char c = scratch[i];
    hash = (hash ^ (uint8_t)c) * 1099511628211ULL;
    int space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    words += !space && !inside;
    inside = !space;
  }
  char digits[10];
  int d = 0;
  do { digits[d++] = (char)('0' + words % 10); words /= 10; } while (words > 0);
  char *o = out;
  __builtin_memcpy(o, "{\"words\":", 9); o += 9;
  while (d > 0) *o++ = digits[--d];
  __builtin_memcpy(o, ",\"fnv1a\":\"", 10); o += 10;
  for (int i = 60; i >= 0; i -= 4) *o++ = "0123456789abcdef"[hash >> i & 15];
  *o++ = '"'; *o++ = '}';
  return o - out;
}

#endif
