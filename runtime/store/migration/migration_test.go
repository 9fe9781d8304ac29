package migration_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-runtime/hermes/runtime/store/migration"
)

func TestList(t *testing.T) {
	t.Parallel()
	got, err := migration.List(fstest.MapFS{"0002_b.sql": {Data: []byte("two")}, "0001_a.sql": {Data: []byte("one")}})
	want := []migration.Step{
		{Version: 1, Name: "0001_a.sql", Text: "one", Checksum: "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"},
		{Version: 2, Name: "0002_b.sql", Text: "two", Checksum: "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("(-want +got):\n%s%v", diff, err)
	}
}

func TestMigrationNumbers(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"0002_a.sql"}, {"0001_a.sql", "0003_b.sql"}, {"a.sql"}, {"0001_a.sql", "0001_b.sql"}} {
		schema := fstest.MapFS{}
		for _, n := range names {
			schema[n] = &fstest.MapFile{}
		}
		if _, err := migration.List(schema); err == nil {
			t.Errorf("migrations %v are accepted", names)
		}
	}
}
