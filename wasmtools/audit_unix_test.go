//go:build unix

package wasmtools

import (
	"path/filepath"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestAuditFiles: each operation that a grant of files refuses is one record; what fails
// for another reason is none.
func TestAuditFiles(t *testing.T) {
	var audit records
	r := open(t, Options{Log: audit.logger()})
	for _, mode := range []Mode{ReadOnly, ReadWrite} {
		tl := bind(t, r, built.reactor, Spec{Optional: true, Files: []FilesGrant{{Path: filepath.Join(jail(t), "jail"), Mount: "/data", Mode: mode}}})
		for _, c := range []struct {
			args   string
			reason string // "": no record
			mode   Mode   // "": of both
		}{
			{`"do":"write","path":"/data/new.txt"`, `opening "new.txt" below /data, which is granted for reading`, ReadOnly},
			{`"do":"mkdir","path":"/data/new"`, `making "new" below /data, which is granted for reading`, ReadOnly},
			{`"do":"rename","path":"/data/file.txt","to":"/data/other.txt"`, `moving "file.txt" below /data, which is granted for reading`, ReadOnly},
			{`"do":"touch","path":"/data/dir"`, `setting the times of "dir" below /data, which is granted for reading`, ReadOnly},
			{`"do":"read","path":"/data/relative"`, `opening "relative" below /data, which leads out of it`, ""},
			{`"do":"read","path":"/data/directory/secret.txt"`, `opening "directory/secret.txt" below /data, which leads out of it`, ""},
			{`"do":"stat","path":"/data/absolute"`, `looking at "absolute" below /data, which leads out of it`, ""},
			{`"do":"write","path":"/data/directory/new.txt"`, `opening "directory/new.txt" below /data, which leads out of it`, ReadWrite},
			{`"do":"read","path":"/data/pipe"`, `opening "pipe" below /data, which is neither a regular file nor a directory`, ""},
			{`"do":"symlink","path":"/data/mine","to":"../secret.txt"`, `making a link at "mine" below /data, where links are refused`, ReadWrite},
			{`"do":"readlink","path":"/data/relative"`, `reading the link "relative" below /data, where links are refused`, ""},
			{`"do":"raw","path":"../secret.txt"`, `path_open of "../secret.txt", which leads out of its directory`, ""},
			{`"do":"raw","path":"dir/../../secret.txt"`, `path_open of "dir/../../secret.txt", which leads out of its directory`, ""},
			{`"do":"raw","path":"/etc/hostname"`, `path_open of "/etc/hostname", which leads out of its directory`, ""},
			{`"do":"read","path":"/data/file.txt"`, "", ""},
			{`"do":"read","path":"/data/none.txt"`, "", ""},
			{`"do":"raw","path":"dir/../file.txt"`, "", ReadWrite},
			{`"do":"write","path":"/data/new.txt"`, "", ReadWrite},
			{`"do":"mkdir","path":"/data/dir"`, "", ReadWrite},
		} {
			if c.mode != "" && c.mode != mode {
				continue
			}
			_, _ = tl.Call(t.Context(), &tool.Call{
				ID: "call-1", Tool: "probe", Arguments: []byte("{" + c.args + "}"), Agent: "a", Run: "r", Generation: 3, Principal: principal.Principal{Name: "ann"},
			})
			if c.reason != "" {
				audit.oneRecord(t, "files", c.reason)
				continue
			}
			if extra := audit.take(); len(extra) != 0 {
				t.Errorf("%s, %s: records %v", mode, c.args, extra)
			}
		}
	}
}
