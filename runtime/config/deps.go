package config

import (
	"maps"
	"slices"
)

// deps are what a value was made from. Files serve blame; the rest says whether a
// cached object may be used again.
type deps struct {
	files map[string]struct{} // all, transitively
	read  map[string]string   // files read directly, with the key of what was read
	links map[string]bool     // paths, with whether they stay where they may
	env   map[string]string   // variables of the environment, with "=value" or ""
	named map[string]string   // "var.x" and "local.x", with the key of their value
	asked map[Read]struct{}   // what functions read
	// secrets are the sensitive texts that came up on the way.
	secrets map[string]struct{}
}

func (d *deps) addFile(path string) {
	if d.files == nil {
		d.files = map[string]struct{}{}
	}
	d.files[path] = struct{}{}
}

func (d *deps) addRead(path, key string) {
	d.addFile(path)
	if d.read == nil {
		d.read = map[string]string{}
	}
	d.read[path] = key
}

func (d *deps) addLink(path string, inside bool) {
	if d.links == nil {
		d.links = map[string]bool{}
	}
	d.links[path] = inside
}

func (d *deps) addEnv(name, value string) {
	if d.env == nil {
		d.env = map[string]string{}
	}
	d.env[name] = value
}

func (d *deps) addAsked(r Read) {
	if d.asked == nil {
		d.asked = map[Read]struct{}{}
	}
	d.asked[r] = struct{}{}
}

func (d *deps) addSecret(text string) {
	if d.secrets == nil {
		d.secrets = map[string]struct{}{}
	}
	d.secrets[text] = struct{}{}
}

func (d *deps) addNamed(name, key string) {
	if d.named == nil {
		d.named = map[string]string{}
	}
	d.named[name] = key
}

func (d *deps) merge(o *deps) {
	for p := range o.files {
		d.addFile(p)
	}
	for p, k := range o.read {
		d.addRead(p, k)
	}
	for p, in := range o.links {
		d.addLink(p, in)
	}
	for n, v := range o.env {
		d.addEnv(n, v)
	}
	for r := range o.asked {
		d.addAsked(r)
	}
	for n, k := range o.named {
		d.addNamed(n, k)
	}
	for s := range o.secrets {
		d.addSecret(s)
	}
}

// paths are the files without self, sorted; nil if there are none.
func (d *deps) paths(self string) []string {
	if len(d.files) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.files)), func(p string) bool { return p == self })
}
