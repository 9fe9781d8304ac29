// Probe is the guest of the tests: it does what it is told to, and mostly what a tool
// should not do.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	guest "github.com/hermes-runtime/hermes/wasmtools/sdk/go"
)

type args struct {
	Do      string            `json:"do"`
	Value   json.RawMessage   `json:"value"`
	Text    string            `json:"text"`
	N       int               `json:"n"`
	Path    string            `json:"path"`
	To      string            `json:"to"`
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

var _ = guest.Serve(guest.Module{Name: "probe", Version: "1", Tools: []guest.Definition{
	guest.Tool("probe", "Does what it is told.", `{"type":"object"}`, probe),
}, Wants: []guest.Want{{Capability: "http", Hosts: []string{"https://probe.example"}}}})

func main() { guest.Main() }

var kept int

func probe(ctx context.Context, a args) (any, error) {
	switch a.Do {
	case "echo":
		return a.Value, nil
	case "call":
		return guest.CallOf(ctx), nil
	case "fail":
		return nil, errors.New(a.Text)
	case "panic":
		panic(a.Text)
	case "goexit":
		go panic(a.Text)
		time.Sleep(time.Hour)
	case "exit":
		os.Exit(a.N)
	case "loop":
		for i := 0; ; i++ {
			kept = i
		}
	case "sleep":
		time.Sleep(time.Duration(a.N) * time.Millisecond)
		return "slept", nil
	case "count":
		kept++
		return kept, nil
	case "grow":
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
			kept += len(all)
		}
	case "flood":
		line := strings.Repeat("x", 1024)
		for {
			fmt.Fprintln(os.Stdout, line)
		}
	case "logs":
		for {
			guest.Log(guest.Info, "log log log")
		}
	case "output":
		return strings.Repeat("x", a.N), nil
	case "env":
		env := os.Environ()
		sort.Strings(env)
		return env, nil
	case "args":
		return os.Args, nil
	case "stderr":
		fmt.Fprint(os.Stderr, a.Text)
		os.Exit(3)
	case "real":
		b := make([]byte, 8)
		_, _ = rand.Read(b)
		return map[string]any{"time": time.Now().UnixMilli(), "rand": fmt.Sprintf("%x", b)}, nil
	case "http":
		var r *guest.Response
		for range max(1, a.N) {
			var err error
			r, err = guest.HTTP(ctx, guest.Request{URL: a.URL, Method: a.Method, Headers: a.Headers, Body: []byte(a.Text)})
			if err != nil {
				return nil, err
			}
		}
		return map[string]any{"status": r.Status, "body": string(r.Body), "url": r.URL, "headers": r.Headers, "truncated": r.Truncated}, nil
	case "matrix":
		return matrix(a), nil
	default:
		return files(a)
	}
	return nil, nil
}
