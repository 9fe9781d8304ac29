package wire

import (
	"encoding/json"
	"testing"
)

func TestBody(t *testing.T) {
	var b Body
	if got := string(b.Bytes()); got != "{}" {
		t.Errorf("empty: %s", got)
	}
	b.Set("z", json.RawMessage(`{"kept":  "as it is"}`))
	b.SetList("tools", []json.RawMessage{json.RawMessage(`1`), json.RawMessage(`"<&>"`)})
	b.SetList("none", nil)
	if err := b.SetValue("a", "<&>"); err != nil {
		t.Fatal(err)
	}
	const want = `{"a":"<&>","none":[],"tools":[1,"<&>"],"z":{"kept":  "as it is"}}`
	got := b.Bytes()
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !b.Has("a") || b.Has("b") || string(b.Get("a")) != `"<&>"` || b.Get("b") != nil {
		t.Error("fields are not what was set")
	}
	if b.SetValue("f", func() {}) == nil {
		t.Error("a function is encoded")
	}
}

func TestLower(t *testing.T) {
	for _, tt := range [][3]int{{0, 0, 0}, {5, 0, 5}, {0, 5, 5}, {5, 3, 3}, {3, 5, 3}, {-1, 5, 5}} {
		if got := Lower(tt[0], tt[1]); got != tt[2] {
			t.Errorf("Lower(%d, %d) = %d", tt[0], tt[1], got)
		}
	}
}
