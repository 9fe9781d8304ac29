/* A plug-in with the first interface of hyper-mcp. */
#include "host.h"

static char in[4096];

EXPORT(describe) int describe(void) {
  if (host_input_length()) return fail("describe has no input");
  return output("{\"tools\":["
                "{\"name\":\"shout\",\"description\":\"Says it louder.\",\"inputSchema\":{\"type\":\"object\"}},"
                "{\"name\":\"draw\",\"description\":\"Draws it.\",\"inputSchema\":{\"type\":\"object\"}}]}");
}

EXPORT(call) int call(void) {
  get(host_input_offset(), in, sizeof in);
  if (has(in, "{\"params\":{\"name\":\"shout\",\"arguments\":{\"text\":\"hi <you>\"}}}"))
    return output("{\"content\":[{\"type\":\"text\",\"text\":\"HI\"},{\"type\":\"text\",\"text\":\"YOU\"}]}");
  if (has(in, "\"name\":\"draw\""))
    return output("{\"isError\":false,\"content\":[{\"type\":\"text\",\"text\":\"here:\"},"
                  "{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}]}");
  return output("{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"no such tool\"}]}");
}
