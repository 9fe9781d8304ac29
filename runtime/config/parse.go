package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
)

// file is one parsed file of a load.
type file struct {
	path  string
	tools bool // it stands below a tools directory
	parsedFile
}

// parsedFile is what parsing gives; it depends on path and content alone.
type parsedFile struct {
	body   *hclsyntax.Body // nil if nothing could be read
	diags  hcl.Diagnostics
	hashes map[*hclsyntax.Block]string // of each top-level block's bytes and place
	// half are the names that a file with a syntax error seems to declare, as
	// "kind.name": they are not reported as unknown.
	half []string
}

func (f *file) blocks(kind string) []*hclsyntax.Block {
	if f.body == nil {
		return nil
	}
	var list []*hclsyntax.Block
	for _, b := range f.body.Blocks {
		if b.Type == kind {
			list = append(list, b)
		}
	}
	return list
}

// parseFile parses one file, or takes it from the cache.
func (ld *load) parseFile(path string, tools bool) *file {
	f := &file{path: path, tools: tools}
	in, err := ld.input(path)
	whole := hcl.Range{Filename: path, Start: hcl.InitialPos, End: hcl.InitialPos}
	switch {
	case err != nil:
		f.fault(whole, "Invalid file", fmt.Sprintf("The file cannot be read: %s.", reason(err)))
	case in.Absent: // removed since it was listed
	case len(in.Content) > maxFile:
		f.fault(whole, "Invalid file", fmt.Sprintf("The file is larger than %s, which is the most a configuration file may have.", ShowSize(maxFile)))
	default:
		f.parsedFile = ld.cache.parsed(fileKey{path, in.Digest}, func() parsedFile { return parse(path, in.Content) })
	}
	return f
}

func (f *file) fault(at hcl.Range, summary, detail string) {
	f.diags = append(f.diags, blamed(hcl.Diagnostics{diagnostic(hcl.DiagError, at, summary, detail)}, nil)...)
}

func parse(path string, src []byte) parsedFile {
	p := parsedFile{}
	if d := checkText(path, src); d != nil {
		p.diags, p.half = blamed(hcl.Diagnostics{d}, nil), declaredNames(src)
		return p
	}
	if err := funcs.CheckNesting(src, false); err != nil {
		d := diagnostic(hcl.DiagError, hcl.Range{Filename: path, Start: hcl.InitialPos, End: hcl.InitialPos}, "Invalid nesting", err.Error())
		p.diags, p.half = blamed(hcl.Diagnostics{d}, nil), declaredNames(src)
		return p
	}
	parsed, diags := hclsyntax.ParseConfig(src, path, hcl.InitialPos)
	diags = firstCauses(diags)
	for _, d := range diags {
		explainSyntax(d, src)
	}
	p.diags = blamed(diags, nil)
	if parsed != nil {
		p.body, _ = parsed.Body.(*hclsyntax.Body)
	}
	if broken(diags) {
		// What the parser salvaged may be cut anywhere. The file reports its syntax only.
		p.body, p.half = nil, declaredNames(src)
		return p
	}
	funcs.Guard(p.body)
	p.hashes = map[*hclsyntax.Block]string{}
	for _, b := range p.body.Blocks {
		p.hashes[b] = blockHash(b, src)
	}
	return p
}

// broken says whether the parser lost its way; that an attribute stands twice it reports
// and goes on.
func broken(diags hcl.Diagnostics) bool {
	return slices.ContainsFunc(diags, func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagError && d.Summary != "Attribute redefined"
	})
}

func blockHash(b *hclsyntax.Block, src []byte) string {
	r := b.Range()
	start, end := r.Start, b.CloseBraceRange.End
	return hashOf(fmt.Sprint(start.Byte, " ", start.Line), string(src[start.Byte:end.Byte]))
}

// declared finds the headers of blocks in text that does not parse.
func declaredNames(src []byte) []string {
	header := regexp.MustCompile(`(?m)^[ \t]*(tool|toolset|provider|model|agent|variable)[ \t]+"([^"\n]*)"(?:[ \t]+"([^"\n]*)")?`)
	var names []string
	for _, m := range header.FindAllSubmatch(src, -1) {
		kind, name := string(m[1]), string(m[2])
		switch {
		case kind == "variable":
			kind = "var"
		case len(m[3]) > 0:
			name += "." + string(m[3])
		}
		names = append(names, kind+"."+name)
	}
	if bytes.Contains(src, []byte("locals")) {
		for _, m := range regexp.MustCompile(`(?m)^[ \t]*([A-Za-z_][\w-]*)[ \t]*[=:]`).FindAllSubmatch(src, -1) {
			names = append(names, "local."+string(m[1]))
		}
	}
	return names
}

func lineAt(src []byte, at int) string {
	at = min(max(at, 0), len(src))
	start := bytes.LastIndexByte(src[:at], '\n') + 1
	end := bytes.IndexByte(src[at:], '\n')
	if end < 0 {
		return string(src[start:])
	}
	return string(src[start : at+end])
}

// parseDir parses the files of a directory, on all cores: those that own picks of the
// configuration directory, or all of a tools directory, for which own is nil.
func (ld *load) parseDir(dir string, own func(path string) bool) []*file {
	paths, err := ld.list(dir)
	if err != nil {
		at := ld.dirRange(dir)
		summary, detail := ld.unlisted(dir, err)
		if own, ok := errors.AsType[*funcs.Error](err); ok {
			summary, detail = own.Summary, own.Detail
		}
		ld.diags = append(ld.diags, blamed(hcl.Diagnostics{diagnostic(hcl.DiagError, at, summary, detail)}, nil)...)
	}
	if own != nil {
		paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !own(p) })
	}
	files := make([]*file, len(paths))
	parallel(len(paths), func(i int) { files[i] = ld.parseFile(filepath.Clean(paths[i]), own == nil) })
	for _, f := range files {
		ld.diags = append(ld.diags, f.diags...)
		ld.half = append(ld.half, f.half...)
	}
	return files
}

// unlisted says why a directory could not be listed; err may be of one below it.
func (ld *load) unlisted(dir string, err error) (summary, detail string) {
	at := dir
	if pe, ok := errors.AsType[*fs.PathError](err); ok && within(dir, pe.Path) {
		at = pe.Path
	}
	name := relative(ld.paths.Project, at)
	if errors.Is(err, fs.ErrNotExist) {
		return "Missing directory", fmt.Sprintf("There is no directory %q.", name)
	}
	return "Invalid directory", fmt.Sprintf("The directory %q cannot be read: %s.", name, reason(err))
}

// dirRange is where a directory is named: in the runtime block, else by itself.
func (ld *load) dirRange(dir string) hcl.Range {
	i := slices.Index(ld.runtime.toolsDirs, dir)
	if list := ld.runtime.elements["tools_dirs"]; i >= 0 && i < len(list) {
		return list[i]
	}
	return hcl.Range{Filename: dir, Start: hcl.InitialPos, End: hcl.InitialPos}
}

// halfRead says whether a file with a syntax error seems to declare the name.
func (ld *load) halfRead(name string) bool { return slices.Contains(ld.half, name) }
