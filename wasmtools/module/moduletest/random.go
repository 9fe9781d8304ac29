package moduletest

import (
	"math/rand/v2"
	"slices"

	"github.com/hermes-runtime/hermes/wasmtools/binary"
)

// HostModule and HostFunc name the function (i32) -> (i32) that a random module with
// [Shape.Host] imports.
const (
	HostModule = "host"
	HostFunc   = "tick"
)

// Shape says what a random module is made of.
type Shape struct {
	Size   int  // statements in a function, about; 0: 8
	Vector bool // vector instructions
	Bulk   bool // bulk memory, passive segments and changes of tables
	Host   bool // calls of an imported function
}

// Random makes a valid module from a seed: always the same from the same, as long as
// the generator does not change.
//
// The module ends when it runs: loops count down and no function calls itself. It may
// trap. Its functions f0, f1 … have parameters and results of numbers, and it exports
// what can change: its memory as "memory", its globals as g0, g1 …, its tables as t0
// (functions) and t1 (external references).
func Random(seed uint64, s Shape) []byte {
	if s.Size == 0 {
		s.Size = 8
	}
	g := &gen{r: rand.New(rand.NewPCG(seed, 0)), shape: s, ops: map[byte][]binary.Op{}} //nolint:gosec // not secret
	g.listOps()
	g.declare()
	return g.module()
}

// gen makes a module.
type gen struct {
	r     *rand.Rand
	shape Shape

	ops     map[byte][]binary.Op // by the one type of their result
	effects []binary.Op          // without result

	types   [][2]string // parameters, results
	funcs   []int       // type of each function, the imported one first
	leaves  int         // functions below this call no other
	globals []byte      // types
	fixed   int         // globals below this are constant
	passive int         // data segments
	code    [][]byte

	body
}

// body is the function that is being made.
type body struct {
	out    []byte
	fn     int
	locals string // types, parameters included
	labels []label
	budget int // statements and operators left
	calls  int
	loops  int // open
}

type label struct {
	types string // that a branch takes along
	loop  bool   // no random branch goes there: it would not end
}

const (
	numbers  = "\x7f\x7e\x7d\x7c"
	vectors  = "\x7b"
	refs     = "\x70\x6f"
	tableMin = 8

	// counter is the type of the counters of loops while a body is made, so that
	// nothing else uses them.
	counter byte = 0
)

func (g *gen) pick(types string) byte { return types[g.r.IntN(len(types))] }

// one says yes once in n times.
func (g *gen) one(n int) bool { return g.r.IntN(n) == 0 }

// value is the set of types of operands.
func (g *gen) value() string {
	if g.shape.Vector {
		return numbers + numbers + vectors + refs
	}
	return numbers + numbers + refs
}

func (g *gen) some(types string, most int) string {
	out := make([]byte, g.r.IntN(most+1))
	for i := range out {
		out[i] = g.pick(types)
	}
	return string(out)
}

// listOps sorts the instructions that only compute by what they give.
func (g *gen) listOps() {
	for op := range binary.Op(0x100) {
		for _, prefix := range []binary.Op{0, 0xfc << 16, 0xfd << 16} {
			g.listOp(prefix | op)
		}
	}
}

func (g *gen) listOp(op binary.Op) {
	params, results, ok := op.Signature()
	bulk := op == binary.OpMemoryInit || op == binary.OpMemoryCopy || op == binary.OpMemoryFill
	switch {
	case !ok || op.Vector() && !g.shape.Vector || bulk && !g.shape.Bulk || params == "":
	case results == "":
		g.effects = append(g.effects, op)
	default:
		g.ops[results[0]] = append(g.ops[results[0]], op)
	}
}

// typeOf gives the index of a function type, a new one if need be.
func (g *gen) typeOf(params, results string) int {
	t := [2]string{params, results}
	if i := slices.Index(g.types, t); i >= 0 {
		return i
	}
	g.types = append(g.types, t)
	return len(g.types) - 1
}

// declare decides on functions and globals before any body refers to them.
func (g *gen) declare() {
	if g.shape.Host {
		g.funcs = append(g.funcs, g.typeOf("\x7f", "\x7f"))
	}
	for range 2 + g.r.IntN(3) {
		g.funcs = append(g.funcs, g.typeOf(g.some(g.value(), 4), g.some(g.value(), 3)))
	}
	g.funcs = append(g.funcs, g.typeOf("", "")) // the start function
	g.leaves = len(g.funcs)
	for range 2 + g.r.IntN(3) {
		g.funcs = append(g.funcs, g.typeOf(g.some(numbers, 3), g.some(numbers, 2)))
	}
	for range 2 + g.r.IntN(6) {
		g.globals = append(g.globals, g.pick(g.value()))
	}
	g.fixed = g.r.IntN(2)
	if g.shape.Bulk {
		g.passive = 1 + g.r.IntN(2)
	}
}

func (g *gen) imported() int {
	if g.shape.Host {
		return 1
	}
	return 0
}

func (g *gen) functions() {
	for i := g.imported(); i < len(g.funcs); i++ {
		t := g.types[g.funcs[i]]
		g.body = body{fn: i, locals: t[0] + g.some(g.value(), 6), budget: g.shape.Size * 6, calls: 2}
		declared := len(t[0])
		g.labels = []label{{types: t[1]}}
		for range 1 + g.r.IntN(g.shape.Size) {
			g.statement(3)
		}
		g.results(t[1], 3)
		groups := make([][]byte, 0, len(g.locals))
		for _, l := range []byte(g.locals[declared:]) {
			if l == counter {
				l = binary.I32
			}
			groups = append(groups, []byte{1, l})
		}
		code := slices.Concat(Vec(groups...), g.out, []byte{0x0b})
		g.code = append(g.code, slices.Concat(U(len(code)), code))
	}
}

func (g *gen) results(types string, depth int) {
	for _, t := range []byte(types) {
		g.expr(t, depth)
	}
}

// module assembles the sections.
func (g *gen) module() []byte {
	g.functions()
	out := []byte("\x00asm\x01\x00\x00\x00")
	add := func(id byte, items [][]byte) { out = append(out, Section(id, Vec(items...))...) }
	add(binary.SecType, g.typeItems())
	if g.shape.Host {
		add(binary.SecImport, [][]byte{slices.Concat(Name(HostModule), Name(HostFunc), []byte{0}, U(g.funcs[0]))})
	}
	var funcs [][]byte
	for _, t := range g.funcs[g.imported():] {
		funcs = append(funcs, U(t))
	}
	add(binary.SecFunction, funcs)
	add(binary.SecTable, [][]byte{{binary.FuncRef, 1, tableMin, 2 * tableMin}, {binary.ExternRef, 0, tableMin}})
	add(binary.SecMemory, [][]byte{{1, 1, 3}})
	add(binary.SecGlobal, g.globalItems())
	add(binary.SecExport, g.exportItems())
	if g.one(2) {
		out = append(out, Section(binary.SecStart, U(g.leaves-1))...)
	}
	add(binary.SecElement, g.elementItems())
	data := g.dataItems()
	if g.shape.Bulk || g.one(2) {
		out = append(out, Section(binary.SecDataCount, U(len(data)))...)
	}
	add(binary.SecCode, g.code)
	add(binary.SecData, data)
	return append(out, g.names()...)
}

func (g *gen) typeItems() (items [][]byte) {
	for _, t := range g.types {
		items = append(items, funcType([]byte(t[0]), []byte(t[1])))
	}
	return items
}

func (g *gen) globalItems() (items [][]byte) {
	for i, t := range g.globals {
		mutable := byte(1)
		if i < g.fixed {
			mutable = 0
		}
		g.out = []byte{t, mutable}
		g.constant(t)
		items = append(items, append(g.out, 0x0b))
	}
	return items
}

func (g *gen) exportItems() [][]byte {
	items := [][]byte{
		append(Name("memory"), binary.ExternMemory, 0),
		append(Name("t0"), binary.ExternTable, 0),
		append(Name("t1"), binary.ExternTable, 1),
	}
	for i := range g.globals {
		items = append(items, slices.Concat(Name("g"+string(rune('0'+i))), []byte{binary.ExternGlobal}, U(i)))
	}
	for i := g.leaves; i < len(g.funcs); i++ {
		items = append(items, slices.Concat(Name("f"+string(rune('0'+i-g.leaves))), []byte{binary.ExternFunc}, U(i))) //nolint:gosec // few
	}
	return items
}

// elementItems fill most of the table of functions; a passive segment follows, and one
// that declares.
func (g *gen) elementItems() [][]byte {
	var active, list [][]byte
	for range tableMin - 2 {
		active = append(active, U(g.leaf()))
		list = append(list, slices.Concat([]byte{0xd2}, U(g.leaf()), []byte{0x0b}))
	}
	var all [][]byte
	for i := range g.leaves {
		all = append(all, U(i))
	}
	return [][]byte{
		slices.Concat([]byte{0}, Const(1), []byte{0x0b}, Vec(active...)),
		slices.Concat([]byte{3, 0}, Vec(all...)),
		slices.Concat([]byte{5, binary.FuncRef}, Vec(list...)),
		slices.Concat([]byte{6, 1}, Const(0), []byte{0x0b, binary.ExternRef}, Vec([]byte{0xd0, binary.ExternRef, 0x0b})),
	}[:2+2*b2i(g.shape.Bulk)]
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// leaf is a function that calls no other, and so can be called through a table.
func (g *gen) leaf() int { return g.r.IntN(g.leaves) }

// dataItems are passive segments, which code refers to, and then active ones, some of
// which overlap.
func (g *gen) dataItems() (items [][]byte) {
	for range g.passive {
		items = append(items, append([]byte{1}, Name(g.text())...))
	}
	for range 1 + g.r.IntN(4) {
		items = append(items, slices.Concat([]byte{0}, Const(int32(g.r.IntN(200))), []byte{0x0b}, Name(g.text()))) //nolint:gosec // small
	}
	return items
}

func (g *gen) text() string {
	b := make([]byte, 8+g.r.IntN(60))
	for i := range b {
		b[i] = byte('a' + g.r.IntN(26)) //nolint:gosec // a letter
	}
	return string(b)
}

func (g *gen) names() []byte {
	var names [][]byte
	for i := range g.funcs {
		names = append(names, append(U(i), Name("fn"+string(rune('A'+i)))...))
	}
	return Custom("name", Section(1, Vec(names...)))
}
