/* A plug-in with the second interface of hyper-mcp, and what its host adds. */
#include "host.h"

USER(notify_logging_message) void notify_log(u64 at);
USER(notify_progress) void notify_progress(u64 at);
USER(create_message) u64 create_message(u64 at);
USER(create_elicitation) u64 create_elicitation(u64 at);
USER(list_roots) u64 list_roots(void);
USER(notify_tool_list_changed) void notify_tools(void);

static char in[4096], got[1024];

EXPORT(list_tools) int list_tools(void) {
  get(host_input_offset(), in, sizeof in);
  if (!has(in, "{\"context\":{\"id\":\"") || !has(in, "\"_meta\":{")) return fail("no context");
  return output("{\"tools\":[{\"name\":\"host\",\"title\":\"Asks the host.\",\"inputSchema\":{\"type\":\"object\"}}]}");
}

EXPORT(call_tool) int call_tool(void) {
  get(host_input_offset(), in, sizeof in);
  if (!has(in, "\"request\":{\"name\":\"host\",\"arguments\":{}}")) return fail("no request");
  notify_tools();
  notify_log(text("{\"level\":\"warning\",\"logger\":\"c\",\"data\":\"look out\"}"));
  notify_log(text("{\"level\":\"debug\",\"data\":{\"n\":1}}"));
  notify_progress(text("{\"progress\":1,\"total\":2,\"progressToken\":\"x\",\"message\":\"half\"}"));
  get(create_message(text("{}")), got, sizeof got);
  if (!has(got, "\"stopReason\":\"error\"")) return fail("a model answered");
  get(create_elicitation(text("{}")), got, sizeof got);
  if (!has(got, "\"decline\"")) return fail("somebody answered");
  get(list_roots(), got, sizeof got);
  if (!has(got, "{\"roots\":[")) return fail("no roots");
  return output(has(got, "file:///data")
                    ? "{\"content\":[{\"type\":\"text\",\"text\":\"{}\"}],\"structuredContent\":{\"roots\":1}}"
                    : "{\"content\":[{\"type\":\"text\",\"text\":\"{}\"}],\"structuredContent\":{\"roots\":0}}");
}
