package wasmtools

import (
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/hermes-runtime/hermes/wasmtools/rewrite"
)

// cacheForm changes when entries have another layout.
const cacheForm = 3

// derivedName is the file of a cache entry that holds the rewritten module.
const derivedName = "derived"

// formOf names what the content of a cache entry depends on, apart from the module: layout,
// rewriter, the caps that it bakes in, and the engine. The engine adds the processor's
// features itself.
func formOf(tableMax int) string {
	return fmt.Sprintf("%d.%d.%d.%s", cacheForm, rewrite.Version, tableMax, engineVersion(debug.ReadBuildInfo))
}

// engineVersion is the version of wazero in this program.
func engineVersion(read func() (*debug.BuildInfo, bool)) string {
	if info, ok := read(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/tetratelabs/wazero" {
				return strings.TrimPrefix(d.Version, "v")
			}
		}
	}
	return "unknown"
}

// rewritten gives the rewritten module: from the entry if that is whole, else anew, and
// then for the entry.
func (e *cacheEntry) rewritten(wasm []byte, tableMax int) (*rewrite.Result, error) {
	if e.sealed {
		if res, err := e.derived(); err == nil {
			return res, nil
		}
		e.discard()
	}
	res, err := rewrite.Rewrite(wasm, rewrite.Options{TableMax: tableMax, Detach: true})
	if err != nil {
		return nil, err
	}
	return &res, nil
}

func (e *cacheEntry) derived() (*rewrite.Result, error) {
	f, err := os.Open(filepath.Join(e.dir, derivedName))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	res := new(rewrite.Result)
	return res, gob.NewDecoder(f).Decode(res)
}

// derive writes the rewritten module, unless a sealed entry has it.
func (e *cacheEntry) derive(res *rewrite.Result) error {
	if e.dir == "" || e.sealed {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(e.dir, derivedName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("writing the rewritten module: %w", err)
	}
	if err := errors.Join(gob.NewEncoder(f).Encode(res), f.Close()); err != nil {
		return fmt.Errorf("writing the rewritten module: %w", err)
	}
	return nil
}
