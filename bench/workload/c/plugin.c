// The work as an Extism plug-in, on the bare imports.
#include <stdlib.h>

#include "count.h"

#define IMPORT(name) __attribute__((import_module("extism:host/env"), import_name(#name)))

IMPORT(input_length) uint64_t input_length(void);
IMPORT(input_load_u8) uint32_t input_load_u8(uint64_t at);
IMPORT(input_load_u64) uint64_t input_load_u64(uint64_t at);
IMPORT(alloc) uint64_t host_alloc(uint64_t n);
IMPORT(store_u8) void store_u8(uint64_t at, uint32_t b);
IMPORT(store_u64) void store_u64(uint64_t at, uint64_t v);
IMPORT(output_set) void output_set(uint64_t at, uint64_t n);

static void load(char *p, uint64_t n) {
  uint64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t v = input_load_u64(i);
    __builtin_memcpy(p + i, &v, 8);
  }
  for (; i < n; i++) p[i] = (char)input_load_u8(i);
}

static void store(const char *p, uint64_t n) {
  uint64_t at = host_alloc(n), i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t v;
    __builtin_memcpy(&v, p + i, 8);
    store_u64(at + i, v);
  }
  for (; i < n; i++) store_u8(at + i, (uint8_t)p[i]);
  output_set(at, n);
}

__attribute__((export_name("count"))) int run(void) {
  size_t n = (size_t)input_length();
  char *in = malloc(n + 1), *scratch = malloc(n + 1), out[64];
  if (in == NULL || scratch == NULL) return 1;
  load(in, n);
  long len = count((text){in, n}, scratch, out);
  free(scratch);
  free(in);
  if (len < 0) return 1;
  store(out, (uint64_t)len);
  return 0;
}
