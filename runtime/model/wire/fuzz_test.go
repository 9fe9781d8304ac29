package wire

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// FuzzEvents: whatever a provider sends, payloads are objects or [Done], and do not depend
// on where the network cut the stream. The seeds are the recordings of all wires.
func FuzzEvents(f *testing.F) {
	files, err := filepath.Glob("../*/testdata/wire/*.txtar")
	if err != nil || len(files) < 100 {
		f.Fatalf("%d recordings, error %v", len(files), err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range archive.Files {
			if section.Name == "stream" {
				f.Add(section.Data)
				f.Add(bytes.ReplaceAll(section.Data, []byte("\n"), []byte("\r\n")))
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		whole := payloads(t, bytes.NewReader(body))
		if diff := cmp.Diff(whole, payloads(t, iotest.OneByteReader(bytes.NewReader(body)))); diff != "" {
			t.Errorf("whole and byte by byte differ:\n%s", diff)
		}
		for _, p := range whole {
			if p != Done && (p == "" || p[0] != '{' || bytes.ContainsAny([]byte(p), "\r\n")) {
				t.Errorf("payload %q", p)
			}
		}
	})
}

func payloads(t *testing.T, r io.Reader) []string {
	t.Helper()
	var out []string
	for events := NewEvents(r); ; {
		p, err := events.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			if fault.KindOf(err) != fault.TooLarge {
				t.Fatal(err)
			}
			return out
		}
		out = append(out, string(p))
	}
}
