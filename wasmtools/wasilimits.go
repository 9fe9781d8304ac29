package wasmtools

import (
	"fmt"

	"github.com/tetratelabs/wazero/api"
)

// wasiLimit bounds a parameter of a WASI function. wazero does in one go whatever a guest
// asks for, and while it does nothing can end the call: walking along a path of ten
// million directories takes half a minute. And it makes room for every descriptor below
// the one that a guest renumbers to, 16 GiB for the highest.
type wasiLimit struct {
	param int
	most  uint32
	of    string
}

// wasiLimits are those of a function. No compiler or library comes near them.
func wasiLimits(def api.FunctionDefinition) []wasiLimit {
	var out []wasiLimit
	for i, name := range def.ParamNames() {
		switch name {
		case "path_len", "old_path_len", "new_path_len":
			out = append(out, wasiLimit{i, 4096, "bytes of a path"})
		case "iovs_len":
			out = append(out, wasiLimit{i, 1024, "buffers"})
		case "nsubscriptions":
			out = append(out, wasiLimit{i, 4096, "events to wait for"})
		case "buf_len":
			out = append(out, wasiLimit{i, 16 << 20, "bytes"})
		case "to":
			out = append(out, wasiLimit{i, 1024, "as the number of a file"})
		}
	}
	return out
}

// enforce ends the guest if a parameter goes over its limit.
func (w wasiLimit) enforce(def api.FunctionDefinition, p []uint64) {
	if got := u32(p[w.param]); got > w.most {
		panic(trap(fmt.Sprintf("the module asked %s for %d %s, and the limit is %d", def.Name(), got, w.of, w.most)))
	}
}
