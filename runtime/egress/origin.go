package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Origin is where a request may go: scheme, host and port, or every host below a
// domain. The zero Origin allows nothing.
type Origin struct {
	scheme string
	host   string // lower case, no brackets; with wildcard: the domain below which
	port   string // never empty
	wild   wildcard
}

type wildcard uint8

const (
	exactHost wildcard = iota
	subdomains
	anyHost
)

// ParseOrigin reads `https://host[:port]` or `http://host[:port]`; a bare host means
// https, and a leading `*.` label means every host below that domain, at any depth,
// but not the domain itself. Errors say the rule in full sentences.
func ParseOrigin(text string) (Origin, error) {
	full := text
	if !strings.Contains(full, "://") {
		full = "https://" + full
	}
	full, wild := cutWildcard(full)
	u, err := url.Parse(full)
	if err != nil {
		return Origin{}, fmt.Errorf("%q is not an origin: write https://host or https://host:port", text)
	}
	if u.User != nil || u.Opaque != "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return Origin{}, fmt.Errorf("%q is more than an origin: write only scheme, host and port, for example https://host:8443", text)
	}
	o, err := originOf(u)
	if err != nil {
		return Origin{}, fmt.Errorf("%q is not an origin: %w", text, err)
	}
	if wild && isAddress(o.host) {
		return Origin{}, fmt.Errorf("%q puts a wildcard before an address: only host names have subdomains", text)
	}
	if wild {
		o.wild = subdomains
	}
	return o, nil
}

// AnyHost allows every host on the default port of scheme, which is "https" or
// "http". Which addresses those hosts may have is still the [Policy]'s word.
func AnyHost(scheme string) Origin {
	return Origin{scheme: scheme, port: defaultPort(scheme), wild: anyHost}
}

func cutWildcard(full string) (string, bool) {
	scheme, rest, _ := strings.Cut(full, "://")
	host, found := strings.CutPrefix(rest, "*.")
	return scheme + "://" + host, found
}

// originOf is the exact origin of an absolute URL.
func originOf(u *url.URL) (Origin, error) {
	scheme := strings.ToLower(u.Scheme)
	if scheme != "http" && scheme != "https" {
		return Origin{}, fmt.Errorf("the scheme must be https or http")
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return Origin{}, err
	}
	port := u.Port()
	if port == "" && strings.HasSuffix(u.Host, ":") {
		return Origin{}, fmt.Errorf("the port after the colon is missing")
	}
	if port == "" {
		port = defaultPort(scheme)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Origin{}, fmt.Errorf("the port must be a number from 1 to 65535")
	}
	return Origin{scheme: scheme, host: host, port: strconv.FormatUint(n, 10)}, nil
}

func defaultPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}

// canonicalHost lowers a host name and refuses every spelling that some resolver reads
// as an address and another as a name: only the canonical form of an address passes.
func canonicalHost(host string) (string, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", fmt.Errorf("an address with a zone is not allowed")
		}
		return addr.Unmap().String(), nil
	}
	if host == "" || len(host) > 253 {
		return "", fmt.Errorf("the host is missing or too long")
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !validLabel(label) {
			return "", fmt.Errorf("the host may have letters, digits, hyphens and dots only; write international names as xn--…")
		}
	}
	if endsInNumber(labels[len(labels)-1]) {
		return "", fmt.Errorf("an address must be written in its usual form, for example 192.0.2.1")
	}
	return host, nil
}

func validLabel(label string) bool {
	if label == "" || len(label) > 63 {
		return false
	}
	for _, c := range []byte(label) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// endsInNumber is the test by which browsers and libc take a host for an IPv4 address:
// its last label is decimal, octal or hexadecimal.
func endsInNumber(label string) bool {
	digits := "0123456789"
	if rest, hex := strings.CutPrefix(label, "0x"); hex {
		label, digits = rest, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// Allows says whether the URL's scheme, host and port are within o.
func (o Origin) Allows(u *url.URL) bool {
	at, err := originOf(u)
	return err == nil && o.covers(at)
}

func (o Origin) covers(at Origin) bool {
	if o.scheme != at.scheme || o.port != at.port {
		return false
	}
	switch o.wild {
	case exactHost:
		return o.host == at.host
	case subdomains:
		return !isAddress(at.host) && strings.HasSuffix(at.host, "."+o.host)
	case anyHost:
		return true
	}
	return false
}

// String is the origin as [ParseOrigin] reads it; a default port is left out.
func (o Origin) String() string {
	host := o.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	switch o.wild {
	case exactHost:
	case subdomains:
		host = "*." + host
	case anyHost:
		host = "*"
	}
	if o.port != defaultPort(o.scheme) {
		host += ":" + o.port
	}
	return o.scheme + "://" + host
}
