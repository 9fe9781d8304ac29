package wasmtools

import (
	"cmp"
	"slices"
)

// extismMemory is the memory that an Extism plug-in and its host exchange data through.
// It lies with the host, in blocks, and the plug-in reads and writes it a word at a time.
//
//	offset   0      4096         4096+16k            never used twice
//	         none   | block 1 |  | block 2 |   …   | next
//
// A block keeps its offset for the length of the call, so a plug-in that frees one twice,
// or after the host has, frees nothing else. A freed block can still be read until its
// space is needed: plug-ins hand out what they have freed, and nothing is lost by it.
//
// One call has one, and one goroutine uses it.
type extismMemory struct {
	limit  int64 // bytes that the blocks may take, with what it costs to keep them
	used   int64
	freed  int64  // of used
	denied denial // why a block was refused last

	reserve  func(bytes int64) bool // takes of what all guests may have together
	reserved int64

	blocks []extismBlock // ascending
	last   int           // index of the block found last
	next   uint64        // offset of the next block
}

type extismBlock struct {
	at    uint64
	b     []byte
	freed bool
}

const (
	extismFirst    = 1 << 12 // so that small numbers are no offsets
	extismAlign    = 16
	extismOverhead = 64 // bytes a block costs beside its content
	extismFew      = 1 << 10
	extismStep     = 1 << 16 // bytes that are reserved at once
)

// extismCost is what a block of n bytes takes of the limit.
func extismCost(n int) int64 { return int64(n) + extismOverhead }

// alloc makes a block of n zero bytes. It gives 0, which is no block, for n = 0 and when
// there is no room: to plug-ins this is what a failed allocation looks like.
func (m *extismMemory) alloc(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	if !m.fits(n) {
		return 0
	}
	return m.add(make([]byte, n))
}

// fits makes room for n bytes if it can. Of many blocks, freed ones are swept only when
// they are a sixteenth of the limit: a plug-in cannot make every allocation a long one.
func (m *extismMemory) fits(n uint64) bool {
	if m.limit <= 0 || n > uint64(m.limit) {
		m.denied = overLimit
		return false
	}
	cost := extismCost(int(n)) //nolint:gosec // n is at most the limit
	if m.used+cost > m.limit && (m.freed >= m.limit/16 || len(m.blocks) < extismFew) {
		m.sweep()
	}
	if m.used+cost > m.limit {
		m.denied = overLimit
		return false
	}
	return m.promised(m.used + cost)
}

// promised says whether blocks may take n bytes of what there is for all guests.
func (m *extismMemory) promised(n int64) bool {
	more := n - m.reserved
	if more <= 0 {
		return true
	}
	more = (more + extismStep - 1) / extismStep * extismStep
	if !m.reserve(more) {
		m.denied = overBudget
		return false
	}
	m.reserved += more
	return true
}

// add makes b a block without copying it, for which there must be room. An empty one is
// none.
func (m *extismMemory) add(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	at := max(m.next, extismFirst)
	m.blocks = append(m.blocks, extismBlock{at: at, b: b})
	m.used += extismCost(len(b))
	m.next = at + (uint64(len(b))+2*extismAlign-1)/extismAlign*extismAlign // a gap, so that running over is noticed
	return at
}

// sweep forgets the freed blocks.
func (m *extismMemory) sweep() {
	m.blocks = slices.DeleteFunc(m.blocks, func(b extismBlock) bool { return b.freed })
	m.used -= m.freed
	m.freed, m.last = 0, 0
}

// reset forgets all blocks. Their offsets are not used again.
func (m *extismMemory) reset() {
	m.blocks, m.used, m.freed, m.last = nil, 0, 0, 0
}

// free marks the block at p. It does nothing if there is none, as plug-ins expect.
func (m *extismMemory) free(p uint64) {
	if b := m.block(p); b != nil {
		b.freed = true
		m.freed += extismCost(len(b.b))
	}
}

// block is the block that starts at p and is not freed; nil if there is none.
func (m *extismMemory) block(p uint64) *extismBlock {
	b := m.find(p)
	if b == nil || b.at != p || b.freed {
		return nil
	}
	return b
}

// find is the block that p lies in; nil if there is none.
func (m *extismMemory) find(p uint64) *extismBlock {
	if m.last < len(m.blocks) {
		if b := &m.blocks[m.last]; p-b.at < uint64(len(b.b)) {
			return b
		}
	}
	i, exact := slices.BinarySearchFunc(m.blocks, p, func(b extismBlock, p uint64) int { return cmp.Compare(b.at, p) })
	if !exact {
		i--
	}
	if i < 0 || p-m.blocks[i].at >= uint64(len(m.blocks[i].b)) {
		return nil
	}
	m.last = i
	return &m.blocks[i]
}

// span is the n bytes from p on, which must lie in one block; nil if they do not.
func (m *extismMemory) span(p, n uint64) []byte {
	b := m.find(p)
	if b == nil {
		return nil
	}
	rest := b.b[p-b.at:]
	if n > uint64(len(rest)) {
		return nil
	}
	return rest[:n:n]
}
