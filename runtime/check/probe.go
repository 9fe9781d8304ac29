package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Probe runs a check once; nil means that it passes. Errors name what is missing and
// carry neither values of variables nor queries of URLs.
func Probe(ctx context.Context, s Spec) error {
	switch s.Kind {
	case Env:
		return probeEnv(s.Vars)
	case File:
		return probeFile(s.Path)
	case Command:
		return probeCommand(ctx, s)
	case HTTP:
		return probeHTTP(ctx, s)
	case TCP:
		return probeTCP(ctx, s)
	}
	return fmt.Errorf("%q is not a kind of check", s.Kind)
}

func probeEnv(vars []string) error {
	var missing []string
	for _, name := range vars {
		if os.Getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("environment variables not set or empty: %s", strings.Join(missing, ", "))
	}
	return nil
}

func probeFile(path string) error {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%q does not exist", path)
	}
	return err
}

func probeTCP(ctx context.Context, s Spec) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("%s does not accept connections: %w", s.Address, reason(ctx, err, s.Timeout))
	}
	return conn.Close()
}

// probeHTTP asks once, by itself: no proxy of the environment, no redirects, no
// connection kept.
func probeHTTP(ctx context.Context, s Spec) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		return errors.New("the URL of the check cannot be parsed")
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	at := req.URL.Scheme + "://" + req.URL.Host
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", at, reason(ctx, err, s.Timeout))
	}
	_ = res.Body.Close()
	if res.StatusCode != s.Status {
		return fmt.Errorf("%s answered with status %d, not %d", at, res.StatusCode, s.Status)
	}
	return nil
}

// probeCommand runs argv without a shell. It gets PATH and HOME and nothing else of
// our environment, reads nothing, and what it prints goes nowhere.
func probeCommand(ctx context.Context, s Spec) error {
	if len(s.Run) == 0 {
		return errors.New("the command is empty")
	}
	cmd := exec.CommandContext(ctx, s.Run[0], s.Run[1:]...) //nolint:gosec // argv is the operator's
	cmd.Dir = s.Dir
	cmd.Env = minimalEnv()
	cmd.WaitDelay = time.Second
	ownGroup(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("command %q: %w", s.Run[0], reason(ctx, err, s.Timeout))
	}
	return nil
}

func minimalEnv() []string {
	env := []string{}
	for _, name := range []string{"PATH", "HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// reason says "timed out" where the system says "signal: killed", and takes the URL,
// which may hold a key, out of net/http's errors.
func reason(ctx context.Context, err error, timeout time.Duration) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("timed out after %s", timeout)
	}
	if withURL, ok := errors.AsType[*url.Error](err); ok {
		return withURL.Err
	}
	return err
}
