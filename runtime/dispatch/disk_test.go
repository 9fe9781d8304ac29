package dispatch_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"github.com/hermes-runtime/hermes/runtime/artifact"
	"github.com/hermes-runtime/hermes/runtime/dispatch"
)

// fullDisk opens no file for writing while it is full.
type fullDisk struct {
	afero.Fs
	full *bool
}

func (d fullDisk) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	if *d.full && flag&os.O_WRONLY != 0 {
		return nil, &os.PathError{Op: "open", Path: "/secret/" + name, Err: syscall.ENOSPC}
	}
	return d.Fs.OpenFile(name, flag, perm)
}

// TestFullDisk tells the model that the rest could not be kept, and why; no row is left that
// names nothing.
func TestFullDisk(t *testing.T) {
	full := true
	files, err := artifact.On(fullDisk{afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()), &full})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.artifacts = files
	b.Dispatcher = dispatch.New(dispatch.Options{Artifacts: files, Results: b.rows})
	text := `"` + strings.Repeat("x", 200_000) + `"`
	r := request(viewOf(t, newTool(t, "x", `{}`, answers(text))), "x", "")
	o := b.Dispatch(t.Context(), r)
	got := decodeShown(t, o.Content, 100_000)
	if o.Failed || o.Result != nil || got.Handle != "" || got.Head == "" || !strings.Contains(got.Note, "could not be kept: the disk of the state directory is full") || strings.Contains(o.Content, "/secret/") {
		t.Errorf("%+v", got)
	}
	if len(b.rows.byID) != 0 {
		t.Errorf("rows %v", b.rows.byID)
	}
	full = false
	if o = b.Dispatch(t.Context(), r); string(b.content(t, o.Result)) != text {
		t.Error("once there is room nothing is kept either")
	}
}
