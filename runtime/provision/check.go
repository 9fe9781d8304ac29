package provision

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// CheckNative says what native functions find wrong with the config of the tools that
// are declared on them, without building anything that stays. A function that cannot be
// bound here for another reason, for want of a service perhaps, is passed over.
func CheckNative(cfg *config.Config, funcs []hostfuncs.Func) hcl.Diagnostics {
	b := &build{cfg: cfg}
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		t := cfg.Tools[name]
		i := slices.IndexFunc(funcs, func(f hostfuncs.Func) bool { return t.Native != nil && f.Name == t.Native.Function })
		if i < 0 || t.Schema == nil {
			continue
		}
		err := tryBinding(funcs[i], hostfuncs.Binding{Tool: t.Name, Params: t.Schema.JSON(), Config: t.Native.Config, Project: cfg.Paths.Project})
		if _, ok := errors.AsType[*hostfuncs.ConfigError](err); ok {
			b.reportTool(t, err)
		}
	}
	return b.diags
}

// tryBinding makes a handler and closes it again.
func tryBinding(f hostfuncs.Func, with hostfuncs.Binding) (err error) {
	var h tool.Handler
	defer func() {
		if recover() != nil {
			err = errors.New("the function panicked") // a build says so, and stops at it
		}
	}()
	h, err = f.New(with)
	if c, ok := h.(io.Closer); ok && err == nil {
		err = c.Close()
	}
	return err
}
