package reload

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/hermes-runtime/hermes/runtime/config"
)

// setting is one that only a restart applies.
type setting struct {
	name  string // as the status names it
	block func(*config.Config) config.Decl
	attr  string // of the block
	value func(*config.Config) string
}

func restartSettings() []setting {
	server := func(c *config.Config) config.Decl { return c.Server.Decl }
	project := func(c *config.Config) config.Decl { return c.Runtime.Decl }
	return []setting{
		{"server.listen", server, "listen", func(c *config.Config) string { return c.Server.Listen }},
		{"server.tls.cert", server, "tls.cert", func(c *config.Config) string { return c.Server.TLSCert }},
		{"server.tls.key", server, "tls.key", func(c *config.Config) string { return c.Server.TLSKey }},
		{"runtime.wasm", project, "wasm", func(c *config.Config) string { return fmt.Sprint(c.Runtime.Wasm) }},
		{"state", server, "", func(c *config.Config) string { return c.Paths.State }},
	}
}

// restartOnly names the settings in which now differs from what the process started
// with. An address given at start wins over server.listen, so that changing it means
// nothing.
func restartOnly(first, now *config.Config, listen string) []string {
	var out []string
	for _, s := range restartSettings() {
		if s.name == "server.listen" && listen != "" {
			continue
		}
		if s.value(first) != s.value(now) {
			out = append(out, s.name)
		}
	}
	return out
}

// restartOnly warns of settings of next that wait for a restart.
func (r *Reloader) restartOnly(next *config.Config) hcl.Diagnostics {
	r.mu.Lock()
	first := r.first
	r.mu.Unlock()
	if first == nil {
		return nil
	}
	var out hcl.Diagnostics
	for _, name := range restartOnly(first, next, r.o.Listen) {
		out = append(out, restartWarning(next, name))
	}
	return out
}

func restartWarning(next *config.Config, name string) *hcl.Diagnostic {
	d := &hcl.Diagnostic{
		Severity: hcl.DiagWarning,
		Summary:  "Unsupported live change",
		Detail:   fmt.Sprintf("%s applies when the server starts. The rest of this change needs no restart.", name),
	}
	for _, s := range restartSettings() {
		block := s.block(next)
		at, ok := block.Attrs[s.attr]
		if !ok {
			at = block.Range
		}
		if s.name == name && at.Filename != "" {
			d.Subject = at.Ptr()
			d.Extra = config.Blame{Input: at.Filename}
		}
	}
	return d
}
