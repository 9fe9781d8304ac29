package config

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
)

// ask notes what a function reads.
func (ld *load) ask(r Read) {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	ld.asked[r] = true
}

func (f *frame) asked(r Read) {
	f.deps().addAsked(r)
	f.ld.ask(r)
}

// shown is what a configuration shows of its server: what functions read whose results
// are not sensitive, of files also by their content, and the contents that it has at all.
type shown struct {
	reads   map[Read]bool
	content map[Read]bool // by digest
	known   map[string]bool
}

func shownBy(cfg *Config) shown {
	s := shown{content: map[Read]bool{}, known: map[string]bool{}}
	if cfg == nil {
		return s
	}
	s.reads = cfg.Reads
	for _, in := range cfg.Inputs {
		s.known[in.Digest] = true
	}
	for r := range cfg.Reads {
		if in, ok := cfg.Inputs[r.Name]; ok {
			s.content[Read{r.Func, in.Digest}] = true
		}
	}
	return s
}

// hides says that what is read would be shown to strangers, and is not by the live
// configuration.
func (ld *load) hides(r Read) bool { return ld.o.Stranger && !ld.shown.reads[r] }

// mayShow notes that a function reads a file, and says why strangers may not see it: it is
// the server's, known by its place or its content, and the live configuration does not
// read it in the same way.
func (f *frame) mayShow(r Read, in Input) error {
	f.asked(r)
	if !f.ld.o.Stranger || in.Absent || len(in.Content) == 0 {
		return nil
	}
	theirs := within(f.ld.paths.Project, r.Name) && !f.ld.shown.known[in.Digest]
	if theirs || f.ld.shown.content[Read{r.Func, in.Digest}] {
		return nil
	}
	return &funcs.Error{
		Summary: "Unsupported file",
		Detail: fmt.Sprintf("%q is a file of the server, whose live configuration does not read it with %s: a plan of files that are not the server's does not show what it holds. Plan with the files on the server.",
			relative(f.ld.paths.Project, r.Name), r.Func),
	}
}

// given marks the value of a variable that was given to the server, if it is not shown.
func (f *frame) given(name string, v *variable, value cty.Value, outside map[string]given) cty.Value {
	_, byFlag := f.ld.o.Vars[name]
	_, byFile := outside[name]
	_, byEnv := f.ld.lookupEnv("HERMES_VAR_" + name)
	if !byFlag && !byFile && !byEnv {
		return value
	}
	read := Read{"var", name}
	if v.sensitive || f.ld.hides(read) {
		return value.Mark(funcs.Sensitive)
	}
	f.asked(read)
	return value
}
