package storetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-runtime/hermes/runtime/fault"
	"github.com/hermes-runtime/hermes/runtime/kv"
)

const roomy = 1 << 20 // a quota that does not matter

func space(owner, namespace string) kv.Space { return kv.Space{Owner: owner, Namespace: namespace} }

func (f *fixture) put(s kv.Space, key, value string) {
	f.t.Helper()
	f.must("PutValue "+key, f.store.PutValue(f.ctx, s, key, []byte(value), roomy))
}

// wantValue compares a value; nil means that there is none.
func (f *fixture) wantValue(s kv.Space, key string, want []byte) {
	f.t.Helper()
	got, found, err := f.store.Value(f.ctx, s, key)
	f.must("Value "+key, err)
	if found != (want != nil) || !bytes.Equal(got, want) {
		f.t.Errorf("value of %q in %v: got %.40q (found: %v), want %.40q", key, s, got, found, want)
	}
}

func testValues(_ *testing.T, f *fixture) {
	s := space(ann, "n")
	f.wantValue(s, "k", nil)
	for _, value := range []string{"one", "", "\x00\xff raw \n", strings.Repeat("x", 100_000), "last"} {
		f.put(s, "k", value)
		f.wantValue(s, "k", []byte(value))
	}
	found, err := f.store.DeleteValue(f.ctx, s, "k")
	f.must("DeleteValue", err)
	f.same("found", found, true)
	f.wantValue(s, "k", nil)
	found, err = f.store.DeleteValue(f.ctx, s, "k")
	f.must("DeleteValue again", err)
	f.same("found again", found, false)
}

func testValueLists(_ *testing.T, f *fixture) {
	s := space(ann, "n")
	keys := []string{"a", "a/1", "a/10", "a/2", "b", "ä", "\U0010ffff"}
	for i, key := range keys {
		f.put(s, key, strings.Repeat("x", i))
	}
	f.put(space(ann, "other"), "a/3", "")
	for _, c := range []struct {
		page kv.Page
		want []string
		more bool
	}{
		{kv.Page{}, keys, false},
		{kv.Page{Limit: -1}, keys, false},
		{kv.Page{Limit: 3}, keys[:3], true},
		{kv.Page{Limit: 7}, keys, false},
		{kv.Page{Prefix: "a/"}, keys[1:4], false},
		{kv.Page{Prefix: "a/", Limit: 3}, keys[1:4], false},
		{kv.Page{Prefix: "a/", Limit: 2}, keys[1:3], true},
		{kv.Page{Prefix: "a/", After: "a/10"}, keys[3:4], false},
		{kv.Page{Prefix: "b", After: "a"}, keys[4:5], false},
		{kv.Page{After: "b", Limit: 1}, keys[5:6], true},
		{kv.Page{After: "\U0010ffff"}, nil, false},
		{kv.Page{Prefix: "c"}, nil, false},
	} {
		entries, more, err := f.store.Values(f.ctx, s, c.page)
		f.must("Values", err)
		var got []string
		for _, e := range entries {
			got = append(got, e.Key)
		}
		f.same(fmt.Sprintf("keys of %+v", c.page), got, c.want)
		f.same(fmt.Sprintf("more of %+v", c.page), more, c.more)
	}
	entries, _, err := f.store.Values(f.ctx, s, kv.Page{Prefix: "a/1"})
	f.must("Values", err)
	f.same("sizes", entries, []kv.Entry{{Key: "a/1", Size: 1}, {Key: "a/10", Size: 2}})
}

// testQuota counts keys and values, and lets a full space shrink.
func testQuota(_ *testing.T, f *fixture) {
	s := space(ann, "n")
	put := func(key, value string, quota int64) error {
		return f.store.PutValue(f.ctx, s, key, []byte(value), quota)
	}
	f.must("just fits", put("key", "1234567", 10))
	f.wantKind("one byte more", put("key", "12345678", 10), fault.TooLarge)
	f.wantKind("another key", put("x", "", 10), fault.TooLarge)
	f.wantValue(s, "key", []byte("1234567"))
	f.wantValue(s, "x", nil)
	f.must("as long as before", put("key", "7654321", 10))
	f.must("shorter", put("key", "1234", 10))
	f.must("what was freed", put("x", "12", 10))
	f.wantKind("full again", put("y", "", 10), fault.TooLarge)
	f.must("shorter, under a quota that is too low by now", put("key", "123", 5))
	f.wantKind("longer under it", put("x", "123", 5), fault.TooLarge)
	_, err := f.store.DeleteValue(f.ctx, s, "key")
	f.must("DeleteValue", err)
	f.must("what deleting freed", put("y", "123456", 10))
	f.wantKind("and no more", put("z", "", 10), fault.TooLarge)
	f.must("another space is empty", f.store.PutValue(f.ctx, space(bob, "n"), "k", make([]byte, 9), 10))
}

func testSpaces(_ *testing.T, f *fixture) {
	f.put(space(ann, "n"), "k", "ann's")
	f.put(space(bob, "n"), "k", "bob's")
	f.put(space(ann, "m"), "k", "ann's in m")
	f.wantValue(space(ann, "n"), "k", []byte("ann's"))
	f.wantValue(space(bob, "n"), "k", []byte("bob's"))
	f.wantValue(space(ann, "m"), "k", []byte("ann's in m"))
	f.wantValue(space(bob, "m"), "k", nil)
	found, err := f.store.DeleteValue(f.ctx, space(bob, "m"), "k")
	f.must("DeleteValue", err)
	f.same("found in bob's m", found, false)
	_, err = f.store.DeleteValue(f.ctx, space(bob, "n"), "k")
	f.must("DeleteValue", err)
	f.wantValue(space(ann, "n"), "k", []byte("ann's"))
	entries, _, err := f.store.Values(f.ctx, space(bob, "n"), kv.Page{})
	f.must("Values", err)
	f.same("bob's keys", len(entries), 0)
}

// testQuotaRace: writers at the same moment together keep to the quota, and leave a count
// that is right.
func testQuotaRace(_ *testing.T, f *fixture) {
	s := space(ann, "n")
	const writers, each, fit = 4, 20, 30
	var mu sync.Mutex
	stored := 0
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				err := f.store.PutValue(f.ctx, s, fmt.Sprintf("%d-%03d", w, i), []byte("12345"), fit*10)
				if err == nil {
					mu.Lock()
					stored++
					mu.Unlock()
				} else if fault.KindOf(err) != fault.TooLarge {
					f.t.Errorf("PutValue: %v", err)
				}
			}
		})
	}
	wg.Wait()
	f.same("stored", stored, fit)
	entries, _, err := f.store.Values(f.ctx, s, kv.Page{})
	f.must("Values", err)
	f.same("kept", len(entries), fit)
	for _, e := range entries {
		_, err := f.store.DeleteValue(f.ctx, s, e.Key)
		f.must("DeleteValue", err)
	}
	f.must("the count is back at nothing", f.store.PutValue(f.ctx, s, "k", make([]byte, fit*10-1), fit*10))
}

func testBadKeys(_ *testing.T, f *fixture) {
	s := space(ann, "n")
	f.put(s, strings.Repeat("k", kv.MaxKey), "longest")
	for name, key := range map[string]string{"empty": "", "too long": strings.Repeat("k", kv.MaxKey+1), "NUL": "a\x00b", "no text": "a\xff"} {
		_, _, err := f.store.Value(f.ctx, s, key)
		f.wantKind(name+" key read", err, fault.Invalid)
		f.wantKind(name+" key written", f.store.PutValue(f.ctx, s, key, nil, roomy), fault.Invalid)
		_, err = f.store.DeleteValue(f.ctx, s, key)
		f.wantKind(name+" key deleted", err, fault.Invalid)
	}
	for name, s := range map[string]kv.Space{"nobody's": {Namespace: "n"}, "unnamed": {Owner: ann}, "oddly named": space(ann, "a/b")} {
		f.wantKind(name+" space written", f.store.PutValue(f.ctx, s, "k", nil, roomy), fault.Invalid)
		_, _, err := f.store.Values(f.ctx, s, kv.Page{})
		f.wantKind(name+" space listed", err, fault.Invalid)
	}
	f.wantKind("value too large", f.store.PutValue(f.ctx, s, "k", make([]byte, kv.MaxValue+1), 1<<40), fault.TooLarge)
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	f.wantKind("PutValue", f.store.PutValue(ctx, s, "k", nil, roomy), fault.Canceled)
	f.wantValue(s, "k", nil)
}
