package wasmtools

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"
)

// wasiPaths are the parameters of a function that point to paths which are looked up. The
// target of a symbolic link is none.
func wasiPaths(def api.FunctionDefinition) []int {
	names := def.ParamNames()
	var out []int
	for i, name := range names {
		target := name == "old_path" && slices.Contains(def.ExportNames(), "path_symlink")
		if i+1 < len(names) && names[i+1] == name+"_len" && strings.HasSuffix(name, "path") && !target {
			out = append(out, i)
		}
	}
	return out
}

// recordEscape makes the record of a path that by its text alone leads out of the directory
// it is below. The engine answers it with an error number, and no mount gets to see it.
func (w watcher) recordEscape(c *call, mod api.Module, def api.FunctionDefinition, p []uint64) {
	mem := mod.Memory()
	if mem == nil {
		return
	}
	for _, i := range w.paths {
		b, ok := mem.Read(u32(p[i]), u32(p[i+1]))
		if !ok || fs.ValidPath(path.Clean(string(b))) {
			continue
		}
		c.refuse(filesGrant, "%s of %.200q, which leads out of its directory", def.ExportNames()[0], b)
		return
	}
}
