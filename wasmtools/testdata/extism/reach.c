/* A plug-in that needs the network, and says so by its imports. */
#include "host.h"

static char in[1024];

EXPORT(reach) int reach(void) {
  get(host_input_offset(), in, sizeof in);
  u64 at = host_http_request(put(in, size_of(in)), 0);
  host_output_set(at, host_length_unsafe(at));
  return host_http_status() == 200 ? 0 : fail("another status than 200");
}
