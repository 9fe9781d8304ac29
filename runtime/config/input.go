package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hermes-runtime/hermes/runtime/config/funcs"
)

// maxFile bounds the HCL files and those read by functions. Modules may be larger; what
// compiles them bounds them.
const maxFile = 4 << 20

// reading is one file of a load, read once.
type reading struct {
	once sync.Once
	in   Input
	err  error
}

// input reads a file, once in a load. An absent one is an Input too.
func (ld *load) input(path string) (Input, error) {
	ld.mu.Lock()
	r := ld.inputs[path]
	if r == nil {
		r = &reading{}
		ld.inputs[path] = r
	}
	ld.mu.Unlock()
	r.once.Do(func() { ld.fill(r, path) })
	return r.in, r.err
}

func (ld *load) fill(r *reading, path string) {
	content, err := ld.src.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.in = Input{Absent: true}
	case err != nil:
		r.err = err
	default:
		r.in = Input{Content: content, Digest: ld.digest(path, content)}
	}
}

// digest takes the previous digest of equal content: comparing is faster than hashing.
func (ld *load) digest(path string, content []byte) string {
	if ld.o.Previous != nil {
		if was, ok := ld.o.Previous.Inputs[path]; ok && !was.Absent && bytes.Equal(was.Content, content) {
			return was.Digest
		}
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// inputKey says what was read, for the cache.
func inputKey(in Input, err error) string {
	switch {
	case err != nil:
		return "error " + reason(err)
	case in.Absent:
		return "absent"
	}
	return in.Digest
}

// reason is an error of the file system without the path, which the caller names.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// allowed says whether a path, with its links followed, lies in the project or in a
// place that the runtime block names.
func (ld *load) allowed(path string) error {
	ld.mu.Lock()
	defer ld.mu.Unlock()
	if err, ok := ld.resolved[path]; ok {
		return err
	}
	err := ld.outside(path)
	ld.resolved[path] = err
	return err
}

func (ld *load) outside(path string) error {
	real, err := ld.src.Resolve(path)
	if err != nil {
		return &funcs.Error{Summary: "Invalid path", Detail: fmt.Sprintf("%s cannot be followed: %s.", relative(ld.paths.Project, path), reason(err))}
	}
	for _, root := range append([]string{ld.paths.Project}, ld.allow...) {
		target, err := ld.src.Resolve(root)
		if err == nil && (within(target, real)) {
			return nil
		}
	}
	return &funcs.Error{
		Summary: "Invalid path",
		Detail: fmt.Sprintf("%q leads outside the project %s. Move it inside, or allow the place: runtime { allow_paths = [%q] }.",
			path, ld.paths.Project, filepath.Dir(real)),
	}
}

func within(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(os.PathSeparator))
}
