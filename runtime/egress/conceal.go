package egress

import (
	"bytes"
	"net/http"
	"strings"
)

const (
	// leastSecret is how long a value must be to be looked for: shorter ones are no
	// secrets, and stand in answers by chance.
	leastSecret = 8
	blot        = "[hidden]"
)

// conceal blots out injected values that an answer repeats, as a server does that shows
// the request it got. Only what stands there as it was sent is found: an answer that
// encodes it shows it, so credentials belong to servers that are trusted with them.
func (p *Policy) conceal(res *Response) *Response {
	if res == nil || !p.Hide {
		return res
	}
	for _, secret := range p.secrets() {
		for _, values := range res.Header {
			for i, v := range values {
				values[i] = strings.ReplaceAll(v, secret, blot)
			}
		}
		res.URL = strings.ReplaceAll(res.URL, secret, blot)
		if bytes.Contains(res.Body, []byte(secret)) {
			res.Body = bytes.ReplaceAll(res.Body, []byte(secret), []byte(blot))
			res.Header.Del("Content-Length")
		}
	}
	if int64(len(res.Body)) > p.MaxResponse {
		res.Body, res.Truncated = res.Body[:p.MaxResponse], true
	}
	if res.Truncated {
		res.Body = p.withoutBeginning(res.Body)
	}
	return res
}

// withoutBeginning takes off the end of a body that was cut off within a value: who chooses
// where, could read all but its last byte.
func (p *Policy) withoutBeginning(body []byte) []byte {
	for _, secret := range p.secrets() {
		for n := min(len(secret)-1, len(body)); n > 0; n-- {
			if bytes.HasSuffix(body, []byte(secret[:n])) {
				body = body[:len(body)-n]
				break
			}
		}
	}
	return body
}

// secrets are the injected values, whole and without the scheme of a credential.
func (p *Policy) secrets() []string {
	var out []string
	for name, value := range p.Headers {
		if plain(http.CanonicalHeaderKey(name)) {
			continue
		}
		whole := value.Open()
		candidates := []string{whole}
		if scheme, token, ok := strings.Cut(whole, " "); ok && !strings.Contains(token, " ") && scheme != "" {
			candidates = append(candidates, token)
		}
		for _, c := range candidates {
			if len(c) >= leastSecret {
				out = append(out, c)
			}
		}
	}
	return out
}
