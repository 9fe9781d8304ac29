package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// Limits of a connection. Bodies and answers have their own, see package route: an
// answer may take as long as its run does.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// endGrace is the time a cut stream has to say that it ends.
	endGrace = 2 * time.Second
)

// binding is the address that the server listens on.
type binding struct {
	ip   netip.Addr
	port string
	tls  bool
}

func (b binding) loopback() bool { return b.ip.IsLoopback() }

func (b binding) defaultPort() string {
	if b.tls {
		return "443"
	}
	return "80"
}

func (s *Server) binding() binding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound
}

func (s *Server) newHTTP() *http.Server {
	base, cut := context.WithCancelCause(context.Background())
	s.cut = cut
	return &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// Listen binds addr, or the address that the live generation declares if addr is
// empty. Nothing is served before Serve. A used port is fault.Unavailable; an address
// beyond loopback without keys, and certificates that do not load, are fault.Invalid.
func (s *Server) Listen(ctx context.Context, addr string) (net.Listener, error) {
	conf := s.config()
	if addr == "" {
		addr = conf.Listen
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, explainListen(err, addr)
	}
	bound, err := bindingOf(ln.Addr())
	if err == nil && !bound.loopback() && len(conf.Keys) == 0 {
		err = fault.New(fault.Invalid, "listening on %s without a key would serve everybody: add server { key … }, or listen on 127.0.0.1", addr)
	}
	if err == nil && conf.TLSCert != "" {
		bound.tls = true
		ln, err = secured(ln, conf.TLSCert, conf.TLSKey)
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	s.mu.Lock()
	s.bound = bound
	s.mu.Unlock()
	return ln, nil
}

// secured puts TLS on a listener; on an error the listener is returned as it was.
func secured(ln net.Listener, certFile, keyFile string) (net.Listener, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return ln, fault.Wrap(fault.Invalid, err, "the certificate and key of server { tls } do not load")
	}
	return tls.NewListener(ln, &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
	}), nil
}

func explainListen(err error, addr string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fault.Wrap(fault.Unavailable, err, "%s is in use: stop what listens there, or choose another address with --listen or server { listen }", addr)
	case errors.Is(err, syscall.EACCES):
		return fault.Wrap(fault.Denied, err, "listening on %s is not permitted: ports below 1024 need rights, choose another with --listen or server { listen }", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fault.Wrap(fault.Invalid, err, "%s is not an address of this machine", addr)
	}
	return fault.Wrap(fault.Invalid, err, "listening on %q: it must be host:port, for example 127.0.0.1:8420", addr)
}

func bindingOf(addr net.Addr) (binding, error) {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return binding{}, fmt.Errorf("reading bound address: %w", err)
	}
	return binding{ip: ap.Addr().Unmap().WithZone(""), port: fmt.Sprint(ap.Port())}, nil
}

// Serve answers on the listener until Shutdown, then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// Shutdown closes the listeners and waits for requests under way. When ctx ends first
// they are cut with ErrStopping: streams say so and end, the runs they follow go on.
// It returns after the last one.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	s.cut(ErrStopping)
	if err == nil {
		return nil
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), endGrace)
	defer cancel()
	if err = s.http.Shutdown(grace); err != nil {
		err = s.http.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.active > 0 {
		s.idle.Wait()
	}
	if err != nil {
		return fmt.Errorf("closing connections: %w", err)
	}
	return nil
}
