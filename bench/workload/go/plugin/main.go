//go:build wasip1

// Command plugin is the work as an Extism plug-in in Go, on the bare imports: the
// plug-in library of the Extism project adds nothing that the work would need.
package main

import (
	"encoding/binary"

	"github.com/hermes-runtime/hermes/bench/workload/go/count"
)

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u8
func inputLoadByte(at uint64) uint32

//go:wasmimport extism:host/env input_load_u64
func inputLoadWord(at uint64) uint64

//go:wasmimport extism:host/env alloc
func alloc(n uint64) uint64

//go:wasmimport extism:host/env store_u8
func storeByte(at uint64, b uint32)

//go:wasmimport extism:host/env store_u64
func storeWord(at, v uint64)

//go:wasmimport extism:host/env output_set
func outputSet(at, n uint64)

//go:wasmexport count
func run() int32 {
	out, err := count.JSON(input())
	if err != nil {
		return 1
	}
	output(out)
	return 0
}

// input reads a word at a time while it can, as every plug-in library does.
func input() []byte {
	b := make([]byte, inputLength())
	i := 0
	for ; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], inputLoadWord(uint64(i)))
	}
	for ; i < len(b); i++ {
		b[i] = byte(inputLoadByte(uint64(i)))
	}
	return b
}

func output(b []byte) {
	at := alloc(uint64(len(b)))
	i := 0
	for ; i+8 <= len(b); i += 8 {
		storeWord(at+uint64(i), binary.LittleEndian.Uint64(b[i:]))
	}
	for ; i < len(b); i++ {
		storeByte(at+uint64(i), uint32(b[i]))
	}
	outputSet(at, uint64(len(b)))
}

func main() {}
