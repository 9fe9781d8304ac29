package reload

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/snapshot"
)

// tools are offered tools with their descriptions.
type tools = map[string]string

// goesLive waits until exactly these tools are offered, and the fence.
func (p *project) goesLive(what string, want tools) {
	p.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !maps.Equal(unfenced(p.offered()), want) {
		select {
		case <-tick.C:
		case <-deadline:
			diff(p.t, unfenced(p.offered()), want)
			p.t.Fatalf("%s did not go live\nstale: %v\n%s", what, staleOf(p.r.Status().Stale), p.log)
		}
	}
}

// fenceFile stands where the tools directories of tests do not matter.
const fenceFile = "agents/fence.hcl"

func unfenced(offered tools) tools {
	out := maps.Clone(offered)
	delete(out, "fence")
	return out
}

// fence makes a change and waits until it is live: whatever was to come of earlier
// events has come by then. It gives what was offered in each generation since the last
// fence, the fence left out.
func (p *project) fence() []tools {
	p.t.Helper()
	note := fmt.Sprintf("Fence %d.", time.Now().UnixNano())
	p.write(fenceFile, native("fence", note))
	var out []tools
	for {
		now := offered(p.t, p.next())
		if rest := unfenced(now); len(out) == 0 || !maps.Equal(out[len(out)-1], rest) {
			out = append(out, rest)
		}
		if now["fence"] == note {
			return out
		}
	}
}

// made gives what was offered in each generation since it was asked last, without
// repetitions.
func (p *project) made() []tools {
	p.t.Helper()
	var out []tools
	for {
		select {
		case s := <-p.swaps:
			now := unfenced(offered(p.t, s))
			if len(out) == 0 || !maps.Equal(out[len(out)-1], now) {
				out = append(out, now)
			}
		default:
			return out
		}
	}
}

// only fails if one of the generations offered something else than one of these.
func only(t testing.TB, made []tools, allowed ...tools) {
	t.Helper()
	for _, got := range made {
		ok := false
		for _, want := range allowed {
			ok = ok || maps.Equal(got, want)
		}
		if !ok {
			t.Errorf("a generation offered %v, which nobody wrote; allowed are %v", got, allowed)
		}
	}
}

// program runs a program in a directory, or skips the test if there is none.
func program(t testing.TB, dir, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	c := exec.CommandContext(t.Context(), path, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "TERM=dumb")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// slowly writes content to a file that is open, in n pieces with pauses shorter than the
// quiet time.
func slowly(t testing.TB, f *os.File, content string, n int, pause time.Duration) {
	t.Helper()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for i := range n {
		_, err := f.WriteString(content[i*len(content)/n : (i+1)*len(content)/n])
		must(t, err)
		<-tick.C
	}
	must(t, f.Close())
}

func rename(t testing.TB, from, to string) {
	t.Helper()
	must(t, os.Rename(from, to))
}

// relink makes a link lead elsewhere, in one step.
func relink(t testing.TB, target, link string) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(link), "..link_tmp")
	must(t, os.Symlink(target, tmp))
	rename(t, tmp, link)
}

// swapsNow gives the generations made since they were asked for last.
func (p *project) swapsNow() []*snapshot.Snapshot {
	var out []*snapshot.Snapshot
	for {
		select {
		case s := <-p.swaps:
			out = append(out, s)
		default:
			return out
		}
	}
}
