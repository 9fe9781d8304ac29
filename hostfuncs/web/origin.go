package web

import (
	"net/url"
	"strings"

	"github.com/hermes-runtime/hermes/hostfuncs"
	"github.com/hermes-runtime/hermes/runtime/egress"
	"github.com/hermes-runtime/hermes/runtime/late"
	"github.com/hermes-runtime/hermes/runtime/secret"
)

// setOrigins decides at load where requests may go: to the origin that url has whatever
// the arguments are, or to what hosts says.
func (r *request) setOrigins(v hostfuncs.Values) error {
	hosts, err := parseHosts(v)
	if err != nil {
		return err
	}
	fixed, known, err := r.fixedOrigin()
	switch {
	case err != nil:
		return err
	case known && len(hosts) == 0:
		r.policy.Origins = []egress.Origin{fixed}
		return nil
	case known && !covered(fixed, hosts):
		return &hostfuncs.ConfigError{Attr: "hosts", Detail: "The url goes to " + r.shownOrigin(fixed) + ", which hosts does not name. Add it, or leave hosts out."}
	case !known && len(hosts) == 0:
		return &hostfuncs.ConfigError{Attr: "url", Detail: "An argument could choose the host. Fix scheme, host and port up to the first slash, as in \"https://api.example.com/items/${urlencode(args.id)}\", or list what is allowed in hosts."}
	}
	r.policy.Origins = hosts
	return r.checkOpenDoor(v)
}

// shownOrigin is an origin as errors quote it.
func (r *request) shownOrigin(o egress.Origin) string {
	if credential(r.url) {
		return "a host that is not shown"
	}
	return o.String()
}

// checkOpenDoor refuses what would hand credentials, or the internal network, to
// whatever host a model names.
func (r *request) checkOpenDoor(v hostfuncs.Values) error {
	hosts, _ := v["hosts"].([]string)
	for _, h := range hosts {
		if h != "*" {
			continue
		}
		if r.policy.AllowPrivate {
			return &hostfuncs.ConfigError{Attr: "allow_private", Detail: "With hosts = [\"*\"] an argument could reach every internal server. Name the hosts."}
		}
		for _, value := range r.headers {
			if credential(value) {
				return &hostfuncs.ConfigError{Attr: "headers", Detail: "With hosts = [\"*\"] an argument could send this secret anywhere. Name the hosts that may see it."}
			}
		}
	}
	return nil
}

func parseHosts(v hostfuncs.Values) ([]egress.Origin, error) {
	texts, _ := v["hosts"].([]string)
	var out []egress.Origin
	for _, text := range texts {
		if text == "*" {
			out = append(out, egress.AnyHost("https"))
			continue
		}
		o, err := egress.ParseOrigin(text)
		if err != nil {
			return nil, &hostfuncs.ConfigError{Attr: "hosts", Detail: err.Error() + "."}
		}
		out = append(out, o)
	}
	return out, nil
}

// fixedOrigin is the origin of url if no argument can change it. Errors do not quote
// the URL, which may hold a secret.
func (r *request) fixedOrigin() (o egress.Origin, known bool, err error) {
	text, full := "", true
	switch u := r.url.(type) {
	case string:
		text = u
	case secret.Value:
		text = u.Open()
	case late.Prefixer:
		text, full = u.Prefix()
	case late.Expr:
		full = false
	default:
		return o, false, &hostfuncs.ConfigError{Attr: "url", Detail: "The URL is missing. Write url = \"https://host/path\"."}
	}
	head, ok := upToHost(text, full)
	if !ok {
		return o, false, nil
	}
	u, perr := url.Parse(head)
	if perr != nil || u.User != nil {
		return o, false, &hostfuncs.ConfigError{Attr: "url", Detail: "The URL must be absolute and without user name and password. Put credentials into headers."}
	}
	o, perr = egress.ParseOrigin(head)
	if perr != nil || strings.Contains(head, "*") || !strings.Contains(head, "://") {
		return o, false, &hostfuncs.ConfigError{Attr: "url", Detail: "The URL must begin with https:// or http:// and a host, for example https://api.example.com/v1."}
	}
	return o, true, nil
}

// upToHost cuts a URL before its path. It is false if text, which may be only the
// beginning, ends before the host is sure to be over.
func upToHost(text string, full bool) (string, bool) {
	scheme := strings.Index(text, "://")
	if scheme < 0 {
		return text, full
	}
	start := scheme + len("://")
	end := strings.IndexAny(text[start:], "/?#\\")
	if end < 0 {
		return text, full
	}
	return text[:start+end], true
}

func covered(o egress.Origin, by []egress.Origin) bool {
	u, err := url.Parse(o.String())
	if err != nil {
		return false
	}
	for _, b := range by {
		if b.Allows(u) {
			return true
		}
	}
	return false
}
