package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/server/route"
)

var pathParam = regexp.MustCompile(`\{([a-z]+)(\.\.\.)?\}`)

type object = map[string]any

// openapi describes the route table.
func (h *handler) openapi(w http.ResponseWriter, req *http.Request) error {
	paths := map[string]object{}
	for _, r := range route.Table(req.Context()) {
		path := pathParam.ReplaceAllString(r.Pattern, "{$1}")
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(r.Method)] = operation(r)
	}
	return route.WriteJSON(w, http.StatusOK, object{
		"openapi": "3.1.0",
		"info":    object{"title": "hermes", "version": h.Version},
		"paths":   paths,
		"components": object{"securitySchemes": object{
			"key": object{"type": "http", "scheme": "bearer", "description": "A key of the server block. A server without keys, on loopback, needs none."},
		}},
	})
}

func operation(r route.Route) object {
	op := object{
		"summary": r.Doc.Summary, "parameters": parameters(r), "x-access": r.Access.String(),
		"responses": object{"200": answer(r.Doc), "default": object{
			"description": "An error, in this shape below /v1 and in the native one elsewhere.",
			"content":     jsonContent(errorSchema(r.Pattern)),
		}},
	}
	if r.Access != route.Public {
		op["security"] = []object{{"key": []string{}}}
	}
	if r.Doc.Body != nil {
		op["requestBody"] = object{"content": jsonContent(schemaOf(reflect.TypeOf(r.Doc.Body)))}
	}
	return op
}

func parameters(r route.Route) []object {
	out := []object{}
	for _, m := range pathParam.FindAllStringSubmatch(r.Pattern, -1) {
		out = append(out, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range r.Doc.Query {
		out = append(out, object{"name": p.Name, "in": "query", "required": p.Must, "description": p.Doc, "schema": object{"type": p.Type}})
	}
	return out
}

func answer(d route.Doc) object {
	content := object{}
	switch {
	case d.Media != "":
		content[d.Media] = object{"schema": object{"type": "string"}}
	case d.Answer != nil && !d.Stream:
		content = jsonContent(schemaOf(reflect.TypeOf(d.Answer)))
	case d.Answer != nil:
		content = jsonContent(schemaOf(reflect.TypeOf(d.Answer)))
		content["text/event-stream"] = object{"schema": object{"type": "string"}}
	}
	return object{"description": "Done.", "content": content}
}

func jsonContent(schema object) object { return object{"application/json": object{"schema": schema}} }

func errorSchema(pattern string) object {
	text := object{"type": "string"}
	fields := object{"kind": text, "message": text, "detail": object{}}
	if route.ShapeOf(pattern) == route.OpenAI {
		maybe := object{"type": []string{"string", "null"}}
		fields = object{"message": text, "type": text, "param": maybe, "code": maybe}
	}
	return object{"type": "object", "properties": object{"error": object{"type": "object", "properties": fields}}}
}

// schemaOf is the JSON Schema of what encoding/json makes of a type.
func schemaOf(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return object{}
	case t == reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64"}
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		properties := object{}
		addFields(properties, t)
		return object{"type": "object", "properties": properties}
	default:
		return object{}
	}
}

// addFields adds the fields of a struct, those of embedded ones as its own.
func addFields(properties object, t reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			addFields(properties, f.Type)
		case name == "-" || !f.IsExported():
		case name == "":
			properties[f.Name] = schemaOf(f.Type)
		default:
			properties[name] = schemaOf(f.Type)
		}
	}
}
