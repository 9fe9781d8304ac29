// Package abi is the byte contract between the host and WASM guests: names of
// imports and exports, frames and error numbers. Host and guest libraries share it,
// so it builds for wasip1 too and imports nothing.
//
// # Frames
//
// A capability call takes one JSON request (ptr, len) and returns a handle > 0, or a
// negative error number. The handle's bytes are
//
//	+----------------+----------------------+------------------+
//	| u32 LE: len(H) | H: JSON head         | raw body         |
//	+----------------+----------------------+------------------+
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
)

// Names of the environment of a command.
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
