package module

// PageSize is the size of a page of linear memory, in bytes.
const PageSize = 64 << 10

// Limits bound what is handed to the compiler. The operator may raise them up to
// [MaxLimits]; a module cannot. A field that is zero or negative means the default.
type Limits struct {
	Size     int // bytes of the file
	Code     int // bytes of all function bodies
	Body     int // bytes of one function body
	Nesting  int // blocks inside each other, in one function
	Blocks   int // blocks, loops and ifs of one function
	Branches int // targets of all br_tables of one function
	Locals   int // of one function, parameters included
	// AllLocals bounds the locals of all functions together: five bytes of a body can
	// declare ten thousand, and the compiler makes room for each.
	AllLocals int
	// Values bounds, for each byte of a function's body, the operands that its calls,
	// blocks and branches move; a body may move another thousand. Ordinary code moves
	// one for every two bytes.
	Values int
	// Joins bounds, for each function, what it costs the compiler to join the values of
	// locals where control comes together. An edge forward costs, for every local, 40 and
	// the number of blocks since control last came together; the n-th branch back to a
	// loop 2n-1 and that number. Optimised code stays below 10,000,000. At 20,000,000 a
	// function takes the compiler about a second, above that soon minutes.
	Joins int

	Functions       int // imported ones included
	Types           int
	Arity           int // parameters of a type, and results
	Imports         int
	Exports         int
	Globals         int
	Names           int // debug names of functions and locals
	DataSegments    int
	ElementSegments int
	Elements        int // entries of all element segments together
	Tables          int
	TableElements   int // smallest size of all tables together, and the size each may grow to
}

// DefaultLimits are far above what real tools need (a standard-Go module has 2,200
// functions and 37,000 data segments) and far below what hurts the host. The Go compiler
// nests a block for each call of a function: 550 deep in small programs, 1,300 in an
// interpreter, and a br_table has as many targets.
func DefaultLimits() Limits {
	return Limits{
		Size: 32 << 20, Code: 16 << 20, Body: 128 << 10, Nesting: 3_000, Blocks: 4_000, Branches: 4_000,
		Locals: 10_000, AllLocals: 2_000_000, Values: 2, Joins: 20_000_000,
		Functions: 50_000, Types: 10_000, Arity: 1_000, Imports: 1_000, Exports: 10_000, Globals: 10_000, Names: 1_000_000,
		DataSegments: 100_000, ElementSegments: 10_000, Elements: 100_000, Tables: 16, TableElements: 100_000,
	}
}

// MaxLimits are the highest that an operator can set. Above them compiling takes
// minutes and gigabytes whatever the module is worth; already there a single function
// can take minutes, and while the compiler is in a function nothing ends it.
func MaxLimits() Limits {
	return Limits{
		Size: 256 << 20, Code: 128 << 20, Body: 1 << 20, Nesting: 10_000, Blocks: 20_000, Branches: 50_000,
		Locals: 50_000, AllLocals: 20_000_000, Values: 64, Joins: 500_000_000,
		Functions: 500_000, Types: 100_000, Arity: 1_000, Imports: 10_000, Exports: 100_000, Globals: 100_000, Names: 10_000_000,
		DataSegments: 1_000_000, ElementSegments: 100_000, Elements: 1_000_000, Tables: 100, TableElements: 10_000_000,
	}
}

// Clamp gives the limits that hold: the default where none is set, and never more than
// [MaxLimits].
func (l Limits) Clamp() Limits {
	standard, most := DefaultLimits(), MaxLimits()
	values, defaults, bounds := l.fields(), standard.fields(), most.fields()
	for i, v := range values {
		if *v <= 0 {
			*v = *defaults[i]
		}
		*v = min(*v, *bounds[i])
	}
	return l
}

// fields lists every limit.
func (l *Limits) fields() []*int {
	return []*int{
		&l.Size, &l.Code, &l.Body, &l.Nesting, &l.Blocks, &l.Branches,
		&l.Locals, &l.AllLocals, &l.Values, &l.Joins,
		&l.Functions, &l.Types, &l.Arity, &l.Imports, &l.Exports, &l.Globals, &l.Names,
		&l.DataSegments, &l.ElementSegments, &l.Elements, &l.Tables, &l.TableElements,
	}
}
