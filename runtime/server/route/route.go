// Package route is what the HTTP surfaces share: the entry of the route table, bounded
// decoding of JSON bodies, the two shapes of an error, and the writer of event streams.
//
// It serves nobody (server does) and knows no resource (openai and api do).
//
// # Invariants
//
// A body is never read beyond its limit. An error shows what package fault says may be
// shown and nothing else. What a Stream was given is framed so that it cannot end its
// event early or begin another one.
package route

import (
	"context"
	"net/http"
	"strings"
)

// Access is who may call a route.
type Access uint8

// The levels. A User route takes any known key; whose rows it shows is the handler's
// to decide, with the principal in the request's context.
const (
	Public Access = iota
	User
	Admin
)

// String is the level's name in the description of the API.
func (a Access) String() string {
	return [...]string{Public: "public", User: "user", Admin: "admin"}[a]
}

// Route is one entry of the server's table.
type Route struct {
	Method string
	// Pattern is a path in the form of [http.ServeMux], for example "/api/runs/{id}".
	Pattern string
	Access  Access
	// Row is the path parameter that names an owned row, for example "id"; empty if the
	// route names none. For such a route another principal's row is fault.NotFound.
	Row string
	// MaxBody is, in bytes, how large a body this route takes where that is more than
	// server.max_body; 0: no more.
	MaxBody int64
	Doc     Doc
	// Handle answers. An error it returns before it wrote anything becomes the
	// response; after that it is only logged.
	Handle func(w http.ResponseWriter, r *http.Request) error
}

// Doc describes a route for /api/openapi.json.
type Doc struct {
	Summary string // one sentence
	Query   []Param
	// Body and Answer are values of the Go types that are decoded and encoded; nil: none.
	Body, Answer any
	// Stream says that the answer may be an event stream.
	Stream bool
	// Media is the type of an answer that is not JSON, for example "text/plain".
	Media string
}

// Param is one query parameter.
type Param struct {
	Name string
	Doc  string
	Type string // string | integer
	Must bool
}

// Shape is the form of an error's JSON.
type Shape uint8

// The shapes: ours, {"error":{"kind","message","detail"}}, and OpenAI's,
// {"error":{"message","type","param","code"}}.
const (
	Native Shape = iota
	OpenAI
)

// ShapeOf is the shape of errors below a path.
func ShapeOf(path string) Shape {
	if path == "/v1" || strings.HasPrefix(path, "/v1/") {
		return OpenAI
	}
	return Native
}

type tableKey struct{}

// WithTable puts the server's table into the context of a request.
func WithTable(ctx context.Context, table []Route) context.Context {
	return context.WithValue(ctx, tableKey{}, table)
}

// Table is the whole table of the server that handles the request; do not modify.
func Table(ctx context.Context) []Route {
	table, _ := ctx.Value(tableKey{}).([]Route)
	return table
}
