package reload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-runtime/hermes/runtime/config"
)

// A file that is cut anywhere is withheld, whoever asks for a reload; only where a whole
// block ends it cannot be told from one that was written that way.
func TestAFileCutAtEveryByteIsWithheldOrWhole(t *testing.T) {
	before, first, second := native("a", "One.")+native("b", "One."), native("a", "Two."), native("b", "Two.")
	after := first + second
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": before})
	old := tools{"a": "One.", "b": "One."}
	for n := len("\n") + 1; n <= len(after); n++ {
		p.write("tools.d/a.hcl", after[:n])
		out := p.reload()
		want, whole := old, len(strings.TrimSpace(after))+1
		switch {
		case n >= whole:
			want = tools{"a": "Two.", "b": "Two."}
		case strings.TrimSpace(after[:n]) == strings.TrimSpace(first):
			want = tools{"a": "Two."}
		}
		diff(t, p.offered(), want)
		diff(t, len(out.Stale) == 0, n >= whole || len(want) == 1)
		if len(want) == 1 {
			p.write("tools.d/a.hcl", before)
			p.reload()
		}
		if t.Failed() {
			t.Fatalf("cut at %d: %q", n, after[:n])
		}
	}
}

// A module that is cut anywhere is withheld, but where it ends before what no module needs.
func TestAModuleCutAtEveryByteIsWithheld(t *testing.T) {
	p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/noop.hcl": wasm("noop", "noop.wasm"), "tools.d/noop.wasm": module("1")})
	after := module("another")
	whole := len(after) - len("\x00\x0c\x04note"+"another")
	for n := range len(after) {
		p.write("tools.d/noop.wasm", after[:n])
		out := p.reload()
		if n == whole {
			diff(t, out.Changed, true)
			p.write("tools.d/noop.wasm", module("1"))
			diff(t, p.reload().Changed, true)
			continue
		}
		diff(t, out.Changed, false)
		diff(t, sortedKeys(p.stale(out)), []string{"tools.d/noop.wasm"})
		if t.Failed() {
			t.Fatalf("cut at %d", n)
		}
	}
	p.write("tools.d/noop.wasm", after)
	diff(t, p.reload().Changed, true)
}

// Whoever writes a file piece by piece, in less than the longest wait, is never seen in
// the middle of it.
func TestAFileWrittenByteByByteIsSeenWhole(t *testing.T) {
	for name, option := range map[string]func(*Options){"events": func(*Options) {}, "polls": polling} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, now := tools{"a": "One.", "b": "One."}, tools{"a": "Two.", "b": "Two."}
			p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.") + native("b", "One.")}, option)
			p.made()
			f, err := os.Create(p.at("tools.d/a.hcl"))
			must(t, err)
			content := native("a", "Two.") + native("b", "Two.")
			slowly(t, f, content, len(content), 2*time.Millisecond)
			p.goesLive("the whole file", now)
			only(t, p.fence(), old, now)
		})
	}
}

// A writer that stops for longer than the quiet time is waited for where what it wrote
// so far is the beginning of what is live, or ends within a line.
func TestAWriterThatStopsIsWaitedFor(t *testing.T) {
	before := native("a", "One.") + native("b", "One.")
	after := native("a", "One.") + native("b", "Two.")
	for name, cut := range map[string]int{
		"at once": 0, "after the first line": 1, "after the first block": len(native("a", "One.")), "within a name": len(native("a", "One.")) + 9,
	} {
		for how, option := range map[string]func(*Options){"events": func(*Options) {}, "polls": polling} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": before}, option)
				p.made()
				write(t, p.at("tools.d/a.hcl"), after[:cut])
				<-time.After(4 * p.r.o.Quiet) // longer than the quiet time, shorter than the longest wait
				write(t, p.at("tools.d/a.hcl"), after)
				p.goesLive("the whole file", tools{"a": "One.", "b": "Two."})
				only(t, p.fence(), tools{"a": "One.", "b": "One."}, tools{"a": "One.", "b": "Two."})
			})
		}
	}
}

// A prompt is text wherever it is cut. One that is being written is not taken for it.
func TestAPromptThatIsBeingWrittenIsNoPrompt(t *testing.T) {
	before, after := strings.Repeat("Be brief.\n", 20), strings.Repeat("Be kind.\n", 20)
	p := running(t, files{
		"agents/main.hcl": strings.Replace(mainHCL, `"Help."`, `file("help.md")`, 1), "agents/help.md": before, "tools.d/a.hcl": native("a", "One."),
	})
	f, err := os.Create(p.at("agents/help.md"))
	must(t, err)
	slowly(t, f, after, 17, 15*time.Millisecond)
	until(t, "the whole prompt", func() bool { return p.live().Agents["assistant"].Instructions == after })
	for _, s := range p.swapsNow() {
		if got := s.Agents["assistant"].Instructions; got != before && got != after {
			t.Errorf("a generation has the prompt %q", got)
		}
	}
}

// A file that is written without end puts off no other, and is itself seen.
func TestAnEndlessWriterPutsOffNoOther(t *testing.T) {
	p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/log.hcl": native("log", "Endless.")})
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- endless(p.at("tools.d/log.hcl"), stop) }()
	for _, text := range []string{"Two.", "Three."} {
		wrote := time.Now()
		p.write("tools.d/a.hcl", native("a", text))
		p.goesLive(text, tools{"a": text, "log": "Endless."})
		t.Logf("%q was live after %v", text, time.Since(wrote).Round(time.Millisecond))
	}
	close(stop)
	must(t, <-ended)
	p.goesLive("the end", tools{"a": "Three.", "log": "Endless."})
	for _, s := range p.swapsNow() {
		if got := offered(t, s)["log"]; got != "Endless." {
			t.Errorf("a generation has %q of the file that is written", got)
		}
	}
}

// endless adds lines to a file every 10 ms until stop is closed.
func endless(path string, stop <-chan struct{}) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
			if _, err := f.WriteString("# another line\n"); err != nil {
				return err
			}
		}
	}
}

// A poll in the middle of a replacement does not take its first half for a wish.
func TestAPollInTheMiddleOfAReplacementWaits(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second func(p *project)
	}{
		{"deleted, then created", func(p *project) { p.remove("tools.d/a.hcl") }, func(p *project) { p.write("tools.d/a.hcl", native("a", "Two.")) }},
		{"moved away, then another moved in", func(p *project) {
			p.write("new", native("a", "Two."))
			rename(p.t, p.at("tools.d/a.hcl"), p.at("old"))
		}, func(p *project) { rename(p.t, p.at("new"), p.at("tools.d/a.hcl")) }},
		{"a directory, then a file in it", func(p *project) {
			p.remove("tools.d/a.hcl")
			must(p.t, os.Mkdir(p.at("tools.d/a.hcl"), 0o755))
		}, func(p *project) { p.write("tools.d/a.hcl/in.hcl", native("a", "Two.")) }},
		{"the tools directory, then another", func(p *project) {
			p.write("new/a.hcl", native("a", "Two."))
			rename(p.t, p.at("tools.d"), p.at("old"))
		}, func(p *project) { rename(p.t, p.at("new"), p.at("tools.d")) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			looked := make(chan struct{}, 1)
			p := start(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, func(o *Options) {
				o.Quiet, o.MaxWait = 200*time.Millisecond, 20*time.Second
				o.Disk = listing{config.Disk{}, looked}
			})
			<-looked // by the start
			tt.first(p)
			out := make(chan error, 1)
			go func() {
				_, err := p.r.Reload(t.Context(), TriggerPoll)
				out <- err
			}()
			<-looked // the poll has begun
			tt.second(p)
			must(t, <-out)
			diff(t, p.offered(), tools{"a": "Two."})
			only(t, p.made(), tools{"a": "Two."})
		})
	}
}

// listing says when a directory is listed.
type listing struct {
	config.Source
	listed chan struct{}
}

func (l listing) Files(dir string) ([]string, error) {
	files, err := l.Source.Files(dir)
	if filepath.Base(dir) == "tools.d" {
		signal(l.listed)
	}
	return files, err
}
