package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/hermes-runtime/hermes/runtime/check"
)

type checkList []check.Spec

// checkBodies are the kinds of check and what each needs.
func checkBodies() map[check.Kind]*body[check.Spec] {
	vars := must("vars", stringsKind(), "The environment variables that must be set and not empty.", func(s *check.Spec) *[]string { return &s.Vars })
	path := must("path", stringKind(), "The file or directory that must exist, relative to the file this stands in.", func(s *check.Spec) *string { return &s.Path })
	run := must("run", stringsKind(), "The command and its arguments; exit code 0 passes. It runs in the project.", func(s *check.Spec) *[]string { return &s.Run })
	link := must("url", stringKind(), "The address that must answer.", func(s *check.Spec) *string { return &s.URL })
	status := opt("status", intKind(100, 599), 200, "The status that passes.", func(s *check.Spec) *int { return &s.Status })
	address := must("address", stringKind(), "The host:port that must accept a connection.", func(s *check.Spec) *string { return &s.Address })
	return map[check.Kind]*body[check.Spec]{
		check.Env:     checkBody(check.Env, "Environment variables are set.", vars),
		check.File:    checkBody(check.File, "A file exists.", path),
		check.Command: checkBody(check.Command, "A command succeeds.", run),
		check.HTTP:    checkBody(check.HTTP, "An HTTP address answers.", link, status),
		check.TCP:     checkBody(check.TCP, "A TCP address accepts.", address),
	}
}

func checkBody(k check.Kind, doc string, own ...*field[check.Spec]) *body[check.Spec] {
	return newBody(fmt.Sprintf("check %q", k), doc, append(own,
		opt("ttl", durationKind(false), 30*time.Second, "How long an answer is remembered.", func(s *check.Spec) *time.Duration { return &s.TTL }),
		opt("timeout", durationKind(false), 2*time.Second, "How long a probe may take.", func(s *check.Spec) *time.Duration { return &s.Timeout }),
		opt("grace", durationKind(true), 60*time.Second, "A failure this soon after a success still passes.", func(s *check.Spec) *time.Duration { return &s.Grace }),
	)...)
}

func checkKinds() []string { return []string{"env", "file", "command", "http", "tcp"} }

// checkField is the nested check blocks of a tool or toolset.
func checkField[T any](at func(*T) *checkList) *field[T] {
	bodies := checkBodies()
	doc := &blockDoc{name: `check "env" | "file" | "command" | "http" | "tcp"`, doc: "What must hold for the tools to be offered; all checks must pass."}
	for _, k := range checkKinds() {
		nested := bodies[check.Kind(k)].describe()
		doc.fields = append(doc.fields, fieldDoc{name: nested.name, doc: nested.doc, nested: nested})
	}
	return many("check", doc, func(f *frame, b *hclsyntax.Block, out *T) {
		if !f.labels(b, `check "KIND"`, 1) {
			return
		}
		kind := b.Labels[0]
		spec := bodies[check.Kind(kind)]
		if spec == nil {
			f.errorf(b.LabelRanges[0], fmt.Sprintf("Unknown check %q", kind), "There is no check of kind %q.%s There are %s.", kind, suggest(kind, checkKinds()), listed(checkKinds()))
			return
		}
		s := check.Spec{Kind: check.Kind(kind), Pos: string(f.pos(b.DefRange()))}
		before := len(f.diags)
		decode(f, spec, b, &s)
		if len(f.diags) == before {
			f.finishCheck(b, &s)
		}
		*at(out) = append(*at(out), s)
	})
}

// finishCheck makes paths absolute and looks at what the conversions cannot.
func (f *frame) finishCheck(b *hclsyntax.Block, s *check.Spec) {
	switch s.Kind {
	case check.Env:
		if len(s.Vars) == 0 && !f.poisoned {
			f.errorf(attrRange(b, "vars"), "Invalid vars", "Name at least one environment variable.")
		}
		f.checkEnvNames(b, "vars", s.Vars)
	case check.File:
		s.Path = f.abs(s.Path)
	case check.Command:
		s.Dir = f.ld.paths.Project
		if len(s.Run) == 0 && !f.poisoned {
			f.errorf(attrRange(b, "run"), "Invalid run", "Name the program to run, and its arguments.")
		}
	case check.HTTP:
		if u, err := url.Parse(s.URL); s.URL != "" && (err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
			f.errorf(attrRange(b, "url"), "Invalid url", "The address must start with http:// or https:// and name a host.")
		}
	case check.TCP:
		if _, _, err := net.SplitHostPort(s.Address); s.Address != "" && err != nil {
			f.errorf(attrRange(b, "address"), "Invalid address", `Write host and port, for example "db.internal:5432".`)
		}
	}
}

// checkEnvNames reports what cannot be the name of an environment variable.
func (f *frame) checkEnvNames(b *hclsyntax.Block, attr string, names []string) {
	for i, n := range names {
		if n == "" || strings.ContainsAny(n, "= \t\n$\x00") {
			f.errorf(elementRange(b, attr, i), "Invalid "+attr, "%q is not the name of an environment variable, for example \"API_KEY\".", n)
		}
	}
}

// abs makes a path of this file absolute.
func (f *frame) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(f.file.path), path)
}

// attrRange is the value of an attribute, or the block's header.
func attrRange(b *hclsyntax.Block, name string) hcl.Range {
	if a := b.Body.Attributes[name]; a != nil {
		return a.Expr.Range()
	}
	return b.DefRange()
}

// elementRange is the i-th element of a list attribute, as near as it is written.
func elementRange(b *hclsyntax.Block, name string, i int) hcl.Range {
	a := b.Body.Attributes[name]
	if a == nil {
		return b.DefRange()
	}
	if t, ok := a.Expr.(*hclsyntax.TupleConsExpr); ok && i < len(t.Exprs) {
		return t.Exprs[i].Range()
	}
	return a.Expr.Range()
}
