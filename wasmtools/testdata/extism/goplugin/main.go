//go:build wasip1

// Command goplugin is an Extism plug-in in standard Go, without a plug-in kit: a library
// whose one export does what its input asks for.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"unsafe"
)

func main() {}

// The functions of the host. Offsets name blocks of its memory.

//go:wasmimport extism:host/env alloc
func alloc(n uint64) uint64

//go:wasmimport extism:host/env free
func free(at uint64)

//go:wasmimport extism:host/env length
func length(at uint64) uint64

//go:wasmimport extism:host/env load_u8
func load8(at uint64) uint32

//go:wasmimport extism:host/env load_u64
func load64(at uint64) uint64

//go:wasmimport extism:host/env store_u8
func store8(at uint64, v uint32)

//go:wasmimport extism:host/env store_u64
func store64(at uint64, v uint64)

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u8
func inputLoad8(i uint64) uint32

//go:wasmimport extism:host/env input_load_u64
func inputLoad64(i uint64) uint64

//go:wasmimport extism:host/env output_set
func outputSet(at, n uint64)

//go:wasmimport extism:host/env error_set
func errorSet(at uint64)

//go:wasmimport extism:host/env config_get
func configGet(key uint64) uint64

//go:wasmimport extism:host/env var_get
func varGet(key uint64) uint64

//go:wasmimport extism:host/env var_set
func varSet(key, value uint64)

//go:wasmimport extism:host/env http_request
func httpRequest(head, body uint64) uint64

//go:wasmimport extism:host/env http_status_code
func httpStatus() int32

//go:wasmimport extism:host/env http_headers
func httpHeaders() uint64

//go:wasmimport extism:host/env log_warn
func logWarn(at uint64)

//go:wasmimport extism:host/env get_log_level
func logLevel() int32

func read(at, n uint64, word func(uint64) uint64, char func(uint64) uint32) []byte {
	b := make([]byte, n)
	i := uint64(0)
	for ; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], word(at+i))
	}
	for ; i < n; i++ {
		b[i] = byte(char(at + i))
	}
	return b
}

func load(at uint64) []byte { return read(at, length(at), load64, load8) }

func store(b []byte) uint64 {
	at := alloc(uint64(len(b)))
	i := 0
	for ; i+8 <= len(b); i += 8 {
		store64(at+uint64(i), binary.LittleEndian.Uint64(b[i:]))
	}
	for ; i < len(b); i++ {
		store8(at+uint64(i), uint32(b[i]))
	}
	return at
}

// request is what run is asked.
type request struct {
	Do      string            `json:"do"`
	Text    string            `json:"text"`
	Value   json.RawMessage   `json:"value"`
	Times   int               `json:"times"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

var calls int // of this instance

//go:wasmexport run
func run() int32 {
	calls++
	var in request
	if err := json.Unmarshal(read(0, inputLength(), inputLoad64, inputLoad8), &in); err != nil {
		return fail(err)
	}
	out, err := do(in)
	if err != nil {
		return fail(err)
	}
	b, err := json.Marshal(out)
	if err != nil {
		return fail(err)
	}
	at := store(b)
	outputSet(at, uint64(len(b)))
	free(at) // the host has what it needs
	return 0
}

func fail(err error) int32 {
	errorSet(store([]byte(err.Error())))
	return -1
}

func do(in request) (any, error) {
	switch in.Do {
	case "echo":
		return in.Value, nil
	case "calls":
		return calls, nil
	case "fail":
		return nil, fmt.Errorf("cannot: %s", in.Text)
	case "panic":
		panic(in.Text)
	case "count":
		return map[string]int{"vowels": strings.Count(in.Text, "a") + strings.Count(in.Text, "e")}, nil
	case "config":
		return optional(configGet(store([]byte(in.Text)))), nil
	case "vars":
		return vars(in.Times), nil
	case "keep":
		return keep(in.Text, in.Value), nil
	case "log":
		logWarn(store([]byte(in.Text)))
		return logLevel(), nil
	case "http":
		return send(in)
	case "grow":
		b := make([]byte, in.Times)
		return uintptr(unsafe.Pointer(&b[0])) > 0, nil
	}
	return nil, fmt.Errorf("cannot do %q", in.Do)
}

func optional(at uint64) any {
	if at == 0 {
		return nil
	}
	return string(load(at))
}

// vars counts in a variable, and shows what is there at first, then, and after removal.
func vars(times int) []any {
	key := func() uint64 { return store([]byte("n")) }
	seen := []any{optional(varGet(key()))}
	for i := range times {
		varSet(key(), store([]byte(fmt.Sprint(i+1))))
	}
	seen = append(seen, optional(varGet(key())))
	varSet(key(), 0)
	return append(seen, optional(varGet(key())))
}

// keep keeps a value, or removes it if there is none, and gives the one before.
func keep(name string, value []byte) any {
	before := optional(varGet(store([]byte(name))))
	varSet(store([]byte(name)), store(value))
	return before
}

func send(in request) (any, error) {
	head, err := json.Marshal(map[string]any{"url": in.URL, "method": in.Method, "headers": in.Headers})
	if err != nil {
		return nil, err
	}
	var body uint64
	if in.Text != "" {
		body = store([]byte(in.Text))
	}
	at := httpRequest(store(head), body)
	return map[string]any{"status": httpStatus(), "body": string(load(at)), "header": json.RawMessage(load(httpHeaders()))}, nil
}
