/*
 * hermes.h is the library for tools written in C (C99 and later) or C++ and compiled to
 * WebAssembly for hermes. It needs a C library for wasm32-wasi and nothing else.
 *
 *   #include "hermes.h"
 *
 *   static int greet(hermes_call *c) {
 *     hermes_text name = hermes_as_text(hermes_get(c->arguments, "name"));
 *     if (name.len == 0) return hermes_fail(c, "name: required");
 *     hermes_object(&c->out);
 *     hermes_key(&c->out, "hello");
 *     hermes_put_text(&c->out, name);
 *     hermes_end(&c->out);
 *     return 0;
 *   }
 *
 *   HERMES_MODULE("greeter", "1.0.0",
 *     {"greet", "Greets somebody.",
 *      "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}}}", greet})
 *
 *   clang --target=wasm32-wasi -mexec-model=reactor -O2 -Wl,--stack-first -o greeter.wasm greeter.c
 *
 * Include it where you like; write HERMES_MODULE in one file. Names with two underscores
 * after hermes are private.
 *
 * Capabilities (hermes_http, hermes_kv_get and its like, hermes_call_tool, hermes_progress)
 * ask the host, which does what the declaration of the tool grants. A capability is an import
 * of the module only if the program uses it, so that the list of imports is the list of what a
 * tool can do.
 *
 * Memory that the library gives stays valid to the end of the call, and nothing is to be
 * freed: an instance makes one call, and nothing is kept from one call to the next. If there
 * is no memory left, the call ends.
 */
#ifndef HERMES_H
#define HERMES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HERMES__IMPORT(m, n) __attribute__((import_module(m), import_name(n)))
#define HERMES__EXPORT(n) __attribute__((export_name(n), used, visibility("default")))
#define HERMES__PRINTF(f, a) __attribute__((format(printf, f, a)))

HERMES__IMPORT("hermes", "input_len") int32_t hermes__input_len(void);
HERMES__IMPORT("hermes", "input_read") int32_t hermes__input_read(void *p, uint32_t off, uint32_t n);
HERMES__IMPORT("hermes", "output_write") int32_t hermes__output_write(const void *p, uint32_t n);
HERMES__IMPORT("hermes", "error_set") void hermes__error_set(const void *p, uint32_t n);
HERMES__IMPORT("hermes", "log") void hermes__log(int32_t level, const void *p, uint32_t n);
HERMES__IMPORT("hermes", "result_len") int32_t hermes__result_len(int32_t h);
HERMES__IMPORT("hermes", "result_read") int32_t hermes__result_read(int32_t h, void *p, uint32_t off, uint32_t n);
HERMES__IMPORT("hermes", "result_close") void hermes__result_close(int32_t h);
HERMES__IMPORT("hermes_http", "fetch") int32_t hermes__fetch(const void *p, uint32_t n);
HERMES__IMPORT("hermes_kv", "get") int32_t hermes__get(const void *p, uint32_t n);
HERMES__IMPORT("hermes_kv", "put") int32_t hermes__put(const void *p, uint32_t n);
HERMES__IMPORT("hermes_kv", "delete") int32_t hermes__delete(const void *p, uint32_t n);
HERMES__IMPORT("hermes_kv", "list") int32_t hermes__list(const void *p, uint32_t n);
HERMES__IMPORT("hermes_tools", "call") int32_t hermes__call(const void *p, uint32_t n);
HERMES__IMPORT("hermes_progress", "report") int32_t hermes__report(const void *p, uint32_t n);

/* ---- Log and memory ---- */

typedef enum hermes_level { HERMES_DEBUG = 0, HERMES_INFO = 1, HERMES_WARN = 2, HERMES_ERROR = 3 } hermes_level;

/* Writes to the log of the host. How much a call may log is limited, and going over ends the
 * call. */
static inline void hermes_log(hermes_level level, const char *text) { hermes__log((int32_t)level, text, (uint32_t)strlen(text)); }

/* Gives n bytes that stay valid to the end of the call, or ends it. */
static inline void *hermes_alloc(size_t n) {
  void *p = malloc(n ? n : 1);
  if (!p) {
    hermes_log(HERMES_ERROR, "out of memory");
    __builtin_trap();
  }
  return p;
}

/* Formats as printf does. */
static inline char *hermes__vprint(const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  char *b = (char *)hermes_alloc((n < 0 ? 0 : (size_t)n) + 1);
  b[0] = 0;
  if (n > 0) vsnprintf(b, (size_t)n + 1, format, again);
  va_end(again);
  return b;
}

HERMES__PRINTF(2, 3) static inline void hermes_logf(hermes_level level, const char *format, ...) {
  va_list args;
  va_start(args, format);
  hermes_log(level, hermes__vprint(format, args));
  va_end(args);
}

/* ---- Text ---- */

/* Bytes with their length; a NUL follows, and there may be others inside. ptr is NULL where
 * there is no text. */
typedef struct hermes_text {
  const char *ptr;
  size_t len;
} hermes_text;

static inline hermes_text hermes__text(const char *ptr, size_t len) {
  hermes_text t;
  t.ptr = ptr;
  t.len = len;
  return t;
}

static inline bool hermes_text_is(hermes_text t, const char *s) { return t.ptr && t.len == strlen(s) && memcmp(t.ptr, s, t.len) == 0; }

/* Reads one code point of UTF-8 and gives its length; a byte that belongs to none is U+FFFD. */
static inline size_t hermes__utf8(const char *s, const char *end, uint32_t *point) {
  const unsigned char *p = (const unsigned char *)s;
  size_t left = (size_t)(end - s), n = p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;
  if (p[0] < 0x80) {
    *point = p[0];
    return 1;
  }
  *point = 0xFFFD;
  if (n == 0 || n > left) return 1;
  uint32_t v = p[0] & (0xFFu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if ((p[i] & 0xC0) != 0x80) return 1;
    v = v << 6 | (p[i] & 0x3Fu);
  }
  if ((n == 3 && (v < 0x800 || (v >= 0xD800 && v < 0xE000))) || (n == 4 && (v < 0x10000 || v > 0x10FFFF))) return 1;
  *point = v;
  return n;
}

/* Writes a code point, at most 4 bytes, and gives its length. */
static inline size_t hermes__encode(uint32_t v, char *out) {
  if (v < 0x80) return out[0] = (char)v, 1;
  if (v < 0x800) return out[0] = (char)(0xC0 | v >> 6), out[1] = (char)(0x80 | (v & 0x3F)), 2;
  if (v < 0x10000) return out[0] = (char)(0xE0 | v >> 12), out[1] = (char)(0x80 | (v >> 6 & 0x3F)), out[2] = (char)(0x80 | (v & 0x3F)), 3;
  out[0] = (char)(0xF0 | v >> 18), out[1] = (char)(0x80 | (v >> 12 & 0x3F));
  out[2] = (char)(0x80 | (v >> 6 & 0x3F)), out[3] = (char)(0x80 | (v & 0x3F));
  return 4;
}

/* ---- Reading JSON ---- */

/* How deep objects and arrays may lie in each other, in what is read and written. */
#define HERMES_MAX_DEPTH 512

/* A JSON value: a part of a text that was found to be right. ptr is NULL where there is no
 * value; every function takes that, too. */
typedef struct hermes_value {
  const char *ptr, *end;
} hermes_value;

typedef enum hermes_kind { HERMES_ABSENT, HERMES_NULL, HERMES_BOOL, HERMES_NUMBER, HERMES_STRING, HERMES_ARRAY, HERMES_OBJECT } hermes_kind;

static inline const char *hermes__space(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
  return p;
}

static inline bool hermes__is(const char *p, const char *end, char c) { return p && p < end && *p == c; }

static inline int hermes__hex4(const char *p, const char *end) {
  int v = 0;
  if (end - p < 4) return -1;
  for (int i = 0; i < 4; i++) {
    char c = p[i];
    int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (d < 0) return -1;
    v = v << 4 | d;
  }
  return v;
}

/* The scanners give the place after what they read, or NULL if it is not right. */

static inline const char *hermes__scan_string(const char *p, const char *end) {
  if (!hermes__is(p, end, '"')) return NULL;
  for (p++; p < end; p++) {
    if (*p == '"') return p + 1;
    if ((unsigned char)*p < 0x20) return NULL;
    if (*p != '\\') continue;
    if (++p == end) return NULL;
    if (*p == 'u') {
      if (hermes__hex4(p + 1, end) < 0) return NULL;
      p += 4;
    } else if (!*p || !strchr("\"\\/bfnrt", *p)) {
      return NULL;
    }
  }
  return NULL;
}

static inline const char *hermes__digits(const char *p, const char *end) {
  const char *start = p;
  while (p < end && *p >= '0' && *p <= '9') p++;
  return p == start ? NULL : p;
}

static inline const char *hermes__scan_number(const char *p, const char *end) {
  if (hermes__is(p, end, '-')) p++;
  p = hermes__is(p, end, '0') ? p + 1 : hermes__digits(p, end);
  if (hermes__is(p, end, '.')) p = hermes__digits(p + 1, end);
  if (!hermes__is(p, end, 'e') && !hermes__is(p, end, 'E')) return p;
  p++;
  if (hermes__is(p, end, '+') || hermes__is(p, end, '-')) p++;
  return hermes__digits(p, end);
}

static inline const char *hermes__scan_word(const char *p, const char *end, const char *word) {
  size_t n = strlen(word);
  return (size_t)(end - p) >= n && memcmp(p, word, n) == 0 ? p + n : NULL;
}

static inline const char *hermes__scan_scalar(const char *p, const char *end) {
  switch (*p) {
  case '"': return hermes__scan_string(p, end);
  case 't': return hermes__scan_word(p, end, "true");
  case 'f': return hermes__scan_word(p, end, "false");
  case 'n': return hermes__scan_word(p, end, "null");
  }
  return hermes__scan_number(p, end);
}

/* Reads a key with its colon, and gives the place of the value. */
static inline const char *hermes__scan_key(const char *p, const char *end) {
  p = hermes__scan_string(hermes__space(p, end), end);
  if (!p) return NULL;
  p = hermes__space(p, end);
  return hermes__is(p, end, ':') ? hermes__space(p + 1, end) : NULL;
}

/* Reads one value that starts at p. What is open is kept in bits, so that depth costs no
 * stack. */
static inline const char *hermes__scan(const char *p, const char *end) {
  uint8_t objects[HERMES_MAX_DEPTH / 8];
  size_t depth = 0;
  for (;;) {
    if (!p || p == end) return NULL;
    if (*p == '{' || *p == '[') {
      bool object = *p == '{';
      if (depth == HERMES_MAX_DEPTH) return NULL;
      objects[depth / 8] = (uint8_t)((objects[depth / 8] & ~(1u << depth % 8)) | ((unsigned)object << depth % 8));
      depth++;
      p = hermes__space(p + 1, end);
      if (!hermes__is(p, end, object ? '}' : ']')) {
        if (object) p = hermes__scan_key(p, end);
        continue;
      }
      p++;
      depth--;
    } else if (!(p = hermes__scan_scalar(p, end))) {
      return NULL;
    }
    bool more = false;
    while (depth > 0 && !more) {
      bool object = objects[(depth - 1) / 8] >> (depth - 1) % 8 & 1;
      p = hermes__space(p, end);
      more = hermes__is(p, end, ',');
      if (!more && !hermes__is(p, end, object ? '}' : ']')) return NULL;
      p++;
      if (!more) depth--;
      else p = object ? hermes__scan_key(p, end) : hermes__space(p, end);
    }
    if (!more) return p;
  }
}

/* Reads a text that must be one JSON value and nothing else. The value lies in the text,
 * which must stay as long as it is used. */
static inline bool hermes_parse(const char *text, size_t len, hermes_value *out) {
  const char *end = text + len, *p = hermes__space(text, end);
  out->ptr = p;
  out->end = p = hermes__scan(p, end);
  if (p && hermes__space(p, end) == end) return true;
  out->ptr = out->end = NULL;
  return false;
}

static inline hermes_kind hermes_kind_of(hermes_value v) {
  if (!v.ptr) return HERMES_ABSENT;
  switch (*v.ptr) {
  case '{': return HERMES_OBJECT;
  case '[': return HERMES_ARRAY;
  case '"': return HERMES_STRING;
  case 't': case 'f': return HERMES_BOOL;
  case 'n': return HERMES_NULL;
  }
  return HERMES_NUMBER;
}

/* Goes over the elements of an array or the members of an object:
 *
 *   hermes_iter it = hermes_each(v);
 *   while (hermes_next(&it)) use(it.key, it.value);
 */
typedef struct hermes_iter {
  hermes_value key, value; /* key: a string; absent in an array */
  const char *p, *end;
} hermes_iter;

static inline hermes_iter hermes_each(hermes_value v) {
  hermes_iter it;
  memset(&it, 0, sizeof it);
  if (hermes_kind_of(v) >= HERMES_ARRAY) it.p = v.ptr, it.end = v.end;
  return it;
}

static inline bool hermes_next(hermes_iter *it) {
  if (!it->p) return false;
  bool object = *(it->end - 1) == '}';
  const char *p = hermes__space(it->p + 1, it->end); /* after the bracket or the comma */
  if (p >= it->end - 1) {
    it->p = NULL;
    return false;
  }
  if (object) {
    it->key.ptr = p;
    it->key.end = hermes__scan_string(p, it->end);
    p = hermes__scan_key(p, it->end);
  }
  it->value.ptr = p;
  it->value.end = hermes__scan(p, it->end);
  it->p = hermes__space(it->value.end, it->end);
  return true;
}

/* Reads one code point of a string's inside; half of a surrogate pair is U+FFFD. */
static inline const char *hermes__rune(const char *p, const char *end, uint32_t *point) {
  if (*p != '\\') return p + hermes__utf8(p, end, point);
  const char *names = "\"\\/bfnrt", *values = "\"\\/\b\f\n\r\t";
  if (p[1] != 'u') {
    *point = (uint32_t)values[strchr(names, p[1]) - names];
    return p + 2;
  }
  uint32_t v = (uint32_t)hermes__hex4(p + 2, end);
  p += 6;
  *point = v >= 0xD800 && v < 0xE000 ? 0xFFFD : v;
  if (v < 0xD800 || v >= 0xDC00 || end - p < 6 || p[0] != '\\' || p[1] != 'u') return p;
  uint32_t low = (uint32_t)hermes__hex4(p + 2, end);
  if (low < 0xDC00 || low >= 0xE000) return p;
  *point = 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
  return p + 6;
}

/* The text of a string; ptr is NULL if v is none. */
static inline hermes_text hermes_as_text(hermes_value v) {
  if (hermes_kind_of(v) != HERMES_STRING) return hermes__text(NULL, 0);
  const char *p = v.ptr + 1, *end = v.end - 1;
  /* A byte that is no UTF-8 becomes three. */
  char *out = (char *)hermes_alloc((size_t)(end - p) * 3 + 1), *o = out;
  while (p < end) {
    uint32_t point;
    p = hermes__rune(p, end, &point);
    o += hermes__encode(point, o);
  }
  *o = 0;
  return hermes__text(out, (size_t)(o - out));
}

/* The same as a string of C, or def if v is no string. */
static inline const char *hermes_as_string(hermes_value v, const char *def) {
  hermes_text t = hermes_as_text(v);
  return t.ptr ? t.ptr : def;
}

/* Says whether v is a string with this text. */
static inline bool hermes_is(hermes_value v, const char *text) {
  if (hermes_kind_of(v) != HERMES_STRING) return false;
  const char *p = v.ptr + 1, *end = v.end - 1, *textend = text + strlen(text);
  while (p < end && text < textend) {
    uint32_t a, b;
    p = hermes__rune(p, end, &a);
    text += hermes__utf8(text, textend, &b);
    if (a != b) return false;
  }
  return p == end && text == textend;
}

/* The member of an object; of equal names the last. Absent if v is no object or has none. */
static inline hermes_value hermes_get(hermes_value v, const char *name) {
  hermes_value found = {NULL, NULL};
  if (hermes_kind_of(v) != HERMES_OBJECT) return found;
  hermes_iter it = hermes_each(v);
  while (hermes_next(&it))
    if (hermes_is(it.key, name)) found = it.value;
  return found;
}

/* The element of an array; absent if there is none. */
static inline hermes_value hermes_at(hermes_value v, size_t index) {
  hermes_value none = {NULL, NULL};
  if (hermes_kind_of(v) != HERMES_ARRAY) return none;
  hermes_iter it = hermes_each(v);
  while (hermes_next(&it))
    if (index-- == 0) return it.value;
  return none;
}

/* The number of elements or members. */
static inline size_t hermes_count(hermes_value v) {
  size_t n = 0;
  hermes_iter it = hermes_each(v);
  while (hermes_next(&it)) n++;
  return n;
}

/* The text of any value, as it was written: numbers keep all of their digits. */
static inline hermes_text hermes_raw(hermes_value v) {
  if (!v.ptr) return hermes__text(NULL, 0);
  size_t n = (size_t)(v.end - v.ptr);
  char *b = (char *)hermes_alloc(n + 1);
  memcpy(b, v.ptr, n);
  b[n] = 0;
  return hermes__text(b, n);
}

/* Reads a number; false if v is none, or too large. */
static inline bool hermes_as_double(hermes_value v, double *out) {
  if (hermes_kind_of(v) != HERMES_NUMBER) return false;
  double d = strtod(hermes_raw(v).ptr, NULL);
  if (!__builtin_isfinite(d)) return false;
  *out = d;
  return true;
}

/* Reads an integer exactly; false if v is none, has a fraction or does not fit. 5.0 and 1e3
 * are integers, too. */
static inline bool hermes_as_int(hermes_value v, int64_t *out) {
  if (hermes_kind_of(v) != HERMES_NUMBER) return false;
  const char *p = v.ptr;
  bool negative = *p == '-';
  uint64_t n = 0, limit = (uint64_t)INT64_MAX + negative;
  for (p += negative; p < v.end && *p >= '0' && *p <= '9'; p++) {
    unsigned digit = (unsigned)(*p - '0');
    if (n > (limit - digit) / 10) return false;
    n = n * 10 + digit;
  }
  if (p < v.end) {
    double d;
    if (!hermes_as_double(v, &d) || d < -9007199254740992.0 || d > 9007199254740992.0 || (double)(int64_t)d != d) return false;
    *out = (int64_t)d;
    return true;
  }
  *out = negative ? (int64_t)(0 - n) : (int64_t)n;
  return true;
}

static inline bool hermes_as_bool(hermes_value v, bool def) { return hermes_kind_of(v) == HERMES_BOOL ? *v.ptr == 't' : def; }

/* ---- Writing JSON ---- */

/* Writes one JSON value. Commas come by themselves. What is not whole (an object without its
 * end, a member without its key) is found when it is used, and refused. Start one with
 * hermes_writer w = HERMES_WRITER; */
typedef struct hermes_writer {
  char *ptr; /* not terminated */
  size_t len, cap, depth;
  bool comma, keyed, broken;
  uint8_t objects[HERMES_MAX_DEPTH / 8];
} hermes_writer;

#define HERMES_WRITER {NULL, 0, 0, 0, false, false, false, {0}}

static inline void hermes__add(hermes_writer *w, const char *s, size_t n) {
  if (n > w->cap - w->len) {
    size_t cap = (w->cap + n) * 2 + 64;
    char *b = (char *)hermes_alloc(cap);
    if (w->len) memcpy(b, w->ptr, w->len);
    free(w->ptr);
    w->ptr = b;
    w->cap = cap;
  }
  if (n) memcpy(w->ptr + w->len, s, n);
  w->len += n;
}

static inline bool hermes__in_object(const hermes_writer *w) {
  return w->depth > 0 && (w->objects[(w->depth - 1) / 8] >> (w->depth - 1) % 8 & 1);
}

/* Whether exactly one value was written. */
static inline bool hermes_whole(const hermes_writer *w) { return !w->broken && w->depth == 0 && w->len > 0; }

/* Every value begins with this. */
static inline bool hermes__begin(hermes_writer *w) {
  if ((w->depth == 0 && w->len > 0) || (hermes__in_object(w) && !w->keyed)) w->broken = true;
  if (w->broken) return false;
  if (w->comma && !w->keyed) hermes__add(w, ",", 1);
  w->comma = true;
  w->keyed = false;
  return true;
}

static inline void hermes__write(hermes_writer *w, const char *s, size_t n) {
  if (hermes__begin(w)) hermes__add(w, s, n);
}

static inline void hermes__open(hermes_writer *w, bool object) {
  if (w->depth == HERMES_MAX_DEPTH) w->broken = true;
  if (!hermes__begin(w)) return;
  size_t d = w->depth++;
  w->objects[d / 8] = (uint8_t)((w->objects[d / 8] & ~(1u << d % 8)) | ((unsigned)object << d % 8));
  hermes__add(w, object ? "{" : "[", 1);
  w->comma = false;
}

/* Begins an object or an array; hermes_end ends it. */
static inline void hermes_object(hermes_writer *w) { hermes__open(w, true); }
static inline void hermes_array(hermes_writer *w) { hermes__open(w, false); }

static inline void hermes_end(hermes_writer *w) {
  if (w->depth == 0 || w->keyed) w->broken = true;
  if (w->broken) return;
  hermes__add(w, hermes__in_object(w) ? "}" : "]", 1);
  w->depth--;
  w->comma = true;
}

/* Bytes that are no UTF-8 are written as U+FFFD. */
static inline void hermes__quote(hermes_writer *w, const char *s, size_t n) {
  const char *end = s + n, *plain = s;
  hermes__add(w, "\"", 1);
  while (s < end) {
    uint32_t point;
    size_t size = hermes__utf8(s, end, &point);
    bool invalid = point == 0xFFFD && size == 1;
    if (point >= 0x20 && point != '"' && point != '\\' && !invalid) {
      s += size;
      continue;
    }
    hermes__add(w, plain, (size_t)(s - plain));
    if (point == '"' || point == '\\') {
      char escaped[2] = {'\\', (char)point};
      hermes__add(w, escaped, 2);
    } else if (invalid) {
      hermes__add(w, "\xEF\xBF\xBD", 3);
    } else {
      char escaped[6] = {'\\', 'u', '0', '0', (char)('0' + (point >> 4)), "0123456789abcdef"[point & 15]};
      hermes__add(w, escaped, 6);
    }
    plain = s += size;
  }
  hermes__add(w, plain, (size_t)(s - plain));
  hermes__add(w, "\"", 1);
}

static inline void hermes__key(hermes_writer *w, const char *s, size_t n) {
  if (!hermes__in_object(w) || w->keyed) w->broken = true;
  if (w->broken) return;
  if (w->comma) hermes__add(w, ",", 1);
  hermes__quote(w, s, n);
  hermes__add(w, ":", 1);
  w->keyed = true;
}

/* The name of the member that is written next. */
static inline void hermes_key(hermes_writer *w, const char *name) { hermes__key(w, name, strlen(name)); }
static inline void hermes_key_text(hermes_writer *w, hermes_text name) { hermes__key(w, name.ptr, name.len); }

static inline void hermes_put_null(hermes_writer *w) { hermes__write(w, "null", 4); }
static inline void hermes_put_bool(hermes_writer *w, bool v) { v ? hermes__write(w, "true", 4) : hermes__write(w, "false", 5); }

/* Text without a ptr is null. */
static inline void hermes_put_text(hermes_writer *w, hermes_text t) {
  if (!t.ptr) hermes_put_null(w);
  else if (hermes__begin(w)) hermes__quote(w, t.ptr, t.len);
}
static inline void hermes_put_string(hermes_writer *w, const char *s) { hermes_put_text(w, hermes__text(s, s ? strlen(s) : 0)); }

static inline void hermes_put_int(hermes_writer *w, int64_t v) {
  char b[20], *p = b + sizeof b;
  uint64_t n = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  do *--p = (char)('0' + n % 10);
  while (n /= 10);
  if (v < 0) *--p = '-';
  hermes__write(w, p, (size_t)(b + sizeof b - p));
}

/* With as many digits as it takes to read the same number again; infinity and what is no
 * number are null. */
static inline void hermes_put_double(hermes_writer *w, double v) {
  char b[32];
  if (!__builtin_isfinite(v)) {
    hermes_put_null(w);
    return;
  }
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(b, sizeof b, "%.*g", digits, v);
    if (strtod(b, NULL) == v) break;
  }
  hermes__write(w, b, strlen(b));
}

/* A value that was read, as it was written. An absent one is null. */
static inline void hermes_put_value(hermes_writer *w, hermes_value v) {
  if (!v.ptr) hermes_put_null(w);
  else hermes__write(w, v.ptr, (size_t)(v.end - v.ptr));
}

/* Text that must be one JSON value. */
static inline void hermes_put_json(hermes_writer *w, const char *text) {
  hermes_value v;
  if (hermes_parse(text, strlen(text), &v)) hermes_put_value(w, v);
  else w->broken = true;
}

static inline void hermes_put_base64(hermes_writer *w, const void *data, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *p = (const unsigned char *)data;
  if (!hermes__begin(w)) return;
  hermes__add(w, "\"", 1);
  for (size_t i = 0; i < n; i += 3) {
    uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
    char four[4] = {digits[v >> 18], digits[v >> 12 & 63], i + 1 < n ? digits[v >> 6 & 63] : '=', i + 2 < n ? digits[v & 63] : '='};
    hermes__add(w, four, 4);
  }
  hermes__add(w, "\"", 1);
}

/* ---- Tools ---- */

/* One call of a tool. */
typedef struct hermes_call {
  hermes_value arguments; /* an object */
  hermes_value info;      /* an object with id, agent, session, run, deadline_ms (left when it started), idempotency_key */
  const char *tool;       /* the name it was called by */
  hermes_writer out;      /* the result; nothing written is null */
  hermes_text error;      /* private */
} hermes_call;

/* A tool gives 0 and has written its result, or what hermes_fail gives. */
typedef int (*hermes_func)(hermes_call *c);

typedef struct hermes_tool {
  const char *name, *description;
  const char *schema; /* JSON Schema of the arguments, an object; NULL: any */
  hermes_func call;
} hermes_tool;

/* Ends a call with an error, whose text is what the model is told: return hermes_fail(…). */
static inline int hermes_fail(hermes_call *c, const char *text) {
  c->error = hermes__text(text, strlen(text));
  return 1;
}

HERMES__PRINTF(2, 3) static inline int hermes_failf(hermes_call *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = hermes__vprint(format, args);
  va_end(args);
  return hermes_fail(c, text);
}

/* ---- Capabilities ---- */

/* What a capability answers. */
typedef struct hermes_answer {
  const char *error; /* what was refused or failed, which a tool may show its caller; NULL: nothing */
  const char *kind;  /* of an error, for example "not_granted", "denied", "too_large"; NULL: none */
  int64_t status;    /* of hermes_http */
  bool found;        /* of hermes_kv_get and hermes_kv_delete */
  hermes_value head; /* an object: http has status, headers, url, truncated; kv_list keys, more */
  hermes_text body;  /* of http, the value of kv_get, the result of call_tool as JSON */
} hermes_answer;

static inline hermes_answer hermes__refused(const char *kind, const char *error) {
  hermes_answer a;
  memset(&a, 0, sizeof a);
  a.kind = kind;
  a.error = error;
  return a;
}

static inline hermes_answer hermes__host_error(int32_t number) {
  switch (number) {
  case 2: return hermes__refused("not_granted", "not granted: the declaration of the tool has no such grant");
  case 28: return hermes__refused("invalid", "the host could not read the request");
  case 51: return hermes__refused("too_large", "too many answers are kept unread");
  case 61: return hermes__refused("too_large", "a limit of the declaration is reached");
  }
  return hermes__refused("internal", "the host failed");
}

/* Reads the frame of an answer: a length, a head, a body. */
static inline hermes_answer hermes__answer(int32_t handle) {
  if (handle < 0) return hermes__host_error(-handle);
  hermes_answer a = hermes__refused(NULL, NULL);
  int32_t n = hermes__result_len(handle);
  if (n < 4) return hermes__host_error(0);
  uint8_t *b = (uint8_t *)hermes_alloc((size_t)n + 1);
  int32_t got = hermes__result_read(handle, b, 0, (uint32_t)n);
  hermes__result_close(handle);
  uint32_t head = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
  if (got != n || head > (uint32_t)n - 4 || !hermes_parse((const char *)b + 4, head, &a.head)) return hermes__host_error(0);
  b[n] = 0;
  a.body = hermes__text((const char *)b + 4 + head, (size_t)n - 4 - head);
  a.found = hermes_as_bool(hermes_get(a.head, "found"), false);
  hermes_as_int(hermes_get(a.head, "status"), &a.status);
  hermes_value error = hermes_get(a.head, "error");
  if (hermes_kind_of(error) == HERMES_OBJECT) {
    a.error = hermes_as_string(hermes_get(error, "message"), "the host did not say why");
    a.kind = hermes_as_string(hermes_get(error, "kind"), "internal");
  }
  return a;
}

static inline hermes_answer hermes__ask(int32_t (*send)(const void *, uint32_t), hermes_writer *w) {
  if (!hermes_whole(w)) return hermes__refused("invalid", "the request is not whole");
  hermes_answer a = hermes__answer(send(w->ptr, (uint32_t)w->len));
  free(w->ptr);
  w->ptr = NULL;
  w->len = w->cap = 0;
  return a;
}

typedef struct hermes_header {
  const char *name, *value;
} hermes_header;

/* A request; what is left out is zero: hermes_request r = {0}; in C++ hermes_request r = {}; */
typedef struct hermes_request {
  const char *url, *method; /* method NULL: GET */
  const hermes_header *headers;
  size_t header_count;
  const void *body;
  size_t body_len;
} hermes_request;

/* Sends a request under the http grants of the declaration. Any status is an answer. */
static inline hermes_answer hermes_http(const hermes_request *r) {
  hermes_writer w = HERMES_WRITER;
  hermes_object(&w);
  hermes_key(&w, "method"), hermes_put_string(&w, r->method ? r->method : "GET");
  hermes_key(&w, "url"), hermes_put_string(&w, r->url);
  hermes_key(&w, "headers"), hermes_object(&w);
  for (size_t i = 0; i < r->header_count; i++) hermes_key(&w, r->headers[i].name), hermes_put_string(&w, r->headers[i].value);
  hermes_end(&w);
  if (r->body_len) hermes_key(&w, "body_base64"), hermes_put_base64(&w, r->body, r->body_len);
  hermes_end(&w);
  return hermes__ask(hermes__fetch, &w);
}

static inline hermes_answer hermes__key_call(int32_t (*send)(const void *, uint32_t), const char *key) {
  hermes_writer w = HERMES_WRITER;
  hermes_object(&w);
  hermes_key(&w, "key"), hermes_put_string(&w, key);
  hermes_end(&w);
  return hermes__ask(send, &w);
}

/* Reads a value of the store that the kv grant names: found and body. Keys are text of 1 to
 * 512 bytes, values any bytes. */
static inline hermes_answer hermes_kv_get(const char *key) { return hermes__key_call(hermes__get, key); }

/* Removes a key: found says whether it was there. */
static inline hermes_answer hermes_kv_delete(const char *key) { return hermes__key_call(hermes__delete, key); }

/* Stores a value; over the quota the kind is "too_large" and nothing changes. */
static inline hermes_answer hermes_kv_put(const char *key, const void *value, size_t len) {
  hermes_writer w = HERMES_WRITER;
  hermes_object(&w);
  hermes_key(&w, "key"), hermes_put_string(&w, key);
  hermes_key(&w, "value_base64"), hermes_put_base64(&w, value, len);
  hermes_end(&w);
  return hermes__ask(hermes__put, &w);
}

/* Lists keys, sorted by their bytes: head has keys, a list of {"key","size"}, and more. prefix
 * and after (only keys greater than it) may be NULL; limit 0: as many as the host gives. */
static inline hermes_answer hermes_kv_list(const char *prefix, const char *after, uint32_t limit) {
  hermes_writer w = HERMES_WRITER;
  hermes_object(&w);
  if (prefix) hermes_key(&w, "prefix"), hermes_put_string(&w, prefix);
  if (after) hermes_key(&w, "after"), hermes_put_string(&w, after);
  if (limit) hermes_key(&w, "limit"), hermes_put_int(&w, limit);
  hermes_end(&w);
  return hermes__ask(hermes__list, &w);
}

/* Calls another tool, which the tools grant must allow, under that tool's own grants and
 * policies. The arguments are an object; NULL: an empty one. The body of the answer is the
 * result, one JSON value. */
static inline hermes_answer hermes_call_tool(const char *name, const hermes_writer *arguments) {
  hermes_writer w = HERMES_WRITER;
  hermes_object(&w);
  hermes_key(&w, "tool"), hermes_put_string(&w, name);
  hermes_key(&w, "arguments");
  if (!arguments) hermes_put_json(&w, "{}");
  else if (hermes_whole(arguments)) hermes__write(&w, arguments->ptr, arguments->len);
  hermes_end(&w);
  hermes_answer a = hermes__ask(hermes__call, &w);
  if (!a.error && !hermes_as_bool(hermes_get(a.head, "ok"), false)) return hermes__refused("internal", "the tool failed, and the host did not say why");
  return a;
}

/* Tells the caller how far the call has come, in any unit; message may be NULL and total 0.
 * Reports that come too fast are dropped. */
static inline hermes_answer hermes_progress(const char *message, double done, double total) {
  hermes_writer w = HERMES_WRITER;
  hermes_object(&w);
  if (message) hermes_key(&w, "message"), hermes_put_string(&w, message);
  hermes_key(&w, "done"), hermes_put_double(&w, done);
  if (total != 0) hermes_key(&w, "total"), hermes_put_double(&w, total);
  hermes_end(&w);
  return hermes__ask(hermes__report, &w);
}

/* ---- The module ---- */

static inline int32_t hermes__refuse(int32_t code, const char *text, size_t len) {
  hermes__error_set(text, (uint32_t)len);
  if (code > 1) hermes__log(HERMES_ERROR, text, (uint32_t)len);
  return code;
}

static inline int32_t hermes__answer_call(const hermes_writer *w) {
  static const char torn[] = "the tool wrote JSON that is not whole", large[] = "the result is over the limit of the declaration";
  if (w->len == 0 && !w->broken) return hermes__output_write("null", 4) < 0;
  if (!hermes_whole(w)) return hermes__refuse(2, torn, sizeof torn - 1);
  if (hermes__output_write(w->ptr, (uint32_t)w->len) < 0) return hermes__refuse(1, large, sizeof large - 1);
  return 0;
}

/* A module with one tool answers to any name, so that a declaration can rename it. */
static inline int32_t hermes__run(const hermes_tool *tools, size_t count) {
  static const char unread[] = "the input of the call cannot be read", unknown[] = "the module has no tool of that name";
  int32_t n = hermes__input_len();
  char *in = (char *)hermes_alloc(n < 0 ? 0 : (size_t)n);
  hermes_value v;
  if (n < 0 || hermes__input_read(in, 0, (uint32_t)n) != n || !hermes_parse(in, (size_t)n, &v)) return hermes__refuse(2, unread, sizeof unread - 1);
  hermes_call c;
  memset(&c, 0, sizeof c);
  c.arguments = hermes_get(v, "arguments");
  c.info = hermes_get(v, "call");
  c.tool = hermes_as_string(hermes_get(v, "tool"), "");
  for (size_t i = 0; i < count; i++) {
    if (count > 1 && strcmp(tools[i].name, c.tool) != 0) continue;
    int code = tools[i].call(&c);
    return code == 0 ? hermes__answer_call(&c.out) : hermes__refuse(code == 1 ? 1 : 2, c.error.ptr, c.error.len);
  }
  return hermes__refuse(1, unknown, sizeof unknown - 1);
}

static inline int32_t hermes__describe(const char *name, const char *version, const hermes_tool *tools, size_t count) {
  hermes_writer w = HERMES_WRITER;
  hermes_object(&w);
  hermes_key(&w, "abi"), hermes_put_int(&w, 1);
  hermes_key(&w, "name"), hermes_put_string(&w, name);
  hermes_key(&w, "version"), hermes_put_string(&w, version);
  hermes_key(&w, "tools"), hermes_array(&w);
  for (size_t i = 0; i < count; i++) {
    hermes_object(&w);
    hermes_key(&w, "name"), hermes_put_string(&w, tools[i].name);
    hermes_key(&w, "description"), hermes_put_string(&w, tools[i].description);
    if (tools[i].schema) hermes_key(&w, "input_schema"), hermes_put_json(&w, tools[i].schema);
    hermes_end(&w);
  }
  hermes_end(&w);
#ifdef HERMES_WANTS
  hermes_key(&w, "wants"), hermes_put_json(&w, HERMES_WANTS);
#endif
  hermes_end(&w);
  return hermes__answer_call(&w);
}

/* Makes the program a module with these tools. A descriptor may also say which capabilities
 * it would like; the operator decides:
 *
 *   #define HERMES_WANTS "[{\"capability\":\"http\",\"hosts\":[\"https://api.example.com\"]}]"
 *   #include "hermes.h"
 */
#ifdef __cplusplus
#define HERMES__C extern "C"
#else
#define HERMES__C
#endif
#define HERMES_MODULE(name, version, ...)                                                               \
  static const hermes_tool hermes__tools[] = {__VA_ARGS__};                                             \
  HERMES__C HERMES__EXPORT("hermes_abi_v1") void hermes__export_marker(void);                           \
  HERMES__C HERMES__EXPORT("hermes_describe") int32_t hermes__export_describe(void);                    \
  HERMES__C HERMES__EXPORT("hermes_call") int32_t hermes__export_call(void);                            \
  void hermes__export_marker(void) {}                                                                   \
  int32_t hermes__export_describe(void) {                                                               \
    return hermes__describe(name, version, hermes__tools, sizeof hermes__tools / sizeof *hermes__tools); \
  }                                                                                                     \
  int32_t hermes__export_call(void) { return hermes__run(hermes__tools, sizeof hermes__tools / sizeof *hermes__tools); }

#ifdef __cplusplus
}
#endif

#endif
