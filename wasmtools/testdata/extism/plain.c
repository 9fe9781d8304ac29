/* A plug-in with several exports, each of which is a tool. */
#include "host.h"

static char in[4096], kept[256];
static int calls;

static void input(void) { get(host_input_offset(), in, sizeof in); }

static int number(const char *name, int n) {
  char s[64], digits[12];
  u64 k = 0, d = 0;
  for (; name[k]; k++) s[k] = name[k];
  do digits[d++] = (char)('0' + n % 10); while (n /= 10);
  while (d) s[k++] = digits[--d];
  s[k++] = '}';
  s[k] = 0;
  return output(s);
}

/* echo gives its input back, without copying it. */
EXPORT(echo) int echo(void) {
  host_output_set(host_input_offset(), host_input_length());
  return 0;
}

/* count_vowels counts a, e, i, o and u in its input. */
EXPORT(count_vowels) int count_vowels(void) {
  int n = 0;
  input();
  for (char *c = in; *c; c++) n += *c == 'a' || *c == 'e' || *c == 'i' || *c == 'o' || *c == 'u';
  return number("{\"count\":", n);
}

/* count_calls counts in a global, and in a variable, which lives as long as the call. */
EXPORT(count_calls) int count_calls(void) {
  u64 v = host_var_get(text("calls"));
  char seen = v ? (char)host_load8(v) : 0;
  host_var_set(text("calls"), put((char[]){(char)(seen + 1)}, 1));
  v = host_var_get(text("calls"));
  if (host_load8(v) != (u32)(seen + 1)) return fail("the variable was not kept");
  calls++;
  return number("{\"calls\":", calls * 10 + seen);
}

/* greet takes its words from the configuration. */
EXPORT(greet) int greet(void) {
  u64 v = host_config_get(text("greeting"));
  if (!v) return fail("greeting is not configured");
  if (host_config_get(text("other"))) return fail("a variable that is not granted");
  host_log_info(text("greeting"));
  get(v, kept, sizeof kept);
  return output(kept);
}

/* part outputs a part of a block that is freed before the call ends. */
EXPORT(part) int part(void) {
  u64 at = text("xx{\"part\":1}yy");
  host_output_set(at + 2, 10);
  host_free(at);
  for (int i = 0; i < 1000; i++) host_free(host_alloc(16));
  return 0;
}

/* quiet returns no code, which counts as success. */
EXPORT(quiet) void quiet(void) { output("\"quiet\""); }
