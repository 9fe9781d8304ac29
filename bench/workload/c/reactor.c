// The work as a hermes reactor.
#include <stdlib.h>

#include "count.h"

#define IMPORT(name) __attribute__((import_module("hermes"), import_name(#name)))
#define EXPORT(name) __attribute__((export_name(#name)))

IMPORT(input_len) int input_len(void);
IMPORT(input_read) int input_read(char *p, unsigned off, unsigned n);
IMPORT(output_write) int output_write(const char *p, unsigned n);
IMPORT(error_set) void error_set(const char *p, unsigned n);

EXPORT(hermes_abi_v1) void marker(void) {}

EXPORT(hermes_call) int call(void) {
  unsigned n = (unsigned)input_len();
  char *in = malloc(n + 1), *scratch = malloc(n + 1), out[64];
  if (in == NULL || scratch == NULL) return 2;
  input_read(in, 0, n);
  long len = count(member((text){in, n}, "arguments", 9), scratch, out);
  free(scratch);
  free(in);
  if (len < 0) { error_set("text: required", 14); return 1; }
  return output_write(out, (unsigned)len) < 0 ? 2 : 0;
}
