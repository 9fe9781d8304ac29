package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/egress"
)

// FuzzOrigin holds that an origin reads back as itself, and that what one allows has the
// scheme, host and port of a URL that names the same server.
func FuzzOrigin(f *testing.F) {
	for _, seed := range []string{"api.example.com", "https://*.example.com:8443", "http://[::1]:80", "https://1.2.3", "http://0x7f.1", "https://a..b", "*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := egress.ParseOrigin(text)
		if err != nil {
			return
		}
		again, err := egress.ParseOrigin(o.String())
		if err != nil || again != o {
			t.Fatalf("%q reads as %s, which reads as %s (%v)", text, o, again, err)
		}
	})
}

// FuzzDial holds that whatever URL is asked for, a policy without AllowPrivate dials
// public addresses only, when every name is at a public one.
func FuzzDial(f *testing.F) {
	for _, seed := range []string{
		"http://a.test/", "http://127.0.0.1", "http://[::ffff:7f00:1]/", "http://0177.1", "https://[64:ff9b::7f00:1]", "http://a.test@127.0.0.1/",
		"http://127.0.0.1#@a.test", "http://127.0.0.1\\@a.test", "http://１２７.0.0.1", "http://[fe80::1%25eth0]/",
	} {
		f.Add(seed)
	}
	errDialled := errors.New("dialled")
	f.Fuzz(func(t *testing.T, text string) {
		g := egress.New(egress.Options{
			Resolver: everywhere{},
			Dial: func(_ context.Context, _, address string) (net.Conn, error) {
				at, err := netip.ParseAddrPort(address)
				if err != nil {
					t.Errorf("%q dialled %q", text, address)
				}
				ip := at.Addr()
				if ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast() || ip.Is4In6() {
					t.Errorf("%q dialled %s", text, address)
				}
				return nil, errDialled
			},
		})
		defer g.Close()
		var allowed []egress.Origin
		if u, err := url.Parse(text); err == nil {
			if o, err := egress.ParseOrigin(u.Scheme + "://" + u.Host); err == nil {
				allowed = append(allowed, o)
			}
		}
		_, _ = g.Do(t.Context(), egress.Request{URL: text, Policy: egress.Policy{Origins: allowed}})
	})
}

// everywhere resolves every name to one public address.
type everywhere struct{}

func (everywhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}
