package reload

import (
	"errors"
	"fmt"
	"testing"
)

// What is told is taken once; what moved is remembered beside it until directories are
// watched again, whoever took it.
func TestNews(t *testing.T) {
	var n news
	diff(t, n.quiet(), true)
	n.add("a")
	n.add("b")
	diff(t, []any{n.quiet(), n.unwatched()}, []any{false, false})
	got := n.take()
	diff(t, []any{got.all, got.paths, n.quiet()}, []any{false, map[string]bool{"a": true, "b": true}, true})

	n.add()
	diff(t, n.take().all, true)
	diff(t, []any{n.quiet(), n.unwatched(), n.unwatched(), n.quiet()}, []any{false, true, false, true})

	n.end(nil)
	diff(t, n.quiet(), true)
	n.end(errors.New("given up"))
	diff(t, []any{n.quiet(), n.take().all}, []any{false, true})
}

// Events that came while a reload ran are as old as its end: they had no chance before.
func TestNewsAreNotOlderThanTheLastReload(t *testing.T) {
	var n news
	n.add("a")
	early := n.told.first
	n.end(nil)
	if first := n.take().first; !first.After(early) {
		t.Errorf("the first event is of %v, as it came", first)
	}
}

// Of very many paths it is not told which.
func TestNewsOfManyPathsIsOfAll(t *testing.T) {
	var n news
	for i := range maxNews {
		n.add(fmt.Sprint(i))
	}
	diff(t, n.told.all, false)
	n.add("one more")
	diff(t, n.take().all, true)
}

func TestToldWithMore(t *testing.T) {
	got := told{paths: map[string]bool{"a": true}}.with(told{paths: map[string]bool{"b": true}}).with(told{}).with(told{all: true})
	diff(t, []any{got.all, got.paths}, []any{true, map[string]bool{"a": true, "b": true}})
	diff(t, told{}.with(told{paths: map[string]bool{"b": true}}).paths, map[string]bool{"b": true})
}
