//! The module of the conformance tests, in Rust.
mod hermes;

use hermes::{object, Call, HostError, Json, Level, Module, Request, Tool};

fn text<'a>(call: &'a Call, name: &str) -> &'a str {
    call.arguments.get(name).str().unwrap_or("")
}

/// Makes a value that was read again, piece by piece.
fn rebuild(v: &Json) -> Json {
    match v {
        Json::Object(o) => object(o.iter().map(|(k, v)| (k.as_str(), rebuild(v)))),
        Json::Array(a) => a.iter().map(rebuild).collect::<Vec<Json>>().into(),
        Json::Str(s) => s.as_str().into(),
        Json::Bool(b) => (*b).into(),
        other => other.clone(),
    }
}

fn echo(call: &Call) -> hermes::Result {
    Ok(rebuild(call.arguments.get("v")))
}

fn parse(call: &Call) -> hermes::Result {
    let mut out = Vec::new();
    for t in call.arguments.get("texts").array().unwrap_or(&[]) {
        out.push(match Json::parse(t.str().unwrap_or("")) {
            Ok(v) => object([("ok", true.into()), ("value", rebuild(&v))]),
            Err(_) => object([("ok", false.into())]),
        });
    }
    Ok(out.into())
}

fn numbers(call: &Call) -> hermes::Result {
    let numbers = call.arguments.get("numbers").array().unwrap_or(&[]);
    let one = |n: &Json| object([("int", n.i64().into()), ("double", n.f64().into())]);
    Ok(numbers.iter().map(one).collect::<Vec<Json>>().into())
}

fn fail(call: &Call) -> hermes::Result {
    Err(text(call, "text").to_string())
}

fn info(call: &Call) -> hermes::Result {
    let of = |name| call.info.get(name).clone();
    Ok(object([("id", of("id")), ("agent", of("agent")), ("key", of("idempotency_key"))]))
}

fn log(call: &Call) -> hermes::Result {
    hermes::log(Level::Warn, text(call, "text"));
    Ok(Json::Null)
}

fn crash(_: &Call) -> hermes::Result {
    panic!("crashed on purpose")
}

fn answer(r: Result<Json, HostError>) -> hermes::Result {
    Ok(r.unwrap_or_else(|e| object([("kind", e.kind.into()), ("error", e.message.into())])))
}

fn string(b: Vec<u8>) -> Json {
    String::from_utf8_lossy(&b).into_owned().into()
}

fn http(call: &Call) -> hermes::Result {
    let members = call.arguments.get("headers").object().unwrap_or(&[]);
    let headers: Vec<(&str, &str)> = members.iter().map(|(k, v)| (k.as_str(), v.str().unwrap_or(""))).collect();
    let request = Request { method: text(call, "method"), url: text(call, "url"), headers: &headers, body: text(call, "text").as_bytes() };
    answer(hermes::http(&request).map(|r| {
        object([("status", r.status.into()), ("type", r.headers.get("content-type").clone()), ("body", string(r.body))])
    }))
}

fn kv(call: &Call) -> hermes::Result {
    let key = text(call, "key");
    let limit = call.arguments.get("limit").i64().unwrap_or(0) as u32;
    answer(match text(call, "op") {
        "get" => hermes::kv_get(key).map(|v| object([("found", v.is_some().into()), ("value", string(v.unwrap_or_default()))])),
        "put" => hermes::kv_put(key, text(call, "value").as_bytes()).map(|_| Json::Object(vec![])),
        "delete" => hermes::kv_delete(key).map(|found| object([("found", found.into())])),
        _ => hermes::kv_list(text(call, "prefix"), text(call, "after"), limit).map(|page| {
            let one = |(key, size): (String, i64)| object([("key", key.into()), ("size", size.into())]);
            object([("keys", page.keys.into_iter().map(one).collect::<Vec<Json>>().into()), ("more", page.more.into())])
        }),
    })
}

fn tools(call: &Call) -> hermes::Result {
    answer(hermes::call_tool(text(call, "tool"), call.arguments.get("arguments").clone()).map(|v| object([("result", v)])))
}

fn progress(call: &Call) -> hermes::Result {
    let number = |name| call.arguments.get(name).f64().unwrap_or(0.0);
    answer(hermes::progress(text(call, "text"), number("done"), number("total")).map(|_| Json::Object(vec![])))
}

macro_rules! tool {
    ($name:literal, $run:expr) => {
        Tool { name: $name, description: concat!("The tool ", $name, "."), schema: r#"{"type":"object"}"#, run: $run }
    };
}

hermes::serve!(Module {
    name: "conformance",
    version: "1.2.3",
    tools: &[
        tool!("echo", echo),
        tool!("parse", parse),
        tool!("numbers", numbers),
        tool!("fail", fail),
        tool!("info", info),
        tool!("log", log),
        tool!("crash", crash),
        tool!("http", http),
        tool!("kv", kv),
        tool!("tools", tools),
        tool!("progress", progress),
    ],
    wants: r#"[{"capability":"http","hosts":["https://a.example"]}]"#,
});
