package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/fault"
)

// answer is the result of a call.
type answer struct {
	Status  int               `json:"status"`
	URL     string            `json:"url,omitempty"` // without query; absent if it is a secret
	Headers map[string]string `json:"headers,omitempty"`
	// Body is the decoded JSON, the text, or null if there is none or it is binary.
	Body      any    `json:"body"`
	Truncated bool   `json:"truncated,omitempty"`
	Note      string `json:"note,omitempty"`
}

// shown are the response headers a model can use; others may hold cookies and keys.
func shown() []string {
	return []string{"Content-Type", "Content-Language", "Etag", "Last-Modified", "Retry-After", "Link"}
}

func answerOf(res *egress.Response, hidden bool) answer {
	a := answer{Status: res.Status, Headers: map[string]string{}, Truncated: res.Truncated}
	if !hidden {
		a.URL = withoutQuery(res.URL)
	}
	for _, name := range shown() {
		if value := res.Header.Get(name); value != "" {
			a.Headers[strings.ToLower(name)] = fault.Cut(value, 500)
		}
	}
	a.setBody(res)
	return a
}

func withoutQuery(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.User = "", false, "", nil
	return u.String()
}

func (a *answer) setBody(res *egress.Response) {
	kind, params, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	var notes []string
	if res.Truncated {
		notes = append(notes, fmt.Sprintf("the body is longer than the %d bytes shown", len(res.Body)))
	}
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	switch {
	case len(res.Body) == 0:
	case isJSON && !res.Truncated && a.decode(res.Body):
	case res.Header.Get("Content-Encoding") != "" || isBinary(res.Body, params["charset"]):
		notes = append(notes, fmt.Sprintf("the body is binary (%s) and not shown", describeKind(kind)))
	default:
		if isJSON && !res.Truncated {
			notes = append(notes, "the body claims to be JSON and is not")
		}
		a.Body = text(res.Body, params["charset"])
	}
	a.Note = strings.Join(notes, "; ")
}

// decode takes the body for JSON if it is one value. Decoding rather than passing the
// bytes on repairs what cannot be stored, such as half a surrogate pair; numbers keep
// their digits.
func (a *answer) decode(body []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return false
	}
	if _, err := dec.Token(); err != io.EOF {
		return false
	}
	a.Body = v
	return true
}

func describeKind(kind string) string {
	if kind == "" {
		return "of unknown type"
	}
	return kind
}

// isBinary says that the body is no text in an encoding that can be shown.
func isBinary(body []byte, charset string) bool {
	if bytes.IndexByte(body, 0) >= 0 {
		return true
	}
	return !latin(charset) && invalid(body)*10 > len(body)
}

func invalid(body []byte) (n int) {
	for len(body) > 0 {
		r, size := utf8.DecodeRune(body)
		if r == utf8.RuneError && size == 1 {
			n++
		}
		body = body[size:]
	}
	return n
}

func latin(charset string) bool {
	switch strings.ToLower(charset) {
	case "iso-8859-1", "latin1", "us-ascii", "windows-1252":
		return true
	}
	return false
}

// text is the body as UTF-8. A body cut in the middle of a character loses that piece.
func text(body []byte, charset string) string {
	if latin(charset) && !utf8.Valid(body) {
		runes := make([]rune, len(body))
		for i, c := range body {
			runes[i] = rune(c)
		}
		return string(runes)
	}
	for range utf8.UTFMax - 1 {
		if r, size := utf8.DecodeLastRune(body); r != utf8.RuneError || size != 1 || len(body) == 0 {
			break
		}
		body = body[:len(body)-1]
	}
	return strings.ToValidUTF8(string(body), "\uFFFD")
}
