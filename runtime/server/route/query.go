package route

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Query is a checked query string.
type Query struct {
	values url.Values
	err    error
}

// QueryOf reads the query of a request; a parameter that is not in params, or given
// twice, is an error.
func QueryOf(r *http.Request, params []Param) *Query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &Query{values: url.Values{}, err: fault.New(fault.Invalid, "the query cannot be read: escape it as in a form")}
	}
	q := &Query{values: values}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(params, func(p Param) bool { return p.Name == name })
		switch {
		case i < 0:
			q.fail(Invalid(fault.Cut(name, 100), "unknown parameter%s", known(params)))
		case len(values[name]) > 1:
			q.fail(Invalid(name, "given more than once"))
		}
	}
	for _, p := range params {
		if p.Must && values.Get(p.Name) == "" {
			q.fail(Invalid(p.Name, "required"))
		}
	}
	return q
}

func known(params []Param) string {
	if len(params) == 0 {
		return ": this path takes none"
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	return ": this path takes " + strings.Join(names, ", ")
}

func (q *Query) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// String is a parameter, "" if it was not given.
func (q *Query) String(name string) string { return q.values.Get(name) }

// Int is a parameter that is an integer of 0 or more; fallback if it was not given.
func (q *Query) Int(name string, fallback int64) int64 {
	text := q.values.Get(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		q.fail(Invalid(name, "must be an integer of 0 or more"))
		return fallback
	}
	return n
}

// Err is the first fault found.
func (q *Query) Err() error { return q.err }
