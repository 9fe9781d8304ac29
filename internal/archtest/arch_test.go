package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/hermes-runtime/hermes"

type listed struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

// list gives the packages of the module, without tests, for one target.
func list(t *testing.T, env ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Imports,GoFiles", "./...")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatalf("decoding go list: %v", err)
		}
		if len(p.GoFiles) > 0 {
			pkgs = append(pkgs, p)
		}
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func short(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

func targets(t *testing.T) map[string][]listed {
	return map[string][]listed{
		"host":   list(t),
		"wasip1": list(t, "GOOS=wasip1", "GOARCH=wasm"),
	}
}

func TestImportsAreOfLowerRank(t *testing.T) {
	for target, pkgs := range targets(t) {
		for _, p := range pkgs {
			name, _ := short(p.ImportPath)
			rank, known := ranks[name]
			for _, imp := range p.Imports {
				dep, ours := short(imp)
				if !ours || support[name] {
					continue
				}
				if support[dep] {
					t.Errorf("%s (%s) imports %s, which is test support", name, target, dep)
				}
				if depRank, ok := ranks[dep]; known && ok && depRank >= rank {
					t.Errorf("%s has rank %d and imports %s of rank %d: imports go strictly down", name, rank, dep, depRank)
				}
			}
		}
	}
}

func TestEveryPackageHasARank(t *testing.T) {
	seen := map[string]bool{}
	for _, pkgs := range targets(t) {
		for _, p := range pkgs {
			name, _ := short(p.ImportPath)
			seen[name] = true
			if _, ok := ranks[name]; !ok && !support[name] {
				t.Errorf("%s has no rank: decide where it stands and add it to ranks", name)
			}
		}
	}
	for name := range ranks {
		if !seen[name] {
			t.Errorf("%s has a rank but does not exist: remove it from ranks", name)
		}
	}
}

func TestHeavyDependenciesLiveInOnePlace(t *testing.T) {
	for _, p := range list(t) {
		name, _ := short(p.ImportPath)
		if support[name] {
			continue
		}
		for _, imp := range p.Imports {
			for dep, allowed := range places {
				if imp != dep && !strings.HasPrefix(imp, dep+"/") {
					continue
				}
				if slices.Contains(allowed, name) || imp == "github.com/hashicorp/hcl/v2" && slices.Contains(diagnostics, name) {
					continue
				}
				t.Errorf("%s imports %s, which belongs to %s alone", name, imp, strings.Join(allowed, ", "))
			}
		}
	}
}

func TestNoCgo(t *testing.T) {
	for _, p := range list(t) {
		if slices.Contains(p.Imports, "C") {
			t.Errorf("%s uses cgo", p.ImportPath)
		}
	}
}

// sources calls fn for every Go file of ours, tests included.
func sources(t *testing.T, fn func(path string, file *ast.File, fset *token.FileSet)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); path != top && (strings.HasPrefix(n, ".") || n == "testdata" || n == "node_modules" || n == "state" || n == "workspace") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		fn(filepath.ToSlash(rel), file, fset)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOnePackageDocEach(t *testing.T) {
	docs := map[string][]string{}
	sources(t, func(path string, file *ast.File, _ *token.FileSet) {
		dir := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		if _, ok := docs[dir]; !ok {
			docs[dir] = nil
		}
		if file.Doc == nil {
			return
		}
		docs[dir] = append(docs[dir], path)
		opening := "Package " + file.Name.Name + " "
		if file.Name.Name == "main" {
			opening = "Command "
		}
		if !strings.HasPrefix(file.Doc.Text(), opening) {
			t.Errorf("%s: the package comment does not begin with %q", path, opening)
		}
	})
	for dir, files := range docs {
		if len(files) != 1 {
			t.Errorf("%s has %d package comments (%s): one file has it", dir, len(files), strings.Join(files, ", "))
		}
	}
}

func TestNoInit(t *testing.T) {
	sources(t, func(path string, file *ast.File, fset *token.FileSet) {
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init() registers behind the reader's back; pass a list instead", fset.Position(fn.Pos()))
			}
		}
	})
}

// maxFile and maxFunc are the sizes above which the design is telling us something.
const (
	maxFile = 600
	maxFunc = 80
)

func TestSizes(t *testing.T) {
	sources(t, func(path string, file *ast.File, fset *token.FileSet) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		if lines := fset.Position(file.End()).Line; lines > maxFile {
			t.Errorf("%s has %d lines, over %d", path, lines, maxFile)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line; lines > maxFunc {
				t.Errorf("%s: %s has %d lines, over %d", fset.Position(fn.Pos()), fn.Name.Name, lines, maxFunc)
			}
		}
	})
}

func TestExportedNamesAreDocumented(t *testing.T) {
	sources(t, func(path string, file *ast.File, fset *token.FileSet) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() && fn.Doc == nil && exportedReceiver(fn) {
				t.Errorf("%s: %s has no comment", fset.Position(fn.Pos()), fn.Name.Name)
			}
		}
	})
}

func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}
