//! hermes.rs is the library for tools written in Rust and compiled to WebAssembly for hermes.
//! It needs the standard library alone: put it beside the program.
//!
//! ```text
//! mod hermes;
//! use hermes::{object, Call, Module, Tool};
//!
//! fn greet(call: &Call) -> hermes::Result {
//!     let name = call.arguments.get("name").str().ok_or("name: required")?;
//!     Ok(object([("hello", name.into())]))
//! }
//!
//! hermes::serve!(Module {
//!     name: "greeter",
//!     version: "1.0.0",
//!     tools: &[Tool {
//!         name: "greet",
//!         description: "Greets somebody.",
//!         schema: r#"{"type":"object","properties":{"name":{"type":"string"}}}"#,
//!         run: greet,
//!     }],
//!     wants: "",
//! });
//! ```
//!
//! ```text
//! rustc --target wasm32-wasi --crate-type cdylib -O -C panic=abort -C strip=symbols -o greeter.wasm greeter.rs
//! ```
//!
//! Capabilities ([`http`], [`kv_get`] and its like, [`call_tool`], [`progress`]) ask the host,
//! which does what the declaration of the tool grants. A capability is an import of the module
//! only if the program uses it, so that the list of imports is the list of what a tool can do.
//!
//! Calls come one at a time, and nothing is kept from one call to the next. A panic ends the
//! call; its message goes to the log of the host.
#![allow(dead_code)]

use std::fmt;

mod host {
    #[link(wasm_import_module = "hermes")]
    extern "C" {
        pub fn input_len() -> i32;
        pub fn input_read(p: *mut u8, off: u32, n: u32) -> i32;
        pub fn output_write(p: *const u8, n: u32) -> i32;
        pub fn error_set(p: *const u8, n: u32);
        pub fn log(level: i32, p: *const u8, n: u32);
        pub fn result_len(h: i32) -> i32;
        pub fn result_read(h: i32, p: *mut u8, off: u32, n: u32) -> i32;
        pub fn result_close(h: i32);
    }
    #[link(wasm_import_module = "hermes_http")]
    extern "C" {
        pub fn fetch(p: *const u8, n: u32) -> i32;
    }
    #[link(wasm_import_module = "hermes_kv")]
    extern "C" {
        pub fn get(p: *const u8, n: u32) -> i32;
        pub fn put(p: *const u8, n: u32) -> i32;
        pub fn delete(p: *const u8, n: u32) -> i32;
        pub fn list(p: *const u8, n: u32) -> i32;
    }
    #[link(wasm_import_module = "hermes_tools")]
    extern "C" {
        pub fn call(p: *const u8, n: u32) -> i32;
    }
    #[link(wasm_import_module = "hermes_progress")]
    extern "C" {
        pub fn report(p: *const u8, n: u32) -> i32;
    }
    extern "C" {
        pub fn __wasm_call_ctors();
    }
}

// ---- JSON ----

/// How deep objects and arrays may lie in each other.
pub const MAX_DEPTH: usize = 512;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// A number keeps its text, and so all of its digits.
    Number(String),
    Str(String),
    Array(Vec<Json>),
    /// Members in the order they were written in; of equal names [`Json::get`] gives the last.
    Object(Vec<(String, Json)>),
}

static NULL: Json = Json::Null;

impl Json {
    /// Reads a text that must be one JSON value and nothing else. The error says at which byte
    /// it is not.
    pub fn parse(text: &str) -> std::result::Result<Json, String> {
        let mut p = Parser { b: text.as_bytes(), i: 0 };
        p.space();
        match p.value(0) {
            Some(v) if p.i == p.b.len() => Ok(v),
            _ => Err(format!("not JSON at byte {}", p.i)),
        }
    }

    /// The member of an object; null if there is none.
    pub fn get(&self, name: &str) -> &Json {
        match self {
            Json::Object(members) => members.iter().rev().find(|m| m.0 == name).map_or(&NULL, |m| &m.1),
            _ => &NULL,
        }
    }

    /// The element of an array; null if there is none.
    pub fn at(&self, index: usize) -> &Json {
        self.array().and_then(|a| a.get(index)).unwrap_or(&NULL)
    }

    pub fn is_null(&self) -> bool {
        *self == Json::Null
    }

    pub fn str(&self) -> Option<&str> {
        match self {
            Json::Str(s) => Some(s),
            _ => None,
        }
    }

    pub fn bool(&self) -> Option<bool> {
        match self {
            Json::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub fn array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(a) => Some(a),
            _ => None,
        }
    }

    pub fn object(&self) -> Option<&[(String, Json)]> {
        match self {
            Json::Object(o) => Some(o),
            _ => None,
        }
    }

    /// The text of a number.
    pub fn number(&self) -> Option<&str> {
        match self {
            Json::Number(n) => Some(n),
            _ => None,
        }
    }

    pub fn f64(&self) -> Option<f64> {
        self.number()?.parse().ok().filter(|f: &f64| f.is_finite())
    }

    /// An integer, exactly: none with a fraction, and none that does not fit. 5.0 and 1e3 are
    /// integers, too.
    pub fn i64(&self) -> Option<i64> {
        let text = self.number()?;
        if !text.contains(|c| c == '.' || c == 'e' || c == 'E') {
            return text.parse().ok();
        }
        let exact = 9007199254740992.0;
        self.f64().filter(|f| f.fract() == 0.0 && *f >= -exact && *f <= exact).map(|f| f as i64)
    }
}

/// Makes an object of names and values.
pub fn object<K: Into<String>, M: IntoIterator<Item = (K, Json)>>(members: M) -> Json {
    Json::Object(members.into_iter().map(|(k, v)| (k.into(), v)).collect())
}

impl From<&str> for Json {
    fn from(s: &str) -> Json {
        Json::Str(s.to_string())
    }
}

impl From<String> for Json {
    fn from(s: String) -> Json {
        Json::Str(s)
    }
}

impl From<bool> for Json {
    fn from(b: bool) -> Json {
        Json::Bool(b)
    }
}

impl From<i64> for Json {
    fn from(n: i64) -> Json {
        Json::Number(n.to_string())
    }
}

impl From<u32> for Json {
    fn from(n: u32) -> Json {
        Json::Number(n.to_string())
    }
}

impl From<usize> for Json {
    fn from(n: usize) -> Json {
        Json::Number(n.to_string())
    }
}

/// Infinity and what is no number are null.
impl From<f64> for Json {
    fn from(f: f64) -> Json {
        if f.is_finite() {
            Json::Number(format!("{:?}", f))
        } else {
            Json::Null
        }
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(v: Option<T>) -> Json {
        v.map_or(Json::Null, Into::into)
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(v: Vec<T>) -> Json {
        Json::Array(v.into_iter().map(Into::into).collect())
    }
}

/// Renders the value as JSON text.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{}", b),
            Json::Number(n) => f.write_str(n),
            Json::Str(s) => quote(f, s),
            Json::Array(a) => {
                f.write_str("[")?;
                for (i, v) in a.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    v.fmt(f)?;
                }
                f.write_str("]")
            }
            Json::Object(o) => {
                f.write_str("{")?;
                for (i, (k, v)) in o.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    quote(f, k)?;
                    f.write_str(":")?;
                    v.fmt(f)?;
                }
                f.write_str("}")
            }
        }
    }
}

fn quote(f: &mut fmt::Formatter<'_>, s: &str) -> fmt::Result {
    f.write_str("\"")?;
    let mut plain = 0;
    for (i, b) in s.bytes().enumerate() {
        if b >= 0x20 && b != b'"' && b != b'\\' {
            continue;
        }
        f.write_str(&s[plain..i])?;
        plain = i + 1;
        match b {
            b'"' | b'\\' => write!(f, "\\{}", b as char)?,
            _ => write!(f, "\\u{:04x}", b)?,
        }
    }
    f.write_str(&s[plain..])?;
    f.write_str("\"")
}

/// Reads values; every method gives None where the text is not right, and i stands there.
struct Parser<'a> {
    b: &'a [u8],
    i: usize,
}

impl<'a> Parser<'a> {
    fn space(&mut self) {
        while matches!(self.b.get(self.i), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.i += 1;
        }
    }

    /// Reads c and the space after it, if it is there.
    fn takes(&mut self, c: u8) -> bool {
        let there = self.b.get(self.i) == Some(&c);
        if there {
            self.i += 1;
            self.space();
        }
        there
    }

    fn word(&mut self, word: &str, v: Json) -> Option<Json> {
        if !self.b[self.i..].starts_with(word.as_bytes()) {
            return None;
        }
        self.i += word.len();
        self.space();
        Some(v)
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.b.get(self.i)? {
            b'{' => self.members(depth),
            b'[' => self.elements(depth),
            b'"' => self.string().map(Json::Str),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => self.number(),
        }
    }

    fn elements(&mut self, depth: usize) -> Option<Json> {
        let mut out = Vec::new();
        self.takes(b'[');
        if self.takes(b']') {
            return (depth < MAX_DEPTH).then(|| Json::Array(out));
        }
        loop {
            out.push(self.value(depth + 1)?);
            if self.takes(b']') {
                return Some(Json::Array(out));
            }
            if !self.takes(b',') {
                return None;
            }
        }
    }

    fn members(&mut self, depth: usize) -> Option<Json> {
        let mut out = Vec::new();
        self.takes(b'{');
        if self.takes(b'}') {
            return (depth < MAX_DEPTH).then(|| Json::Object(out));
        }
        loop {
            let key = self.string()?;
            if !self.takes(b':') {
                return None;
            }
            out.push((key, self.value(depth + 1)?));
            if self.takes(b'}') {
                return Some(Json::Object(out));
            }
            if !self.takes(b',') {
                return None;
            }
        }
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.i;
        while matches!(self.b.get(self.i), Some(b'0'..=b'9')) {
            self.i += 1;
        }
        (self.i > start).then(|| ())
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.i;
        if self.b.get(self.i) == Some(&b'-') {
            self.i += 1;
        }
        if self.b.get(self.i) == Some(&b'0') {
            self.i += 1;
        } else {
            self.digits()?;
        }
        if self.b.get(self.i) == Some(&b'.') {
            self.i += 1;
            self.digits()?;
        }
        if matches!(self.b.get(self.i), Some(b'e' | b'E')) {
            self.i += 1;
            if matches!(self.b.get(self.i), Some(b'+' | b'-')) {
                self.i += 1;
            }
            self.digits()?;
        }
        let text = String::from_utf8_lossy(&self.b[start..self.i]).into_owned();
        self.space();
        Some(Json::Number(text))
    }

    fn string(&mut self) -> Option<String> {
        if self.b.get(self.i) != Some(&b'"') {
            return None;
        }
        self.i += 1;
        let mut out = Vec::new();
        loop {
            let c = *self.b.get(self.i)?;
            match c {
                b'"' => break,
                b'\\' => self.escape(&mut out)?,
                0..=0x1f => return None,
                _ => {
                    out.push(c);
                    self.i += 1;
                }
            }
        }
        self.i += 1;
        self.space();
        String::from_utf8(out).ok()
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let c = *self.b.get(self.i + 1)?;
        if c != b'u' {
            let at = b"\"\\/bfnrt".iter().position(|&e| e == c)?;
            out.push(b"\"\\/\x08\x0c\n\r\t"[at]);
            self.i += 2;
            return Some(());
        }
        let high = self.unit(self.i)?;
        self.i += 6;
        let mut point = high;
        if (0xD800..0xDC00).contains(&high) {
            if let Some(low @ 0xDC00..=0xDFFF) = self.unit(self.i) {
                point = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                self.i += 6;
            }
        }
        // Half of a surrogate pair is no character.
        let c = char::from_u32(point).unwrap_or('\u{FFFD}');
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Some(())
    }

    /// Reads \uXXXX at i without moving.
    fn unit(&self, i: usize) -> Option<u32> {
        let s = self.b.get(i..i + 6)?;
        if !s.starts_with(b"\\u") || !s[2..].iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u32::from_str_radix(std::str::from_utf8(&s[2..]).ok()?, 16).ok()
    }
}

// ---- Tools ----

/// What a tool gives: a value, or a text that the model is told.
pub type Result = std::result::Result<Json, String>;

/// One call of a tool.
pub struct Call {
    /// The name it was called by.
    pub tool: String,
    /// An object.
    pub arguments: Json,
    /// An object with id, agent, session, run, deadline_ms (left when it started) and
    /// idempotency_key.
    pub info: Json,
}

/// One tool of a module.
pub struct Tool {
    pub name: &'static str,
    pub description: &'static str,
    /// JSON Schema of the arguments, an object.
    pub schema: &'static str,
    pub run: fn(&Call) -> Result,
}

/// What a WebAssembly file offers.
pub struct Module {
    pub name: &'static str,
    pub version: &'static str,
    pub tools: &'static [Tool],
    /// The capabilities it would like, as JSON, for example
    /// `[{"capability":"http","hosts":["https://api.example.com"]}]`; empty: none. The
    /// operator decides.
    pub wants: &'static str,
}

/// Makes the program a module. Write it once, in the root of the crate.
macro_rules! serve {
    ($module:expr) => {
        static HERMES_MODULE: $crate::hermes::Module = $module;

        #[no_mangle]
        pub extern "C" fn _initialize() {
            $crate::hermes::start()
        }

        #[no_mangle]
        pub extern "C" fn hermes_abi_v1() {}

        #[no_mangle]
        pub extern "C" fn hermes_describe() -> i32 {
            HERMES_MODULE.describe()
        }

        #[no_mangle]
        pub extern "C" fn hermes_call() -> i32 {
            HERMES_MODULE.call()
        }
    };
}
pub(crate) use serve;

/// Runs the constructors of the C library. That this is called here makes the linker leave the
/// exports as they are; it would else wrap each to run them at every call.
pub fn start() {
    unsafe { host::__wasm_call_ctors() }
}

impl Module {
    pub fn describe(&self) -> i32 {
        let mut tools = Vec::new();
        for t in self.tools {
            let mut tool = vec![("name", t.name.into()), ("description", t.description.into())];
            match Json::parse(t.schema) {
                Ok(schema) => tool.push(("input_schema", schema)),
                Err(e) => return refuse(2, &format!("the schema of {}: {}", t.name, e)),
            }
            tools.push(object(tool));
        }
        let mut d = vec![("abi", 1u32.into()), ("name", self.name.into()), ("version", self.version.into()), ("tools", tools.into())];
        if !self.wants.is_empty() {
            match Json::parse(self.wants) {
                Ok(wants) => d.push(("wants", wants)),
                Err(e) => return refuse(2, &format!("the wants of the module: {}", e)),
            }
        }
        write(&object(d))
    }

    pub fn call(&self) -> i32 {
        let input = match Json::parse(&input()) {
            Ok(v) => v,
            Err(e) => return refuse(2, &format!("reading the call: {}", e)),
        };
        let name = input.get("tool").str().unwrap_or("");
        // A module with one tool answers to any name, so that a declaration can rename it.
        let tool = self.tools.iter().find(|t| self.tools.len() == 1 || t.name == name);
        let call = Call { tool: name.to_string(), arguments: input.get("arguments").clone(), info: input.get("call").clone() };
        match tool.map(|t| (t.run)(&call)) {
            Some(Ok(v)) => write(&v),
            Some(Err(e)) => refuse(1, &e),
            None => refuse(1, &format!("the module {} has no tool {:?}", self.name, name)),
        }
    }
}

fn input() -> String {
    unsafe {
        let n = host::input_len().max(0) as usize;
        let mut b = vec![0; n];
        let got = host::input_read(b.as_mut_ptr(), 0, n as u32).max(0) as usize;
        b.truncate(got);
        String::from_utf8_lossy(&b).into_owned()
    }
}

fn write(v: &Json) -> i32 {
    let text = v.to_string();
    if unsafe { host::output_write(text.as_ptr(), text.len() as u32) } < 0 {
        return refuse(1, "the result is over the limit of the declaration");
    }
    0
}

fn refuse(code: i32, text: &str) -> i32 {
    unsafe { host::error_set(text.as_ptr(), text.len() as u32) };
    if code > 1 {
        log(Level::Error, text);
    }
    code
}

/// How much a log record matters.
#[derive(Clone, Copy)]
pub enum Level {
    Debug = 0,
    Info = 1,
    Warn = 2,
    Error = 3,
}

/// Writes to the log of the host. How much a call may log is limited, and going over ends the
/// call.
pub fn log(level: Level, text: &str) {
    unsafe { host::log(level as i32, text.as_ptr(), text.len() as u32) }
}

// ---- Capabilities ----

/// What the host refused or could not do.
#[derive(Clone, Debug)]
pub struct HostError {
    /// For example "not_granted", "denied", "too_large".
    pub kind: String,
    /// The words, which a tool may show its caller.
    pub message: String,
}

impl HostError {
    fn new(kind: &str, message: &str) -> HostError {
        HostError { kind: kind.to_string(), message: message.to_string() }
    }

    fn number(no: i32) -> HostError {
        match no {
            2 => HostError::new("not_granted", "not granted: the declaration of the tool has no such grant"),
            28 => HostError::new("invalid", "the host could not read the request"),
            51 => HostError::new("too_large", "too many answers are kept unread"),
            61 => HostError::new("too_large", "a limit of the declaration is reached"),
            _ => HostError::new("internal", "the host failed"),
        }
    }
}

/// So that ? in a tool tells the model what the host said.
impl From<HostError> for String {
    fn from(e: HostError) -> String {
        e.message
    }
}

type Answer = std::result::Result<(Json, Vec<u8>), HostError>;

/// Sends a request and reads the frame of the answer: a length, a head, a body.
fn ask(send: unsafe extern "C" fn(*const u8, u32) -> i32, request: &Json) -> Answer {
    let request = request.to_string();
    let handle = unsafe { send(request.as_ptr(), request.len() as u32) };
    if handle < 0 {
        return Err(HostError::number(-handle));
    }
    let n = unsafe { host::result_len(handle) }.max(0) as usize;
    let mut b = vec![0u8; n];
    let got = unsafe { host::result_read(handle, b.as_mut_ptr(), 0, n as u32) };
    unsafe { host::result_close(handle) };
    let size = b.get(..4).map(|s| u32::from_le_bytes([s[0], s[1], s[2], s[3]]) as usize);
    let head = size.filter(|_| got == n as i32).and_then(|size| b.get(4..)?.get(..size));
    let head = head.and_then(|h| Json::parse(&String::from_utf8_lossy(h)).ok()).ok_or_else(|| HostError::number(0))?;
    if let Json::Object(_) = head.get("error") {
        let text = |name| head.get("error").get(name).str().unwrap_or("internal");
        return Err(HostError::new(text("kind"), text("message")));
    }
    let body = b.split_off(4 + size.unwrap_or(0));
    Ok((head, body))
}

/// A request to be sent by the host.
#[derive(Default)]
pub struct Request<'a> {
    /// Empty: GET.
    pub method: &'a str,
    pub url: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

/// The answer. Names of headers are in lower case.
pub struct Response {
    pub status: i64,
    pub headers: Json,
    /// After redirects.
    pub url: String,
    pub body: Vec<u8>,
    /// The body was longer than the grant allows.
    pub truncated: bool,
}

/// Sends a request under the http grants of the declaration. Any status is an answer.
pub fn http(r: &Request) -> std::result::Result<Response, HostError> {
    let mut request = vec![("url", r.url.into()), ("headers", object(r.headers.iter().map(|h| (h.0, h.1.into()))))];
    if !r.method.is_empty() {
        request.push(("method", r.method.into()));
    }
    if !r.body.is_empty() {
        request.push(("body_base64", base64(r.body).into()));
    }
    let (head, body) = ask(host::fetch, &object(request))?;
    Ok(Response {
        status: head.get("status").i64().unwrap_or(0),
        headers: head.get("headers").clone(),
        url: head.get("url").str().unwrap_or("").to_string(),
        truncated: head.get("truncated").bool().unwrap_or(false),
        body,
    })
}

fn base64(data: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(data.len() / 3 * 4 + 4);
    for chunk in data.chunks(3) {
        let v = chunk.iter().fold(0u32, |v, b| v << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let digit = DIGITS[(v >> (18 - 6 * i) & 63) as usize] as char;
            out.push(if i <= chunk.len() { digit } else { '=' });
        }
    }
    out
}

/// Reads a value of the store that the kv grant names; None if the key is not there. Keys are
/// text of 1 to 512 bytes, values any bytes.
pub fn kv_get(key: &str) -> std::result::Result<Option<Vec<u8>>, HostError> {
    let (head, body) = ask(host::get, &object([("key", key.into())]))?;
    Ok(head.get("found").bool().unwrap_or(false).then(|| body))
}

/// Stores a value; over the quota the error is "too_large" and nothing changes.
pub fn kv_put(key: &str, value: &[u8]) -> std::result::Result<(), HostError> {
    ask(host::put, &object([("key", key.into()), ("value_base64", base64(value).into())])).map(|_| ())
}

/// Removes a key and says whether it was there.
pub fn kv_delete(key: &str) -> std::result::Result<bool, HostError> {
    let (head, _) = ask(host::delete, &object([("key", key.into())]))?;
    Ok(head.get("found").bool().unwrap_or(false))
}

/// One page of keys.
pub struct Keys {
    /// Keys, sorted by their bytes, and the sizes of their values.
    pub keys: Vec<(String, i64)>,
    /// There are more: ask again with after set to the last of these.
    pub more: bool,
}

/// Lists keys that begin with prefix and are greater than after; both may be empty. limit 0: as
/// many as the host gives.
pub fn kv_list(prefix: &str, after: &str, limit: u32) -> std::result::Result<Keys, HostError> {
    let mut request = Vec::new();
    if !prefix.is_empty() {
        request.push(("prefix", prefix.into()));
    }
    if !after.is_empty() {
        request.push(("after", after.into()));
    }
    if limit > 0 {
        request.push(("limit", limit.into()));
    }
    let (head, _) = ask(host::list, &object(request))?;
    let keys = head.get("keys").array().unwrap_or(&[]);
    Ok(Keys {
        keys: keys.iter().map(|k| (k.get("key").str().unwrap_or("").to_string(), k.get("size").i64().unwrap_or(0))).collect(),
        more: head.get("more").bool().unwrap_or(false),
    })
}

/// Calls another tool, which the tools grant must allow, under that tool's own grants and
/// policies. The arguments are an object.
pub fn call_tool(name: &str, arguments: Json) -> std::result::Result<Json, HostError> {
    let (head, body) = ask(host::call, &object([("tool", name.into()), ("arguments", arguments)]))?;
    if head.get("ok").bool() != Some(true) {
        return Err(HostError::new("internal", "the tool failed, and the host did not say why"));
    }
    Json::parse(&String::from_utf8_lossy(&body)).map_err(|e| HostError::new("internal", &format!("the result of {}: {}", name, e)))
}

/// Tells the caller how far the call has come, in any unit; total 0: not known. Reports that
/// come too fast are dropped.
pub fn progress(message: &str, done: f64, total: f64) -> std::result::Result<(), HostError> {
    ask(host::report, &object([("message", message.into()), ("done", done.into()), ("total", total.into())])).map(|_| ())
}
