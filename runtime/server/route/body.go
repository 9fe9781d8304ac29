package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// bodyTimeout bounds how long a client may take to send a body.
const bodyTimeout = 60 * time.Second

// refuseTimeout bounds how long a refusal waits for the rest of the body. It is less
// than writeTimeout, so that there is time to send it.
const refuseTimeout = 5 * time.Second

// Field names the field of a body or query that an error is about. It is the Detail of
// a *fault.Error.
type Field struct {
	Field string `json:"field"`
}

// Invalid is a fault.Invalid about one field.
func Invalid(field, format string, args ...any) *fault.Error {
	e := fault.New(fault.Invalid, format, args...)
	e.Message = field + ": " + e.Message
	e.Detail = Field{field}
	return e
}

// CheckContentType wants a body to be declared as JSON in UTF-8. A request without a
// body needs no declaration.
func CheckContentType(r *http.Request) error {
	declared := r.Header.Get("Content-Type")
	if r.ContentLength == 0 && declared == "" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(declared)
	if err != nil || kind != "application/json" {
		return &StatusError{http.StatusUnsupportedMediaType, fault.New(fault.Invalid,
			"the Content-Type is %q: bodies are taken only as application/json", fault.Cut(declared, 100))}
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &StatusError{http.StatusUnsupportedMediaType, fault.New(fault.Invalid,
			"the charset is %q: JSON is taken only in utf-8", fault.Cut(charset, 100))}
	}
	return nil
}

// LimitBody gives the client its time to send the body. It goes before everything else
// that is done with a request: net/http reads what a handler left of a body before it
// sends the answer, and without a limit would wait for it as long as the client likes.
func LimitBody(w http.ResponseWriter, r *http.Request) error {
	return limitBody(w, r, bodyTimeout)
}

// RefuseBody goes before an answer that does not depend on the body: the client gets
// the answer soon, also if the body does not come.
func RefuseBody(w http.ResponseWriter, r *http.Request) error {
	return limitBody(w, r, refuseTimeout)
}

func limitBody(w http.ResponseWriter, r *http.Request, d time.Duration) error {
	if r.ContentLength == 0 {
		return nil
	}
	if err := readUntil(http.NewResponseController(w), time.Now().Add(d)); err != nil {
		return fault.Wrap(fault.Internal, err, "the body could not be read")
	}
	return nil
}

// readUntil sets the read deadline; the zero time takes it off, as has to be done once
// the body is there: one that stays would end the request's context later on, in the
// middle of the work.
func readUntil(rc *http.ResponseController, t time.Time) error {
	if err := rc.SetReadDeadline(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// ReadBody reads the body, which the server has limited.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := LimitBody(w, r); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = readUntil(http.NewResponseController(w), time.Time{})
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, fault.New(fault.TooLarge, "the body is over the limit of %d bytes", tooLarge.Limit)
	case err != nil:
		return nil, &StatusError{http.StatusBadRequest, fault.Wrap(fault.Invalid, err, "the body ended early or took longer than %s to arrive", bodyTimeout)}
	}
	return body, nil
}

// Decode reads the body, one JSON object, into dst (a pointer to a struct). Unknown
// fields are refused if strict, else ignored.
func Decode(w http.ResponseWriter, r *http.Request, dst any, strict bool) error {
	body, err := ReadBody(w, r)
	if err != nil {
		return err
	}
	return Unmarshal(body, "", dst, strict)
}

// Unmarshal decodes one JSON value into dst. at is where the value stands in the body,
// for messages; empty: it is the body, which must be an object.
func Unmarshal(data []byte, at string, dst any, strict bool) error {
	if at == "" {
		trimmed := bytes.TrimLeft(data, " \t\r\n")
		if len(trimmed) == 0 {
			return fault.New(fault.Invalid, "the body is empty: send a JSON object")
		}
		if trimmed[0] != '{' && json.Valid(data) {
			return fault.New(fault.Invalid, "the body must be a JSON object")
		}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(dst); err != nil {
		return explain(err, at)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fault.New(fault.Invalid, "something follows the JSON object at byte %d: send one object", dec.InputOffset())
	}
	return nil
}

// explain says in terms of the body what the decoder did not like.
func explain(err error, at string) error {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var own *fault.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &wrong):
		field := strings.Trim(at+"."+wrong.Field, ".")
		if field == "" {
			field = "body"
		}
		return Invalid(field, "must be %s, not %s", expected(wrong.Type), found(wrong.Value))
	case errors.As(err, &syntax):
		return fault.New(fault.Invalid, "the body is not valid JSON at byte %d: %s", syntax.Offset, syntax.Error())
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fault.New(fault.Invalid, "the body is not valid JSON: it ends too early")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		field := strings.Trim(at+"."+strings.Trim(name, `"`), ".")
		return Invalid(field, "unknown field")
	}
	return fault.Wrap(fault.Invalid, err, "the body could not be decoded")
}

// found is a JSON kind as the decoder names it, with its article.
func found(value string) string {
	kind, literal, _ := strings.Cut(value, " ")
	switch kind {
	case "bool":
		return "a boolean"
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "number":
		return strings.TrimSpace("the number " + fault.Cut(literal, 40))
	}
	return "a " + kind
}

// expected is what a Go type wants in terms of JSON.
func expected(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "an object"
	}
}

// DecodeOptional is Decode, strict, for a body that may be left out.
func DecodeOptional(w http.ResponseWriter, r *http.Request, dst any) error {
	body, err := ReadBody(w, r)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	return Unmarshal(body, "", dst, true)
}
