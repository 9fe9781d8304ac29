package module

import (
	"bytes"
	"strings"
)

// Kind says what a file is.
type Kind string

// The kinds.
const (
	Core      Kind = "core"      // a core module, which hermes runs
	Component Kind = "component" // a WASI 0.2 component, which it does not
	NotWASM   Kind = "not wasm"
	Unknown   Kind = "unknown" // WebAssembly of another version, or cut off
)

const (
	magic  = "\x00asm"
	header = 8 // magic and version

	buildCore = "Build for wasip1: Go with GOOS=wasip1 GOARCH=wasm, Rust with --target wasm32-wasip1, C with --target=wasm32-wasi."
)

// Identify tells the kind of b. For every kind but [Core], why is a text that follows
// the name of the file: what the file is, and what to do instead.
func Identify(b []byte) (k Kind, why string) {
	switch {
	case !bytes.HasPrefix(b, []byte(magic)):
		return NotWASM, foreign(b)
	case len(b) < header:
		return Unknown, "is a WebAssembly file cut off inside its header. Build or copy it again."
	case b[6] == 1 && b[7] == 0:
		return Component, "is a WebAssembly component (WASI 0.2 or later). hermes runs core modules. " + buildCore
	case b[4] == 1 && b[5] == 0 && b[6] == 0 && b[7] == 0:
		return Core, ""
	}
	return Unknown, "is WebAssembly of a version other than 1. " + buildCore
}

// foreign explains a file that is not WebAssembly by its first bytes.
func foreign(b []byte) string {
	if len(b) == 0 {
		return "is empty. The build that should have written it did not finish."
	}
	for _, f := range foreignFiles() {
		if len(b) > f.at && bytes.HasPrefix(b[f.at:], []byte(f.prefix)) {
			return f.why
		}
	}
	if why := foreignText(b); why != "" {
		return why
	}
	return "is not a WebAssembly module: it does not start with the bytes 00 61 73 6d. " + buildCore
}

type foreignFile struct {
	at          int
	prefix, why string
}

func foreignFiles() []foreignFile {
	const (
		archive = "Extract the .wasm file from it."
		native  = "It was compiled for this machine instead of WebAssembly. " + buildCore
	)
	return []foreignFile{
		{0, "\x1f\x8b", "is gzip-compressed, as the layers of OCI images are. " + archive},
		{0, "\x28\xb5\x2f\xfd", "is zstd-compressed. " + archive},
		{0, "BZh", "is bzip2-compressed. " + archive},
		{0, "\xfd7zXZ", "is xz-compressed. " + archive},
		{0, "PK\x03\x04", "is a zip archive. " + archive},
		{257, "ustar", "is a tar archive. " + archive},
		{0, "!<arch>", "is a static library. Link it into a module."},
		{0, "\x7fELF", "is a Linux executable. " + native},
		{0, "MZ", "is a Windows executable. " + native},
		{0, "\xcf\xfa\xed\xfe", "is a macOS executable. " + native},
		{0, "\xca\xfe\xba\xbe", "is a macOS universal binary or a Java class. " + native},
		{0, "BC\xc0\xde", "is LLVM bitcode. Link it into a module."},
		{0, "version https://git-lfs.github.com/spec/", "is a Git LFS pointer, not the file it points to. Run `git lfs pull`."},
		{0, "#!", "is a script. " + buildCore},
	}
}

// foreignText explains text: WebAssembly's own, or a page or manifest in its place.
func foreignText(b []byte) string {
	s := strings.TrimSpace(strings.TrimPrefix(string(b[:min(len(b), 64<<10)]), "\ufeff"))
	for strings.HasPrefix(s, ";;") {
		_, s, _ = strings.Cut(s, "\n")
		s = strings.TrimSpace(s)
	}
	low := strings.ToLower(s[:min(len(s), 16)])
	switch {
	case strings.HasPrefix(s, "(module"), strings.HasPrefix(s, "(component"), strings.HasPrefix(s, "(;"):
		return "is WebAssembly text. Translate it with `wat2wasm`."
	case strings.HasPrefix(low, "<!doctype"), strings.HasPrefix(low, "<html"), strings.HasPrefix(low, "<?xml"):
		return "is a web page, probably the error page of a download. Download it again."
	case strings.HasPrefix(s, "{"):
		return "is JSON, perhaps a manifest or the answer of a registry. Fetch the module that it describes."
	}
	return ""
}
