// Package clock is the family of native functions about time: time.now.
//
// Zones come with the binary, so that they are the same on a machine without a zone
// database.
package clock

import (
	"context"
	"encoding/json"
	"time"
	_ "time/tzdata" // zones for machines that have none

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// Funcs are the functions of the family.
func Funcs() []hostfuncs.Func {
	return []hostfuncs.Func{{
		Name:        "time.now",
		Description: "The current date, time and weekday, in a time zone.",
		Params: json.RawMessage(`{"additionalProperties":false,"properties":{` +
			`"timezone":{"description":"IANA name such as Europe/Oslo, or UTC","minLength":1,"type":"string"}},"type":"object"}`),
		Config: []hostfuncs.Attr{
			{Name: "timezone", Type: hostfuncs.String, Default: "UTC", Doc: "IANA name of the zone used when a call names none."},
		},
		// A repeat gives another time, but doing it again harms nothing.
		Traits: tool.Traits{Effect: tool.Read, Idempotent: true, Parallel: true},
		New:    newNow,
	}}
}

// moment is the answer: one instant, in the ways a model is asked for it.
type moment struct {
	Time     string `json:"time"` // RFC 3339 with the zone's offset
	Date     string `json:"date"`
	Weekday  string `json:"weekday"`
	Timezone string `json:"timezone"`
	Unix     int64  `json:"unix"` // seconds
}

func newNow(b hostfuncs.Binding) (tool.Handler, error) {
	home := "UTC"
	if name, ok := b.Config["timezone"].(string); ok {
		home = name
	}
	if _, err := zone(home); err != nil {
		return nil, &hostfuncs.ConfigError{Attr: "timezone", Detail: "This is not a time zone. Write an IANA name such as \"Europe/Oslo\", or \"UTC\"."}
	}
	return tool.HandlerFunc(func(_ context.Context, c *tool.Call) (tool.Result, error) {
		args := struct {
			Timezone string `json:"timezone"`
		}{home}
		if err := json.Unmarshal(c.Arguments, &args); err != nil {
			return tool.Result{}, fault.Wrap(fault.Invalid, err, "the arguments do not have the types this function expects")
		}
		loc, err := zone(args.Timezone)
		if err != nil {
			return tool.Result{}, fault.Wrap(fault.Invalid, err, "timezone: %.80q is not known; use an IANA name such as Europe/Oslo, or UTC", args.Timezone)
		}
		return tool.JSON(at(time.Now().In(loc)))
	}), nil
}

// zone finds a zone by name. The machine's own is not offered: "Local" says nothing to
// a model.
func zone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fault.New(fault.Invalid, "no zone")
	}
	return time.LoadLocation(name)
}

func at(t time.Time) moment {
	return moment{
		Time: t.Format(time.RFC3339), Date: t.Format(time.DateOnly), Weekday: t.Weekday().String(),
		Timezone: t.Location().String(), Unix: t.Unix(),
	}
}
