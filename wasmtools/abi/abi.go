// Package abi is the byte contract between the host and WASM guests: names of
// imports and exports, frames and error numbers. Host and guest libraries share it,
// so it builds for wasip1 too and imports nothing.
//
// # Command
//
// A program: the arguments, a JSON object, on stdin; the result on stdout, JSON or else
// text; log lines on stderr. Exit code 0 is success. Any other is a tool error whose
// message is the end of stderr, else of stdout. argv holds the tool's name; a second
// argument [ArgDescribe] asks for the descriptor on stdout, which is optional. The
// environment is what is granted, and the names below.
//
// # Reactor
//
// A library with the exports below. It pulls its input, so the host needs no allocator in
// the guest. Pointers and lengths are unsigned; one outside of the memory ends the call.
//
//	hermes.input_len () -> i32                     bytes of the input
//	hermes.input_read (ptr, off, len) -> i32       copies up to len bytes from off; gives their number
//	hermes.output_write (ptr, len) -> i32          appends to the output; len, or -EOVERRUN over its limit
//	hermes.error_set (ptr, len)                    the text of a tool error
//	hermes.log (level, ptr, len)                   a log record
//	hermes.result_len (handle) -> i32              bytes that a capability call left, or -EBADF
//	hermes.result_read (handle, ptr, off, len) -> i32
//	hermes.result_close (handle)                   frees them; the end of the call does, too
//
// The input of hermes_call is
//
//	{"tool":"…","arguments":{…},
//	 "call":{"id","agent","session","run","deadline_ms","idempotency_key"}}
//
// The host may start a reactor once (start function, _initialize, one hermes_describe) and
// begin every call with the state that it had then. Its environment has what is granted and
// the names below except EnvCallID. What it does at the start may not depend on the call, and
// hermes_describe is the place to set up what every call needs.
//
// In the input deadline_ms is the time left when the call started, and absent without a limit.
// Output and log have limits, and going over one ends the call whatever the guest does then.
//
// # Frames
//
// A capability call takes one JSON request (ptr, len) and returns a handle > 0, or a
// negative error number: EACCES without a grant, EINVAL for a request that cannot be read,
// EOVERRUN over the number of calls or the size of a request, ENOSPC when too much lies
// unread. The handle's bytes are
//
//	+----------------+----------------------+------------------+
//	| u32 LE: len(H) | H: JSON head         | raw body         |
//	+----------------+----------------------+------------------+
//
// hermes_http.fetch takes {"method","url","headers":{…},"body_base64"}. Its head is
// {"status","headers":{…},"url","truncated"}, names of headers in lower case; or
// {"status":0,"error":{"kind","message"}} for a request that was refused or failed.
//
// hermes_kv has a namespace of its own per grant and principal; keys are text of 1 to 512
// bytes, values any bytes. Each function may answer {"error":{"kind","message"}}, with kind
// too_large over the quota.
//
//	get     {"key"}                           head {"found":true}, body: the value; or {"found":false}
//	put     {"key","value_base64"}            head {}
//	delete  {"key"}                           head {"found":true|false}
//	list    {"prefix","after","limit"}        head {"keys":[{"key","size"}],"more":true|false}, sorted by bytes
//
// hermes_tools.call takes {"tool","arguments":{…}}. Its head is {"ok":true} and the body the
// result, one JSON value; or {"ok":false,"error":{"kind","message"}}, which a tool may show
// its own caller.
//
// hermes_progress.report takes {"message","done","total"}, all optional, with numbers in
// a unit of the tool's choosing; its head is {}. Reports that come too fast are dropped.
//
// # Descriptor
//
// What hermes_describe writes as output, a command answers to ArgDescribe, or a custom
// section named [SectionDescriptor] holds:
//
//	{"abi":1,"name","version",
//	 "tools":[{"name","description","input_schema","annotations"}],
//	 "wants":[{"capability":"http","hosts":[…]}]}
package abi

// Version is the version of both ABIs.
const Version = 1

// Exports of a reactor.
const (
	ExportMarker   = "hermes_abi_v1"
	ExportInit     = "_initialize"
	ExportDescribe = "hermes_describe"
	ExportCall     = "hermes_call"
	ExportStart    = "_start" // command
)

// Modules that a guest may import from. Capability modules are one each, so that the
// static import list is the capability list.
const (
	ModuleCore     = "hermes"
	ModuleHTTP     = "hermes_http"
	ModuleKV       = "hermes_kv"
	ModuleTools    = "hermes_tools"
	ModuleProgress = "hermes_progress"
	ModuleWASI     = "wasi_snapshot_preview1"
	ModuleExtism   = "extism:host/env"
	ModuleUser     = "extism:host/user" // what hyper-mcp adds to it
)

// Functions of the capability modules; all are (ptr, len) -> handle.
const (
	FuncFetch  = "fetch"  // of ModuleHTTP
	FuncGet    = "get"    // of ModuleKV, as are the next three
	FuncPut    = "put"    //
	FuncDelete = "delete" //
	FuncList   = "list"   //
	FuncCall   = "call"   // of ModuleTools
	FuncReport = "report" // of ModuleProgress
)

// FuncExtismHTTP is the function of ModuleExtism that needs a grant of http.
const FuncExtismHTTP = "http_request"

// Names of the environment. EnvCallID is for commands: a reactor finds the call in its input.
const (
	EnvTool   = "HERMES_TOOL"
	EnvCallID = "HERMES_CALL_ID"
	EnvABI    = "HERMES_ABI"
)

// ArgDescribe is the argument that asks a command for its descriptor.
const ArgDescribe = "hermes:describe"

// SectionDescriptor is the custom section that may hold the descriptor.
const SectionDescriptor = "hermes.tool"

// Error numbers, as WASI's; calls return them negated.
const (
	EACCES   = 2
	EBADF    = 8
	EFAULT   = 21
	EINVAL   = 28
	EIO      = 29
	EMFILE   = 33
	ENOSPC   = 51
	EOVERRUN = 61 // a limit of the declaration is reached
	ETIMEOUT = 73
)

// Results of hermes_call.
const (
	CallOK    = 0
	CallError = 1
)

// Levels of hermes.log. Others are taken for LogInfo.
const (
	LogDebug = 0
	LogInfo  = 1
	LogWarn  = 2
	LogError = 3
)
