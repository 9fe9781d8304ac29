// Package rewrite changes a WebAssembly module so that it keeps to limits that the engine
// does not enforce, and so that its state can be restored from outside: bytes in, bytes
// out. It judges no module (package module does) and runs none (package wasmtools does).
//
//	module ── scan ──> layout ──┬── code: fuel, shifted indexes ──┐
//	                            ├── data: one sparse image        ├──> assemble ──> Result
//	                            └── tables, globals, exports, …   ┘
//
// # Fuel
//
// A mutable global of type i64, exported as [FuelGlobal], holds what the guest may still
// use, in units. It is charged, before the code that is paid for runs, at the beginning of
// every function and at the head of every loop, where a jump back arrives too:
//
//	fuel -= charge; if fuel < 0 { call hermes_fuel.out }
//
// Every cycle in the control flow of a module passes one of the two, so nothing that it
// does can outrun the fuel. The host looks at the deadline of the call and at its budget
// in out, and either sets the global to 0 or more, or does not return. The global starts
// at 0: the first function asks. What was used is what was granted less the value of the
// global, and depends on the module and its input alone.
//
// A charge is the number of instructions of the function outside of its loops, or of the
// loop outside of its inner loops, with these exceptions:
//
//   - else and end are free, but no charge is below 1.
//   - An inner loop adds a sixteenth of its own charge, since jumping over it still moves
//     the values that it would have changed.
//   - A function adds one for every eight parameters and results.
//   - A call of an imported function, memory.grow and table.grow leave compiled code:
//     100 each. Where an imported function is referred to and not called, in tables for
//     example, a function that charges and calls it stands in for it.
//   - memory.fill, memory.copy, memory.init and a memory.grow that succeeded add one unit
//     per 16 bytes; table.fill, table.copy, table.init and table.grow one per element.
//
// memory.fill, memory.copy and memory.init of more than a MiB are done MiB by MiB, with a
// charge each. They trap as before, and before anything is written.
//
// # Invariants
//
//   - The result computes what the module computes: equal results, memory, globals, tables
//     and traps, until out ends it. Only the indexes of its functions differ, and the names
//     of exports, by those that begin with __hermes_.
//   - Equal bytes and options give equal bytes.
//   - A table grows to Options.TableMax elements at most.
//   - Custom sections are kept where they stand. Function indexes in the section of names
//     are brought up to date; offsets into the code, as debug information has, are not.
//
// # Concurrency
//
// Rewrite may be called from many goroutines; it has no state.
//
// # Errors
//
// A module that package module accepted is refused only if it uses a reserved name, has a
// table that is larger than the cap, data outside of its memory, or a function that charges
// would make too expensive to compile. The message follows the name of the file.
package rewrite

import (
	"math"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

// Version is part of the key of what is derived from a rewritten module. It rises with
// every change of the output.
const Version = 3

// The names that a rewritten module and its host agree on.
const (
	// FuelGlobal is the export of the fuel: a mutable i64 that starts at 0.
	FuelGlobal = "__hermes_fuel"
	// FuelModule is the module of the one import that is added.
	FuelModule = "hermes_fuel"
	// FuelFunc is its name. It has the type () -> () and is called when the fuel is below
	// 0. It must set the fuel to 0 or more before it returns.
	FuelFunc = "out"

	reserved    = "__hermes_"
	startExport = "__hermes_start"
	globalName  = "__hermes_g"
)

// DefaultTableMax is the number of elements that a table may grow to unless Options say
// another.
const DefaultTableMax = 100_000

// Options say how to rewrite.
type Options struct {
	// TableMax is the number of elements that each table may grow to; below 1:
	// [DefaultTableMax].
	TableMax int
	// Detach takes the active data segments out of the module, for the host to apply.
	Detach bool
}

// Result is a rewritten module and what its host must know of it.
type Result struct {
	Wasm []byte
	// Data are the segments that were taken out: ascending, apart from each other, inside
	// of the memory's minimum. The host writes them into the memory of a new instance
	// before anything of it runs. Bytes belong to the caller.
	Data []Segment
	// Detached says whether the module is without active data segments. It is false if
	// Options did not ask for it, and for modules whose instructions refer to segments or
	// whose memory or offsets are imported: then the segments are where they were.
	Detached bool
	// Start is the name under which the start function is exported, to be called, if it is
	// not empty, once the data are in place: the module has no start section any more.
	Start string
	// Globals are the mutable globals apart from the fuel, in the order of their indexes.
	Globals []Global
}

// Segment is a part of the first contents of a memory.
type Segment struct {
	Offset uint32
	Bytes  []byte
}

// Global is a mutable global.
type Global struct {
	Export string // the name that it is exported under
	Type   byte   // its value type in the binary format: 0x7f is i32, 0x7e i64, 0x7d f32, 0x7c f64
}

// Rewrite changes a module that package module has accepted. wasm is only read, and the
// result does not share memory with it.
func Rewrite(wasm []byte, o Options) (res Result, err error) {
	if o.TableMax < 1 {
		o.TableMax = DefaultTableMax
	}
	o.TableMax = min(o.TableMax, math.MaxInt32)
	m := &module{wasm: wasm, options: o}
	if err := m.rewrite(&res); err != nil {
		return Result{}, refusal(err)
	}
	return res, nil
}

func (m *module) rewrite(res *Result) (err error) {
	defer binary.Catch(&err)
	m.scan()
	m.bodies()
	m.data(res)
	m.initialValues()
	m.exports(res)
	m.elements()
	m.assemble(res)
	return nil
}

// refusal completes the error of a module.
func refusal(err error) error {
	return fault.New(fault.Invalid, "is not a module that hermes accepts: %s.", err)
}
