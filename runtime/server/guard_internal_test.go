package server

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/config"
	"github.com/hermes-runtime/hermes/runtime/server/route"
	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// bare is a server of one generation that does not listen.
func bare(t *testing.T, routes ...route.Route) *Server {
	t.Helper()
	h := snapshot.NewHolder()
	h.Swap(&snapshot.Snapshot{Number: 1, Time: time.Now(), Config: &config.Config{}}, 0)
	t.Cleanup(h.Close)
	return New(Options{Holder: h, Routes: routes, Log: slog.New(slog.DiscardHandler)})
}

// TestKeysTakenAwayLive: a server that listens beyond loopback serves nobody when a
// reload takes its last key.
func TestKeysTakenAwayLive(t *testing.T) {
	s := bare(t, route.Route{Method: http.MethodGet, Pattern: "/x", Access: route.User, Handle: func(w http.ResponseWriter, _ *http.Request) error {
		return route.WriteJSON(w, http.StatusOK, true)
	}})
	for ip, want := range map[string]int{"127.0.0.1": 200, "::1": 200, "192.0.2.1": 403, "0.0.0.0": 403, "::": 403} {
		s.bound = binding{ip: netip.MustParseAddr(ip), port: "8420"}
		rec := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodGet, "/x", nil)
		req.Host = "localhost:8420"
		s.ServeHTTP(rec, req)
		if rec.Code != want {
			t.Errorf("bound to %s: status %d, want %d", ip, rec.Code, want)
		}
	}
}

// TestPanicInTheMiddle: an answer that has begun breaks off visibly.
func TestPanicInTheMiddle(t *testing.T) {
	s := bare(t, route.Route{Method: http.MethodGet, Pattern: "/x", Access: route.Public, Handle: func(w http.ResponseWriter, _ *http.Request) error {
		if err := route.NewStream(w).Send(route.Event{Data: []byte("x")}); err != nil {
			return err
		}
		panic("in the middle")
	}})
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	resp, err := http.Get("http://" + ln.Addr().String() + "/x")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the answer seems whole: %q", body)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// timed remembers the read deadlines that are set.
type timed struct {
	*httptest.ResponseRecorder
	until []time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error {
	w.until = append(w.until, t)
	return nil
}

// TestBodyIsLimited: a client that keeps a body back is given up, also where the answer
// does not depend on it; net/http would wait for ever before it answers.
func TestBodyIsLimited(t *testing.T) {
	s := bare(t)
	s.bound = binding{ip: netip.MustParseAddr("127.0.0.1"), port: "8420"}
	for name, host := range map[string]string{"unknown path": "localhost:8420", "refused host": "evil.test"} {
		req := httptest.NewRequest(http.MethodPost, "/nowhere", strings.NewReader("{}"))
		req.Host = host
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		s.ServeHTTP(w, req)
		if len(w.until) != 2 || !w.until[1].Before(w.until[0]) || w.until[1].IsZero() {
			t.Errorf("%s: deadlines %v, want one for the request and an earlier one for its refusal", name, w.until)
		}
	}
}
