package state_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/chat"
	"github.com/hermes-runtime/hermes/runtime/principal"
	"github.com/hermes-runtime/hermes/runtime/session"
	"github.com/hermes-runtime/hermes/runtime/store/sqlite"
	"github.com/hermes-runtime/hermes/runtime/tool"
)

// TestSearchOfARealStore asks a database that holds two people's conversations, and a
// hidden one.
func TestSearchOfARealStore(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "hermes.db"), sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, s := range []session.Session{
		{ID: "anna", Owner: "anna", Agent: "a"}, {ID: "ben", Owner: "ben", Agent: "a"}, {ID: "hidden", Owner: "anna", Agent: "a", Hidden: true},
	} {
		if err := db.CreateSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		message := session.Message{Run: s.ID, Step: "1", Message: chat.Message{Role: chat.User, Content: "the harbour of " + s.ID}}
		if _, err := db.Append(t.Context(), s.ID, message); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []principal.Principal{{Name: "anna", Role: principal.User}, {Name: "anna", Role: principal.Admin}} {
		got, err := call(t, db, tool.Call{Arguments: json.RawMessage(`{"query":"harbour"}`), Principal: p})
		if err != nil || !strings.Contains(got, "«harbour» of anna") || strings.Contains(got, "ben") || strings.Contains(got, "hidden") {
			t.Errorf("%s: got %s, %v", p.Role, got, err)
		}
	}
}
