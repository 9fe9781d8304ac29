/* The functions that a plug-in imports from an Extism host, and what every plug-in in C
 * needs on top of them. It uses no C library. */
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define ENV(name) __attribute__((import_module("extism:host/env"), import_name(#name)))
#define USER(name) __attribute__((import_module("extism:host/user"), import_name(#name)))
#define EXPORT(name) __attribute__((export_name(#name)))

ENV(alloc) u64 host_alloc(u64 n);
ENV(free) void host_free(u64 at);
ENV(length) u64 host_length(u64 at);
ENV(length_unsafe) u64 host_length_unsafe(u64 at);
ENV(load_u8) u32 host_load8(u64 at);
ENV(load_u64) u64 host_load64(u64 at);
ENV(store_u8) void host_store8(u64 at, u32 v);
ENV(store_u64) void host_store64(u64 at, u64 v);
ENV(input_offset) u64 host_input_offset(void);
ENV(input_length) u64 host_input_length(void);
ENV(output_set) void host_output_set(u64 at, u64 n);
ENV(error_set) void host_error_set(u64 at);
ENV(config_get) u64 host_config_get(u64 key);
ENV(var_get) u64 host_var_get(u64 key);
ENV(var_set) void host_var_set(u64 key, u64 value);
ENV(log_info) void host_log_info(u64 at);
ENV(http_request) u64 host_http_request(u64 head, u64 body);
ENV(http_status_code) int host_http_status(void);

static u64 size_of(const char *s) {
  u64 n = 0;
  while (s[n]) n++;
  return n;
}

/* put makes a block of n bytes. */
static u64 put(const char *s, u64 n) {
  u64 at = host_alloc(n), i = 0;
  for (; i + 8 <= n; i += 8) {
    u64 word = 0;
    for (int j = 7; j >= 0; j--) word = word << 8 | (u8)s[i + j];
    host_store64(at + i, word);
  }
  for (; i < n; i++) host_store8(at + i, (u8)s[i]);
  return at;
}

static u64 text(const char *s) { return put(s, size_of(s)); }

/* get copies the block at at, but no more than fits, and ends it with a zero. */
static u64 get(u64 at, char *to, u64 space) {
  u64 n = host_length(at), i = 0;
  if (n > space - 1) n = space - 1;
  for (; i + 8 <= n; i += 8) {
    u64 word = host_load64(at + i);
    for (int j = 0; j < 8; j++) to[i + j] = (char)(word >> 8 * j);
  }
  for (; i < n; i++) to[i] = (char)host_load8(at + i);
  to[n] = 0;
  return n;
}

static int output(const char *s) {
  u64 n = size_of(s);
  host_output_set(put(s, n), n);
  return 0;
}

static int fail(const char *s) {
  host_error_set(text(s));
  return 1;
}

/* has says whether s has part in it. */
static int has(const char *s, const char *part) {
  for (; *s; s++) {
    int i = 0;
    while (part[i] && s[i] == part[i]) i++;
    if (!part[i]) return 1;
  }
  return 0;
}
