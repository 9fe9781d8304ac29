package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	short := flag.Bool("short", false, "a quarter of a minute, to see that answers are right")
	role := flag.String("role", "", "what a process of the measurement is: model or bare")
	listen := flag.String("listen", "", "where it listens")
	model := flag.String("model", "", "where its model is")
	hermes := flag.String("hermes", "", "the binary; empty: it is built")
	state := flag.String("state", "", "one more --state to measure, for example postgres://…")
	flag.Parse()
	var err error
	switch *role {
	case "model":
		err = http.ListenAndServe(*listen, http.HandlerFunc(answering))
	case "bare":
		err = http.ListenAndServe(*listen, bare(*model))
	default:
		err = measure(*short, *hermes, *state)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// size is how much is measured.
type size struct{ streams, chunks, turns, rate int }

func measure(short bool, hermes, more string) (err error) {
	n := size{streams: 1000, chunks: 60, turns: 400, rate: 3200}
	if short {
		n = size{streams: 50, chunks: 20, turns: 30, rate: 160}
	}
	dir, err := os.MkdirTemp("", "hermes-load")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if hermes == "" {
		hermes = filepath.Join(dir, "hermes")
		if out, err := exec.Command("go", "build", "-C", "..", "-trimpath", "-o", hermes, "./cmd/hermes").CombinedOutput(); err != nil {
			return fmt.Errorf("building hermes: %w\n%s", err, out)
		}
	}
	model, err := start(os.Args[0], "-role", "model", "-listen")
	if err != nil {
		return err
	}
	defer model.stop()
	baseline, err := start(os.Args[0], "-role", "bare", "-model", model.base, "-listen")
	if err != nil {
		return err
	}
	defer baseline.stop()
	alone, err := streams(newClient(baseline.base), baseline.cmd.Process.Pid, n.streams, n.chunks)
	if err != nil {
		return fmt.Errorf("the bare loop: %w", err)
	}
	fmt.Printf("%d streams of %d chunks of %d bytes, one each %v, begun within %v\n", n.streams, n.chunks, chunkBytes, chunkEvery, ramp)
	fmt.Printf("  %-24s %9s %12s %12s %12s %12s %10s\n", "", "KiB each", "first p50", "first p99", "late p50", "late p99", "CPU/chunk")
	row("bare go-openai", alone)
	states := []string{"state?synchronous=normal", "state?synchronous=full"}
	if more != "" {
		states = append(states, more)
	}
	for _, state := range states {
		if err := measureState(dir, hermes, model, state, n); err != nil {
			return fmt.Errorf("%s: %w", kind(state), err)
		}
	}
	return nil
}

func row(name string, s streamed) {
	fmt.Printf("  %-24s %9d %12v %12v %12v %12v %10v\n", name, s.memory, s.first.at(.5).Round(time.Microsecond*10), s.first.at(.99).Round(time.Microsecond*10),
		s.lag.at(.5).Round(time.Microsecond*10), s.lag.at(.99).Round(time.Microsecond*10), s.cpu)
}

// kind names a state without what may be a password.
func kind(state string) string {
	if scheme, _, ok := strings.Cut(state, "://"); ok {
		return scheme
	}
	_, query, _ := strings.Cut(state, "?")
	return "sqlite " + query
}

// measureState measures hermes with its state in one place.
func measureState(dir, hermes string, model *server, state string, n size) error {
	work, err := project(dir, model.base)
	if err != nil {
		return err
	}
	if strings.Contains(state, "://") {
		state += map[bool]string{true: "&", false: "?"}[strings.Contains(state, "?")] + "local=" + filepath.Join(work, "local")
	} else {
		state = filepath.Join(work, state)
	}
	h, err := start(hermes, "serve", "--config", filepath.Join(work, "agents"), "--state", state, "--log-level", "warn", "--listen")
	if err != nil {
		return err
	}
	defer h.stop()
	c := newClient(h.base)
	if _, _, err := turns(c, newClient(model.base), "tool", 3); err != nil { // modules are compiled by now
		return err
	}
	s, err := streams(c, h.cmd.Process.Pid, n.streams, n.chunks)
	if err != nil {
		return err
	}
	row("hermes, "+kind(state), s)
	for _, agent := range []string{"plain", "tool"} {
		total, first, err := turns(c, newClient(model.base), agent, n.turns)
		if err != nil {
			return err
		}
		fmt.Printf("    turn %-6s over the model: p50 %v p90 %v, first token p50 %v\n", agent, total.at(.5).Round(time.Microsecond*10), total.at(.9).Round(time.Microsecond*10), first.at(.5).Round(time.Microsecond*10))
	}
	for _, atOnce := range []int{1, 4, 16, 64} {
		perSecond, err := rate(c, atOnce, n.rate/(1+3/atOnce))
		if err != nil {
			return err
		}
		fmt.Printf("    %2d at once: %.0f turns/s\n", atOnce, perSecond)
	}
	return nil
}

// project writes agents for the model server into a new folder.
func project(dir, model string) (string, error) {
	work, err := os.MkdirTemp(dir, "project")
	if err != nil {
		return "", err
	}
	var agents strings.Builder
	fmt.Fprintf(&agents, "provider \"openai\" \"load\" {\n  base_url = %q\n}\nruntime {\n  max_runs = 4000\n}\n", model+"/v1")
	for _, name := range []string{"plain", "tool", "slow-60", "slow-20"} {
		toolsets := ""
		if name == "tool" {
			toolsets = "  toolsets = [\"*\"]\n"
		}
		fmt.Fprintf(&agents, "model %q {\n  provider = \"openai.load\"\n  context_window = 128000\n}\nagent %q {\n  model = %q\n  instructions = \"Answer.\"\n%s}\n", name, name, name, toolsets)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(work, "agents"), 0o755), os.MkdirAll(filepath.Join(work, "tools.d"), 0o755)); err != nil {
		return "", err
	}
	module, err := os.ReadFile(filepath.Join("..", "tools.d", "text_stats.wasm"))
	if err != nil {
		return "", fmt.Errorf("%w: run make guests first", err)
	}
	const tool = "tool \"text_stats\" {\n  description = \"Counts.\"\n  effect = \"read\"\n  param \"text\" {\n    type = string\n  }\n  handler \"wasm\" {\n    module = \"text_stats.wasm\"\n  }\n}\n"
	if err := errors.Join(
		os.WriteFile(filepath.Join(work, "tools.d", "text_stats.wasm"), module, 0o644),
		os.WriteFile(filepath.Join(work, "tools.d", "text_stats.hcl"), []byte(tool), 0o644),
	); err != nil {
		return "", err
	}
	return work, os.WriteFile(filepath.Join(work, "agents", "main.hcl"), []byte(agents.String()), 0o644)
}

// server is a process that serves on loopback.
type server struct {
	cmd  *exec.Cmd
	base string
}

// start runs a program whose last argument is the address to listen on, and waits for it.
func start(program string, args ...string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	s := &server{cmd: exec.Command(program, append(args, address)...), base: "http://" + address}
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			return s, conn.Close()
		}
	}
	s.stop()
	return nil, fmt.Errorf("%s does not listen", filepath.Base(program))
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait() // interrupted processes end with an error
}
