package egress

import (
	"net/http"
	"strings"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Reserved says whether a header is set by the sender alone: it frames the message,
// chooses the host, or steers the connection. Callers' are dropped.
func Reserved(name string) bool {
	name = http.CanonicalHeaderKey(name)
	switch name {
	case "Host", "Connection", "Content-Length", "Transfer-Encoding", "Keep-Alive", "Te",
		"Trailer", "Upgrade", "Accept-Encoding", "Expect", "Http2-Settings":
		return true
	}
	return strings.HasPrefix(name, "Proxy-")
}

// harmless keeps what another origin may see: what kind of answer is wanted, and what
// the body is. Everything else may be a credential under any name.
func harmless(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		if plain(name) {
			out[name] = values
		}
	}
	return out
}

// plain says whether a header, by its canonical name, never holds a secret.
func plain(name string) bool {
	switch name {
	case "Accept", "Accept-Language", "Content-Type", "Range", "User-Agent":
		return true
	}
	return false
}

// callerHeader is h without what a caller cannot set. Names that differ only in case
// or by an injected name cannot slip through, since names are compared canonically.
func callerHeader(h http.Header, p *Policy) (http.Header, error) {
	injected := map[string]bool{}
	for name, value := range p.Headers {
		if !validName(name) || !validValue(value.Open()) {
			return nil, fault.New(fault.Invalid, "the declared header %.80q cannot be sent: its name or value has forbidden characters", name)
		}
		injected[http.CanonicalHeaderKey(name)] = true
	}
	out, size := http.Header{}, 0
	for name, values := range h {
		if !validName(name) {
			return nil, fault.New(fault.Invalid, "header %.80q is not a valid name", name)
		}
		name = http.CanonicalHeaderKey(name)
		if Reserved(name) || injected[name] {
			continue
		}
		for _, value := range values {
			if !validValue(value) {
				return nil, fault.New(fault.Invalid, "the value of header %.80q has a line break or control character", name)
			}
			size += len(name) + len(value)
			out[name] = append(out[name], value)
		}
	}
	if size > maxRequestHeader {
		return nil, fault.New(fault.TooLarge, "the headers are larger than %d bytes", maxRequestHeader)
	}
	return out, nil
}

func validName(name string) bool {
	if name == "" {
		return false
	}
	for _, c := range []byte(name) {
		alnum := (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return true
}

func validValue(value string) bool {
	for _, c := range []byte(value) {
		if (c < 0x20 && c != '\t') || c == 0x7f {
			return false
		}
	}
	return true
}

// wireHeader is what this hop sends: the caller's, then ours.
func (h *hop) wireHeader(p *Policy) http.Header {
	out := h.header.Clone()
	if out.Get("User-Agent") == "" {
		out.Set("User-Agent", "hermes")
	}
	out.Set("Accept-Encoding", "gzip")
	if !h.inject {
		return out
	}
	for name, value := range p.Headers {
		out.Set(name, value.Open())
	}
	return out
}
