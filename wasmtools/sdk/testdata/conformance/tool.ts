// The module of the conformance tests, in AssemblyScript.
import * as hermes from "./hermes";
import { Answer, Call, Json, Kind, Tool, serve } from "./hermes";
export { hermes_abi_v1, hermes_describe, hermes_call } from "./hermes";

/** Makes a value that was read again, piece by piece. */
function rebuild(v: Json): Json {
  switch (v.kind) {
    case Kind.Object: {
      const o = Json.object();
      for (let i = 0; i < v.length; i++) o.set(v.name(i), rebuild(v.at(i)));
      return o;
    }
    case Kind.Array: {
      const a = Json.array();
      for (let i = 0; i < v.length; i++) a.push(rebuild(v.at(i)));
      return a;
    }
    case Kind.String:
      return Json.of(v.str());
    case Kind.Bool:
      return Json.of(v.bool());
    case Kind.Number:
      return Json.number(v.toString());
    default:
      return Json.null();
  }
}

function echo(call: Call): Json {
  return rebuild(call.args.get("v"));
}

function parse(call: Call): Json {
  const texts = call.args.get("texts");
  const out = Json.array();
  for (let i = 0; i < texts.length; i++) {
    const v = Json.parse(texts.at(i).str());
    if (v === null) out.push(Json.object().set("ok", false));
    else out.push(Json.object().set("ok", true).set("value", rebuild(v)));
  }
  return out;
}

function numbers(call: Call): Json {
  const list = call.args.get("numbers");
  const out = Json.array();
  for (let i = 0; i < list.length; i++) {
    const n = list.at(i);
    out.push(Json.object().set("int", n.isInt ? Json.of(n.i64()) : Json.null()).set("double", n.f64(NaN)));
  }
  return out;
}

function fail(call: Call): Json {
  return call.fail(call.args.get("text").str());
}

function info(call: Call): Json {
  const i = call.info;
  return Json.object().set("id", i.get("id")).set("agent", i.get("agent")).set("key", i.get("idempotency_key"));
}

function log(call: Call): Json {
  hermes.log(hermes.Level.Warn, call.args.get("text").str());
  return Json.null();
}

function crash(call: Call): Json {
  throw new Error("crashed on purpose");
}

function refused(a: Answer): Json {
  return Json.object().set("kind", a.kind).set("error", a.error!);
}

function http(call: Call): Json {
  const r = new hermes.Request(call.args.get("url").str());
  r.method = call.args.get("method").str("GET");
  if (!call.args.get("headers").isNull) r.headers = call.args.get("headers");
  r.body = hermes.encode(call.args.get("text").str());
  const a = hermes.http(r);
  if (a.error !== null) return refused(a);
  return Json.object().set("status", a.status).set("body", a.text()).set("type", a.head.get("headers").get("content-type"));
}

function kv(call: Call): Json {
  const op = call.args.get("op").str();
  const key = call.args.get("key").str();
  if (op == "get") {
    const a = hermes.kvGet(key);
    return a.error !== null ? refused(a) : Json.object().set("found", a.found).set("value", a.text());
  }
  if (op == "put") {
    const a = hermes.kvPut(key, hermes.encode(call.args.get("value").str()));
    return a.error !== null ? refused(a) : Json.object();
  }
  if (op == "delete") {
    const a = hermes.kvDelete(key);
    return a.error !== null ? refused(a) : Json.object().set("found", a.found);
  }
  const a = hermes.kvList(call.args.get("prefix").str(), call.args.get("after").str(), <i32>call.args.get("limit").i64());
  return a.error !== null ? refused(a) : Json.object().set("keys", a.head.get("keys")).set("more", a.head.get("more"));
}

function tools(call: Call): Json {
  const a = hermes.callTool(call.args.get("tool").str(), call.args.get("arguments"));
  if (a.error !== null) return refused(a);
  const v = Json.parse(a.text());
  return v === null ? call.fail("the result is not JSON") : Json.object().set("result", v);
}

function progress(call: Call): Json {
  const a = hermes.progress(call.args.get("text").str(), call.args.get("done").f64(), call.args.get("total").f64());
  return a.error !== null ? refused(a) : Json.object();
}

function tool(name: string, run: (call: Call) => Json): Tool {
  return new Tool(name, "The tool " + name + ".", `{"type":"object"}`, run);
}

serve(
  "conformance",
  "1.2.3",
  [
    tool("echo", echo),
    tool("parse", parse),
    tool("numbers", numbers),
    tool("fail", fail),
    tool("info", info),
    tool("log", log),
    tool("crash", crash),
    tool("http", http),
    tool("kv", kv),
    tool("tools", tools),
    tool("progress", progress),
  ],
  `[{"capability":"http","hosts":["https://a.example"]}]`,
);
