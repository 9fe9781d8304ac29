package rooted_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/afero"

	"github.com/hermes-runtime/hermes/runtime/rooted"
)

// inside gives a rooted folder beside a secret that nothing may reach.
func inside(t *testing.T) (files rooted.FS, dir, secret string) {
	t.Helper()
	top := t.TempDir()
	secret = filepath.Join(top, "secret")
	dir = filepath.Join(top, "root")
	if err := errors.Join(os.WriteFile(secret, []byte("s"), 0o600), os.Mkdir(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return rooted.New(root), dir, secret
}

func TestNothingLeadsOut(t *testing.T) {
	files, dir, secret := inside(t)
	if err := errors.Join(os.Symlink(secret, filepath.Join(dir, "link")), os.Symlink("..", filepath.Join(dir, "up"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../secret", secret, "link", "up/secret", "a/../../secret"} {
		if _, err := files.Open(name); err == nil {
			t.Errorf("Open(%q) reached outside", name)
		}
		if f, err := files.Create(name); err == nil {
			_ = f.Close()
			t.Errorf("Create(%q) reached outside", name)
		}
		if name != "link" { // the link itself is inside and may be removed
			if err := files.Remove(name); err == nil {
				t.Errorf("Remove(%q) reached outside", name)
			}
		}
	}
	if got, err := os.ReadFile(secret); err != nil || string(got) != "s" {
		t.Errorf("the secret is %q, %v", got, err)
	}
}

func TestFilesInside(t *testing.T) {
	files, _, _ := inside(t)
	err := errors.Join(
		files.MkdirAll("a/b", 0o700), files.Mkdir("c", 0o700),
		afero.WriteFile(files, "a/b/x", []byte("one"), 0o600), files.Rename("a/b/x", "c/y"), files.Chmod("c/y", 0o400),
	)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := afero.ReadFile(files, "c/y"); err != nil || string(got) != "one" {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	info, lstat, err := files.LstatIfPossible("c/y")
	if err != nil || !lstat || info.Mode().Perm() != 0o400 {
		t.Errorf("LstatIfPossible = %v, %v, %v", info, lstat, err)
	}
	if err := files.RemoveAll("c"); err != nil {
		t.Fatal(err)
	}
	if f, err := files.Open("c/y"); !errors.Is(err, fs.ErrNotExist) || f != nil {
		t.Errorf("Open of a removed file = %v, %v: want a nil interface", f, err)
	}
}
