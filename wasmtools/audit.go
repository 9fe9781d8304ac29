package wasmtools

import (
	"fmt"
	"log/slog"

	"github.com/hermes-runtime/hermes/runtime/tool"
	"github.com/hermes-runtime/hermes/wasmtools/module"
)

// maxAudits is how many refusals of one call are recorded one by one. A guest can ask for
// what it may not have as fast as it runs; the rest is counted.
const maxAudits = 16

// filesGrant is the label of the grant of directories, which has no import module.
const filesGrant module.Capability = "files"

// audit records what a call was refused.
type audit struct {
	of      *tool.Call // nil before there is a call
	refused int
}

// refuse makes the one record of a refusal. reason may name what the guest asked for, in
// its own words where these are short; never what it sent.
func (c *call) refuse(kind module.Capability, format string, args ...any) {
	if c.audit.refused++; c.audit.refused > maxAudits {
		return
	}
	c.audit.record(c.tool.log, "capability refused", slog.String("capability", string(kind)), slog.String("reason", fmt.Sprintf(format, args...)))
}

// close records how many refusals were not recorded.
func (a *audit) close(log *slog.Logger) {
	if n := a.refused - maxAudits; n > 0 {
		a.record(log, "more capabilities refused", slog.Int("count", n))
	}
}

func (a *audit) record(log *slog.Logger, message string, more ...any) {
	attrs := []any{slog.Bool("audit", true)}
	if a.of != nil {
		attrs = append(attrs, slog.String("call", a.of.ID), slog.String("principal", a.of.Principal.Name), slog.String("agent", a.of.Agent), slog.String("run", a.of.Run), slog.Int64("generation", a.of.Generation))
	}
	log.Warn(message, append(attrs, more...)...) //nolint:sloglint // the message is one of two constants
}
