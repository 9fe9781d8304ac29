package module

import "github.com/hermes-runtime/hermes/wasmtools/binary"

// Snapshot says whether instances of a module can be reset by restoring memory and
// globals: nothing else of an instance may change in a call.
type Snapshot struct {
	Eligible bool   `json:"eligible"`
	Reason   string `json:"reason,omitempty"` // why not; completes "not eligible: "
}

// changed notes what a snapshot could not restore; the first reason counts.
func (p *parser) changed(why string) {
	if p.changes == "" {
		p.changes = why
	}
}

func (p *parser) changedBy(op binary.Op) {
	if p.changes == "" {
		p.changes = "it uses " + op.String()
	}
}

func (p *parser) snapshot() Snapshot {
	switch {
	case p.rep.ABI == Command:
		return Snapshot{Reason: "a command has a fresh instance for every call"}
	case p.rep.ABI == None:
		return Snapshot{Reason: "it has no entry point that hermes knows"}
	case p.changes != "":
		return Snapshot{Reason: p.changes + ", which a snapshot does not restore"}
	}
	return Snapshot{Eligible: true}
}
