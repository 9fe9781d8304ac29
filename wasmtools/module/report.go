// Package module checks WebAssembly files: what kind of file it is, whether it is valid
// and stays within limits, what it imports and exports, and what it says of itself.
//
// It compiles nothing and runs nothing; package wasmtools does, after this package has
// accepted a module. It is a validator of its own, and not the engine's, because a
// decoder that believes the counts in a file can be made to allocate all memory by
// thirty bytes, and a compiler can be kept busy for minutes by a valid function of a few
// kilobytes.
//
// # Invariants
//
// What is accepted is WebAssembly 2.0 and nothing else, within [Limits]; the engine
// compiles it. What it may import is a function: tables, memories and globals are its
// own. Checking takes time that grows with the size of the file, and allocates at most
// 32 times its size and 64 KiB.
//
// # Errors
//
// Errors are *fault.Error values whose message completes a sentence that starts with the
// name of the file: "weather.wasm " + "is a WebAssembly component …". They name the byte,
// and in code the function.
package module

import (
	"slices"
	"strings"

	"github.com/hermes-runtime/hermes/wasmtools/abi"
	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

// ABI is the way a module is called.
type ABI string

// The ABIs. ABI None is a module that offers no entry point that hermes knows.
const (
	Command ABI = "command"
	Reactor ABI = "reactor"
	Extism  ABI = "extism"
	None    ABI = "none"
)

// Capability is what an import module gives access to. It is also the label of the
// grant block that allows it.
type Capability string

// The capabilities of the import modules.
const (
	HTTP     Capability = "http"
	KV       Capability = "kv"
	Tools    Capability = "tools"
	Progress Capability = "progress"
)

// Report is what is known of a module without running it.
type Report struct {
	Digest       string       `json:"sha256"`
	Size         int          `json:"size"` // bytes
	Kind         Kind         `json:"kind"`
	ABI          ABI          `json:"abi"`
	Imports      []Import     `json:"imports"`
	Exports      []Export     `json:"exports"`
	Capabilities []Capability `json:"capabilities"` // sorted
	// Descriptor is what the module says of itself; nil if it says nothing, or
	// nothing that can be read: then DescriptorErr says why.
	Descriptor    *Descriptor `json:"descriptor,omitempty"`
	DescriptorErr error       `json:"-"`

	Memory          *Memory  `json:"memory,omitempty"`
	Functions       int      `json:"functions"` // without imported ones
	Code            int      `json:"code"`      // bytes
	Globals         int      `json:"globals"`
	DataSegments    int      `json:"data_segments"`
	Data            int      `json:"data"` // bytes
	Tables          int      `json:"tables"`
	TableElements   int      `json:"table_elements"` // at the start
	TableMax        int      `json:"table_max"`      // elements that a table may have, after table.grow
	ElementSegments int      `json:"element_segments"`
	Elements        int      `json:"elements"` // entries of the segments
	Snapshot        Snapshot `json:"snapshot"`
}

// Memory is a declared linear memory, in pages of [PageSize].
type Memory struct {
	MinPages int `json:"min_pages"`
	MaxPages int `json:"max_pages"` // -1: none declared
}

// Import is one thing that a module needs from its host.
type Import struct {
	Module string   `json:"module"`
	Name   string   `json:"name"`
	Kind   string   `json:"kind"` // function, table, memory, global
	Type   FuncType `json:"-"`
}

// String is "module.name".
func (i Import) String() string { return i.Module + "." + i.Name }

// Export is one thing that a module offers.
type Export struct {
	Name string   `json:"name"`
	Kind string   `json:"kind"`
	Type FuncType `json:"-"`
}

// FuncType is the signature of a function, a byte per value in the encoding of the
// binary format. It is comparable.
type FuncType struct{ Params, Results string }

// Func makes the type of a function of params 32-bit integers; with result it returns
// one.
func Func(params int, result bool) FuncType {
	t := FuncType{Params: strings.Repeat(string(rune(binary.I32)), params)}
	if result {
		t.Results = string(rune(binary.I32))
	}
	return t
}

// String renders the type as "(i32, i32) -> (i32)".
func (t FuncType) String() string {
	return "(" + typeNames(t.Params) + ") -> (" + typeNames(t.Results) + ")"
}

func typeNames(s string) string {
	names := make([]string, 0, len(s))
	for _, b := range []byte(s) {
		names = append(names, binary.TypeName(b))
	}
	return strings.Join(names, ", ")
}

// HasFunc says whether the module exports a function of that name and type.
func (r *Report) HasFunc(name string, t FuncType) bool {
	return slices.Contains(r.Exports, Export{Name: name, Kind: "function", Type: t})
}

// exports says whether the module exports a function of that name, of any type.
func (r *Report) exports(name string) bool {
	return slices.ContainsFunc(r.Exports, func(e Export) bool { return e.Name == name && e.Kind == "function" })
}

// detectABI tells the ABI. The marker makes a reactor, unless the module must be started
// by _start: the Go toolchain keeps the marker in a program that was built as a command.
func detectABI(r *Report) ABI {
	started := r.exports(abi.ExportStart) && !r.exports(abi.ExportInit)
	switch {
	case r.exports(abi.ExportMarker) && !started:
		return Reactor
	case slices.ContainsFunc(r.Imports, func(i Import) bool { return i.Module == abi.ModuleExtism }):
		return Extism
	case r.exports(abi.ExportStart):
		return Command
	}
	return None
}

// Capability gives the capability that the import stands for. Of Extism's functions,
// which are one module, it is the one that reaches out.
func (i Import) Capability() (Capability, bool) {
	if i.Module == abi.ModuleExtism && i.Name == abi.FuncExtismHTTP {
		return HTTP, true
	}
	return CapabilityOf(i.Module)
}

// CapabilityOf gives the capability that an import module stands for.
func CapabilityOf(importModule string) (Capability, bool) {
	switch importModule {
	case abi.ModuleHTTP:
		return HTTP, true
	case abi.ModuleKV:
		return KV, true
	case abi.ModuleTools:
		return Tools, true
	case abi.ModuleProgress:
		return Progress, true
	}
	return "", false
}

func capabilities(imports []Import) []Capability {
	var out []Capability
	for _, im := range imports {
		if c, ok := im.Capability(); ok {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
