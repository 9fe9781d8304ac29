// Package sdk carries the libraries for tools in WebAssembly, one for each language, and
// starts new tools with them.
//
// The libraries are sources that are copied beside the tool that uses them, so that a tool
// builds without a network and stays as it is when hermes changes: the contract is the byte
// contract of package abi, not a library's version. This package writes no files; the command
// line does.
//
// # Errors
//
// Errors are *fault.Error values for the person at the command line.
package sdk

import (
	"bytes"
	"embed"
	"fmt"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

//go:embed go/*.go c/hermes.h rust/hermes.rs assemblyscript/hermes.ts
var libraries embed.FS

//go:embed templates
var templates embed.FS

// Language is what a tool is written in.
type Language string

// The languages. Native is no module: a Go function that is compiled into the program.
const (
	Go             Language = "go"
	C              Language = "c"
	AssemblyScript Language = "assemblyscript"
	Rust           Language = "rust"
	Native         Language = "native"
)

// Languages are all of them, in the order to offer them in.
func Languages() []Language { return []Language{Go, C, AssemblyScript, Rust, Native} }

// File is one file of a new tool; its name is a slash path below the tool's folder.
type File struct {
	Name    string
	Content []byte
}

// Library gives the files of a language's library, as they lie beside a tool. Native has
// none.
func Library(l Language) ([]File, error) {
	if l == Native {
		return nil, nil
	}
	entries, err := fs.ReadDir(libraries, string(l))
	if err != nil {
		return nil, unknown(l)
	}
	var out []File
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		b, err := libraries.ReadFile(path.Join(string(l), e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading the library of %s: %w", l, err)
		}
		name := e.Name()
		if l == Go { // a package is a folder
			name = "guest/" + name
		}
		out = append(out, File{Name: name, Content: b})
	}
	return out, nil
}

func unknown(l Language) error {
	var names []string
	for _, k := range Languages() {
		names = append(names, string(k))
	}
	return fault.New(fault.Invalid, "there is no language %q: choose %s", l, strings.Join(names, ", "))
}

// New gives the files of a new tool that works: a source, the library, the declaration, a test
// and a Makefile, sorted by name.
func New(l Language, name tool.Name) ([]File, error) {
	if !slices.Contains(Languages(), l) {
		return nil, unknown(l)
	}
	if !name.Valid() {
		return nil, fault.New(fault.Invalid, "%q cannot be the name of a tool: write a letter, then up to 63 letters, digits, _ or -", name)
	}
	out, err := Library(l)
	if err != nil {
		return nil, err
	}
	folders := []string{string(l)}
	if l != Native {
		folders = append(folders, "common")
	}
	for _, folder := range folders {
		files, err := render(folder, name)
		if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// render fills in the templates of a folder.
func render(folder string, name tool.Name) ([]File, error) {
	entries, err := fs.ReadDir(templates, path.Join("templates", folder))
	if err != nil {
		return nil, fmt.Errorf("reading the templates of %s: %w", folder, err)
	}
	values := struct{ Name, Package string }{string(name), packageName(name)}
	var out []File
	for _, e := range entries {
		t, err := template.ParseFS(templates, path.Join("templates", folder, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading template %s: %w", e.Name(), err)
		}
		var b bytes.Buffer
		if err := t.Execute(&b, values); err != nil {
			return nil, fmt.Errorf("filling in template %s: %w", e.Name(), err)
		}
		out = append(out, File{Name: fileName(folder, strings.TrimSuffix(e.Name(), ".tmpl"), name), Content: b.Bytes()})
	}
	return out, nil
}

// fileName gives the declaration the tool's name, and a native function that of its package.
func fileName(folder, file string, name tool.Name) string {
	switch {
	case file == "tool.hcl":
		return string(name) + ".hcl"
	case folder == string(Native) && strings.HasPrefix(file, "tool"):
		return packageName(name) + strings.TrimPrefix(file, "tool")
	}
	return file
}

// packageName makes the name of a Go package out of that of a tool.
func packageName(name tool.Name) string {
	p := strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(string(name)))
	if token.IsKeyword(p) {
		p += "tool"
	}
	return p
}
