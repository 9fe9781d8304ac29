// The work as a program: arguments on stdin, result on stdout.
#include <stdio.h>
#include <stdlib.h>

#include "count.h"

int main(void) {
  size_t size = 4096, n = 0;
  char *in = malloc(size);
  for (;;) {
    if (in == NULL) return 1;
    size_t got = fread(in + n, 1, size - n, stdin);
    n += got;
    if (got == 0) break;
    if (n == size) in = realloc(in, size *= 2);
  }
  char out[64], *scratch = malloc(n + 1);
  if (scratch == NULL) return 1;
  long len = count((text){in, n}, scratch, out);
  if (len < 0) { fputs("text: required\n", stderr); return 1; }
  return fwrite(out, 1, (size_t)len, stdout) == (size_t)len && fflush(stdout) == 0 ? 0 : 1;
}
