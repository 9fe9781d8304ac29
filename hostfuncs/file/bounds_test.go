package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/rooted"
)

// many is a tree with n files of one line each.
func many(t *testing.T, n int) tree {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%03d", i)), []byte("match\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return tree{Fs: rooted.New(root), close: root.Close}
}

func TestAWalkThatEndsEarlySaysSo(t *testing.T) {
	tr := many(t, 20)
	out, err := tr.list(t.Context(), listArgs{walked: 10})
	if err != nil || out.Total != 10 || out.Incomplete == "" {
		t.Errorf("list: got %+v, %v", out, err)
	}
	out, err = tr.list(t.Context(), listArgs{walked: 20})
	if err != nil || out.Total != 20 || out.Incomplete != "" {
		t.Errorf("list of all: got %+v, %v", out, err)
	}
	s, err := newSearching(tr, searchArgs{Pattern: "match"}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	s.walked = 10
	found, err := s.run(t.Context(), ".")
	if err != nil || len(found.Matches) != 10 || !strings.Contains(found.Incomplete, "more entries") {
		t.Errorf("search: got %+v, %v", found, err)
	}
}

func TestASearchThatHasReadItsShareSaysSo(t *testing.T) {
	tr := many(t, 20)
	s, err := newSearching(tr, searchArgs{Pattern: "match"}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	s.maxRead = 30 // five lines
	found, err := s.run(t.Context(), ".")
	if err != nil || len(found.Matches) != 5 || !strings.Contains(found.Incomplete, "30 bytes") {
		t.Errorf("got %+v, %v", found, err)
	}
}
