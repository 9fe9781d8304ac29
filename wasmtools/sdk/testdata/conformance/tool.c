/* The module of the conformance tests, in C. */
#define HERMES_WANTS "[{\"capability\":\"http\",\"hosts\":[\"https://a.example\"]}]"
#include "hermes.h"

static hermes_value arg(hermes_call *c, const char *name) { return hermes_get(c->arguments, name); }
static const char *text(hermes_call *c, const char *name) { return hermes_as_string(arg(c, name), ""); }

/* Writes a value that was read, piece by piece. */
static void rebuild(hermes_writer *w, hermes_value v) {
  hermes_iter it = hermes_each(v);
  switch (hermes_kind_of(v)) {
  case HERMES_OBJECT:
    hermes_object(w);
    while (hermes_next(&it)) {
      hermes_key_text(w, hermes_as_text(it.key));
      rebuild(w, it.value);
    }
    hermes_end(w);
    break;
  case HERMES_ARRAY:
    hermes_array(w);
    while (hermes_next(&it)) rebuild(w, it.value);
    hermes_end(w);
    break;
  case HERMES_STRING: hermes_put_text(w, hermes_as_text(v)); break;
  case HERMES_BOOL: hermes_put_bool(w, hermes_as_bool(v, false)); break;
  case HERMES_NUMBER: hermes_put_value(w, v); break;
  default: hermes_put_null(w);
  }
}

static int echo(hermes_call *c) {
  rebuild(&c->out, arg(c, "v"));
  return 0;
}

static int parse(hermes_call *c) {
  hermes_iter it = hermes_each(arg(c, "texts"));
  hermes_array(&c->out);
  while (hermes_next(&it)) {
    hermes_text t = hermes_as_text(it.value);
    hermes_value v;
    bool ok = hermes_parse(t.ptr, t.len, &v);
    hermes_object(&c->out);
    hermes_key(&c->out, "ok");
    hermes_put_bool(&c->out, ok);
    if (ok) {
      hermes_key(&c->out, "value");
      rebuild(&c->out, v);
    }
    hermes_end(&c->out);
  }
  hermes_end(&c->out);
  return 0;
}

static int numbers(hermes_call *c) {
  hermes_iter it = hermes_each(arg(c, "numbers"));
  hermes_array(&c->out);
  while (hermes_next(&it)) {
    int64_t i;
    double d;
    hermes_object(&c->out);
    hermes_key(&c->out, "int");
    if (hermes_as_int(it.value, &i)) hermes_put_int(&c->out, i);
    else hermes_put_null(&c->out);
    hermes_key(&c->out, "double");
    if (hermes_as_double(it.value, &d)) hermes_put_double(&c->out, d);
    else hermes_put_null(&c->out);
    hermes_end(&c->out);
  }
  hermes_end(&c->out);
  return 0;
}

static int fail(hermes_call *c) { return hermes_failf(c, "%s", text(c, "text")); }

static int info(hermes_call *c) {
  hermes_object(&c->out);
  hermes_key(&c->out, "id"), hermes_put_value(&c->out, hermes_get(c->info, "id"));
  hermes_key(&c->out, "agent"), hermes_put_value(&c->out, hermes_get(c->info, "agent"));
  hermes_key(&c->out, "key"), hermes_put_value(&c->out, hermes_get(c->info, "idempotency_key"));
  hermes_end(&c->out);
  return 0;
}

static int log_text(hermes_call *c) {
  hermes_logf(HERMES_WARN, "%s", text(c, "text"));
  return 0;
}

static int crash(hermes_call *c) {
  (void)c;
  hermes_log(HERMES_ERROR, "crashed on purpose");
  __builtin_trap();
}

static int refused(hermes_call *c, hermes_answer a) {
  hermes_object(&c->out);
  hermes_key(&c->out, "kind"), hermes_put_string(&c->out, a.kind);
  hermes_key(&c->out, "error"), hermes_put_string(&c->out, a.error);
  hermes_end(&c->out);
  return 0;
}

static int http(hermes_call *c) {
  hermes_header headers[8];
  hermes_request r = {0};
  hermes_iter it = hermes_each(arg(c, "headers"));
  while (r.header_count < 8 && hermes_next(&it)) {
    hermes_header h = {hermes_as_string(it.key, ""), hermes_as_string(it.value, "")};
    headers[r.header_count++] = h;
  }
  r.headers = headers;
  r.url = text(c, "url");
  r.method = hermes_as_string(arg(c, "method"), NULL);
  r.body = text(c, "text");
  r.body_len = strlen((const char *)r.body);
  hermes_answer a = hermes_http(&r);
  if (a.error) return refused(c, a);
  hermes_object(&c->out);
  hermes_key(&c->out, "status"), hermes_put_int(&c->out, a.status);
  hermes_key(&c->out, "body"), hermes_put_text(&c->out, a.body);
  hermes_key(&c->out, "type"), hermes_put_value(&c->out, hermes_get(hermes_get(a.head, "headers"), "content-type"));
  hermes_end(&c->out);
  return 0;
}

static int kv(hermes_call *c) {
  const char *op = text(c, "op"), *key = text(c, "key");
  int64_t limit = 0;
  hermes_as_int(arg(c, "limit"), &limit);
  hermes_text value = hermes_as_text(arg(c, "value"));
  hermes_answer a = strcmp(op, "get") == 0      ? hermes_kv_get(key)
                    : strcmp(op, "put") == 0    ? hermes_kv_put(key, value.ptr, value.len)
                    : strcmp(op, "delete") == 0 ? hermes_kv_delete(key)
                                                : hermes_kv_list(hermes_as_string(arg(c, "prefix"), NULL),
                                                                 hermes_as_string(arg(c, "after"), NULL), (uint32_t)limit);
  if (a.error) return refused(c, a);
  hermes_object(&c->out);
  if (strcmp(op, "get") == 0 || strcmp(op, "delete") == 0) hermes_key(&c->out, "found"), hermes_put_bool(&c->out, a.found);
  if (strcmp(op, "get") == 0) hermes_key(&c->out, "value"), hermes_put_text(&c->out, a.body);
  if (strcmp(op, "list") == 0) {
    hermes_key(&c->out, "keys"), hermes_put_value(&c->out, hermes_get(a.head, "keys"));
    hermes_key(&c->out, "more"), hermes_put_value(&c->out, hermes_get(a.head, "more"));
  }
  hermes_end(&c->out);
  return 0;
}

static int tools(hermes_call *c) {
  hermes_writer w = HERMES_WRITER;
  rebuild(&w, arg(c, "arguments"));
  hermes_answer a = hermes_call_tool(text(c, "tool"), &w);
  hermes_value v;
  if (a.error) return refused(c, a);
  if (!hermes_parse(a.body.ptr, a.body.len, &v)) return hermes_fail(c, "the result is not JSON");
  hermes_object(&c->out);
  hermes_key(&c->out, "result"), hermes_put_value(&c->out, v);
  hermes_end(&c->out);
  return 0;
}

static int progress(hermes_call *c) {
  double done = 0, total = 0;
  hermes_as_double(arg(c, "done"), &done);
  hermes_as_double(arg(c, "total"), &total);
  hermes_answer a = hermes_progress(text(c, "text"), done, total);
  if (a.error) return refused(c, a);
  hermes_object(&c->out);
  hermes_end(&c->out);
  return 0;
}

#define TOOL(name, f) {name, "The tool " name ".", "{\"type\":\"object\"}", f}

HERMES_MODULE("conformance", "1.2.3", TOOL("echo", echo), TOOL("parse", parse), TOOL("numbers", numbers), TOOL("fail", fail),
              TOOL("info", info), TOOL("log", log_text), TOOL("crash", crash), TOOL("http", http), TOOL("kv", kv),
              TOOL("tools", tools), TOOL("progress", progress))
