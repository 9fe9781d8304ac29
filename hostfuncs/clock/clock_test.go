package clock_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/hostfuncs/clock"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is 2000-01-01 00:00 UTC here
		for _, c := range []struct {
			config hostfuncs.Values
			args   string
			want   string
			kind   fault.Kind
		}{
			{nil, `{}`, `{"time":"2000-01-01T00:00:00Z","date":"2000-01-01","weekday":"Saturday","timezone":"UTC","unix":946684800}`, 0},
			{nil, `{"timezone":"America/New_York"}`, `{"time":"1999-12-31T19:00:00-05:00","date":"1999-12-31","weekday":"Friday","timezone":"America/New_York","unix":946684800}`, 0},
			{hostfuncs.Values{"timezone": "Asia/Kolkata"}, `{}`, `{"time":"2000-01-01T05:30:00+05:30","date":"2000-01-01","weekday":"Saturday","timezone":"Asia/Kolkata","unix":946684800}`, 0},
			{nil, `{"timezone":"Oslo"}`, "", fault.Invalid},
			{nil, `{"timezone":"Local"}`, "", fault.Invalid},
			{nil, `{"timezone":"../../../etc/passwd"}`, "", fault.Invalid},
			{nil, `{"timezone":1}`, "", fault.Invalid},
		} {
			h, err := clock.Funcs()[0].New(hostfuncs.Binding{Config: c.config})
			if err != nil {
				t.Fatal(err)
			}
			res, err := h.Call(t.Context(), &tool.Call{Arguments: json.RawMessage(c.args)})
			if diff := cmp.Diff(c.want, string(res.JSON)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.args, diff)
			}
			if c.want == "" && (err == nil || fault.KindOf(err) != c.kind) {
				t.Errorf("%s: got %v, want %s", c.args, err, c.kind)
			}
		}
	})
}

func TestZoneIsCheckedAtLoad(t *testing.T) {
	for _, name := range []string{"", "Oslo", "Local"} {
		_, err := clock.Funcs()[0].New(hostfuncs.Binding{Config: hostfuncs.Values{"timezone": name}})
		var at *hostfuncs.ConfigError
		if !errors.As(err, &at) || at.Attr != "timezone" {
			t.Errorf("%q: got %v", name, err)
		}
	}
}
