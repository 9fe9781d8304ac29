package module

// PageSize is the size of a page of linear memory, in bytes.
const PageSize = 64 << 10

// Limits bound what is handed to the compiler. A module cannot raise them.
type Limits struct {
	Size          int // bytes of the file
	Code          int // bytes of all function bodies
	Body          int // bytes of one function body
	Functions     int
	Locals        int // of one function, parameters included
	Types         int
	Imports       int
	Exports       int
	Globals       int
	DataSegments  int
	Elements      int // segments, and entries of all segments together
	Tables        int
	TableElements int // smallest size of all tables together, and the size each may grow to
}

// DefaultLimits are far above what real tools need (a standard-Go module has 2,200
// functions and 37,000 data segments) and far below what hurts the host.
func DefaultLimits() Limits {
	return Limits{
		Size: 32 << 20, Code: 16 << 20, Body: 128 << 10, Functions: 50_000, Locals: 10_000,
		Types: 10_000, Imports: 1_000, Exports: 10_000, Globals: 10_000,
		DataSegments: 100_000, Elements: 100_000, Tables: 16, TableElements: 100_000,
	}
}
