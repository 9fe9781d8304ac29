package dispatch

import (
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/policy"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Record is what is known of one call once it has ended. It holds no arguments and no
// content.
type Record struct {
	Tool       tool.Name // as the model wrote it if there is none
	Known      bool      // the tool exists
	Call       string
	Parent     string // the call that made it; empty: a model
	Agent      string
	Session    string
	Run        string
	Principal  principal.Principal
	Generation int64
	// Verdict is what the policies said, Policies those that decided; Asked says that the
	// call ended with the question for an approval.
	Verdict  policy.Action
	Policies []*policy.Policy
	Asked    bool
	Failed   bool
	Kind     fault.Kind // if Failed
	Bytes    int        // of the result, as the model or the calling handler gets it
	Redacted int        // secrets taken out of what the handler answered
	Stored   string     // handle, if the result was stored
	Duration time.Duration
}

// record hands a call that ended to whoever records.
func (d *Dispatcher) record(r *Request, t tool.Name, known bool, j judgement, out Outcome) {
	if d.o.Record == nil {
		return
	}
	rec := Record{
		Tool: t, Known: known, Call: r.Call.ID, Agent: r.Agent, Session: r.Session, Run: r.Run, Principal: r.Principal, Generation: r.Generation,
		Verdict: j.verb, Policies: j.by, Asked: out.Ask != nil, Failed: out.Failed, Bytes: len(out.Content), Redacted: out.Redacted, Duration: out.Duration,
	}
	if out.Failed {
		rec.Kind = out.Kind
	}
	if out.Result != nil {
		rec.Stored = out.Result.ID
	}
	if r.under != nil {
		rec.Parent = r.under.station.call.ID
	}
	d.o.Record(rec)
}
