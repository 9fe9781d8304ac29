package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

const (
	dialTimeout    = 10 * time.Second
	attemptTimeout = 4 * time.Second // one address, when there are more
)

// Resolver finds the addresses of a name; *net.Resolver is one.
type Resolver interface {
	// LookupNetIP gives the addresses of host; network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// DialFunc opens a connection to an address, which is never a name.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer resolves a name once, judges every address of the answer and dials exactly
// those it judged, so that a second answer cannot move the connection.
type dialer struct {
	resolver     Resolver
	dial         DialFunc
	allowPrivate bool
}

func (d *dialer) connect(ctx context.Context, network, hostport string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "the address to dial has no port")
	}
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		if err := d.permit(host, addr); err != nil {
			return nil, err
		}
	}
	return d.first(ctx, network, addrs, port)
}

func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	addrs, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "host %q could not be resolved", host)
	}
	if len(addrs) == 0 {
		return nil, fault.New(fault.Unavailable, "host %q has no address", host)
	}
	plain := make([]netip.Addr, len(addrs))
	for i, addr := range addrs {
		plain[i] = addr.Unmap()
	}
	return plain, nil
}

func (d *dialer) permit(host string, addr netip.Addr) error {
	r, why := judge(addr)
	switch {
	case r == public, r == private && d.allowPrivate:
		return nil
	case r == private:
		return fault.New(fault.Denied, "host %q is at %s, which is refused unless the declaration says allow_private", host, why)
	}
	return fault.New(fault.Denied, "host %q is at %s, which is always refused", host, why)
}

// first connects to the first address that answers.
func (d *dialer) first(ctx context.Context, network string, addrs []netip.Addr, port string) (net.Conn, error) {
	var errs []error
	for i, addr := range addrs {
		conn, err := d.attempt(ctx, network, net.JoinHostPort(addr.String(), port), i == len(addrs)-1)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (d *dialer) attempt(ctx context.Context, network, address string, last bool) (net.Conn, error) {
	if !last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
	}
	return d.dial(ctx, network, address)
}
