package runtime

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// editor changes the files of a project at random, always alike for one seed.
type editor struct {
	t      testing.TB
	w      *world
	rnd    *rand.Rand
	good   map[string]string // what a file holds when it is whole, by path
	moved  map[string]string // where a file of good stands now, if elsewhere
	serial int
	counts map[string]int
}

func newEditor(t testing.TB, w *world, seed uint64) *editor {
	e := &editor{
		t: t, w: w, rnd: rand.New(rand.NewPCG(seed, 0)),
		good: w.files(), moved: map[string]string{}, counts: map[string]int{},
	}
	for _, path := range sortedPaths(e.good) {
		w.write(t, path, e.good[path])
	}
	return e
}

// edit is one kind of edit; how often it comes is in proportion to weight.
type edit struct {
	name   string
	weight int
	do     func(*editor)
}

func edits() []edit {
	return []edit{
		{"native nonce", 20, func(e *editor) { i := e.rnd.IntN(natives); e.put(nativePath(i), nativeFile(i, e.nonce())) }},
		{"environment nonce", 12, func(e *editor) { i := e.rnd.IntN(environs); e.put(environPath(i), environFile(i, e.nonce())) }},
		{"module swap", 12, func(e *editor) {
			i := e.rnd.IntN(modules)
			e.put(modulePath(i), string(e.w.modules[i][e.rnd.IntN(variants)]))
		}},
		{"local nonce", 6, func(e *editor) { e.put("tools.d/shared.hcl", sharedFile(e.nonce())) }},
		{"text nonce", 6, func(e *editor) { e.put("tools.d/nonce.txt", e.nonce()+"\n") }},
		{"several at once", 4, (*editor).several},
		{"broken tool", 10, (*editor).breakTool},
		{"broken module", 4, func(e *editor) { e.spoil(modulePath(e.rnd.IntN(modules)), "(module)") }},
		{"deleted module", 3, func(e *editor) { e.remove(modulePath(e.rnd.IntN(modules))) }},
		{"deleted tool", 8, func(e *editor) { e.remove(e.passingTool()) }},
		{"renamed tool", 5, (*editor).rename},
		{"duplicate tool", 3, (*editor).duplicate},
		{"toolset", 5, (*editor).toolset},
		{"broken toolset", 3, func(e *editor) { e.spoil("tools.d/sets.hcl", setsFile("n*", "w*", "nobody")) }},
		{"agents", 5, (*editor).agents},
		{"broken agents", 3, func(e *editor) {
			e.spoil("agents/agents.hcl", e.good["agents/agents.hcl"]+"\nagent \"x\" {\n  model = ")
		}},
		{"passing agent", 5, (*editor).passing},
		{"models", 3, func(e *editor) { e.put("agents/models.hcl", modelsFile(1+e.rnd.IntN(3))) }},
		{"broken models", 2, func(e *editor) {
			e.spoil("agents/models.hcl", strings.Replace(e.good["agents/models.hcl"], "script.offline", "script.nothing", 1))
		}},
		{"same again", 6, (*editor).sameAgain},
		{"mended", 14, (*editor).mend},
	}
}

// step makes one random edit.
func (e *editor) step() {
	all := edits()
	total := 0
	for _, x := range all {
		total += x.weight
	}
	n := e.rnd.IntN(total)
	for _, x := range all {
		if n -= x.weight; n < 0 {
			e.counts[x.name]++
			x.do(e)
			return
		}
	}
}

func (e *editor) nonce() string {
	e.serial++
	return fmt.Sprintf("x%d-%06x", e.serial, e.rnd.Uint32()>>8)
}

// at is where a file stands now.
func (e *editor) at(path string) string {
	if to, ok := e.moved[path]; ok {
		path = to
	}
	return filepath.Join(e.w.dir, path)
}

// put gives a file new content that is good.
func (e *editor) put(path, content string) {
	e.good[path] = content
	e.spoil(path, content)
}

// spoil gives a file content in one of the ways in which programs write: over the old
// one, by renaming over it, or in two pieces with a pause between.
func (e *editor) spoil(path, content string) {
	name := e.at(path)
	switch e.rnd.IntN(3) {
	case 0:
		e.must(os.WriteFile(name, []byte(content), 0o644))
	case 1:
		beside := filepath.Join(filepath.Dir(name), ".new")
		e.must(os.WriteFile(beside, []byte(content), 0o644))
		e.must(os.Rename(beside, name))
	default:
		e.inPieces(name, content)
	}
}

func (e *editor) inPieces(name, content string) {
	f, err := os.Create(name)
	e.must(err)
	half := e.rnd.IntN(len(content) + 1)
	_, err = f.WriteString(content[:half])
	e.must(err)
	time.Sleep(time.Duration(e.rnd.IntN(20)) * time.Millisecond)
	_, err = f.WriteString(content[half:])
	e.must(err)
	e.must(f.Close())
}

func (e *editor) must(err error) {
	if err != nil {
		e.t.Error(err)
	}
}

func (e *editor) remove(path string) {
	if err := os.Remove(e.at(path)); err != nil && !os.IsNotExist(err) {
		e.t.Error(err)
	}
}

// passingTool is the file of a tool that may be taken away.
func (e *editor) passingTool() string {
	if e.rnd.IntN(4) == 0 {
		return environPath(steady + e.rnd.IntN(environs-steady))
	}
	return nativePath(steady + e.rnd.IntN(natives-steady))
}

// several edits more than one file within one debounce.
func (e *editor) several() {
	for range 2 + e.rnd.IntN(6) {
		i := e.rnd.IntN(natives)
		e.put(nativePath(i), nativeFile(i, e.nonce()))
	}
}

// breakTool breaks any native tool but the first, which is moved instead: a file that is
// moved and broken at once is, rightly, gone.
func (e *editor) breakTool() {
	i := 1 + e.rnd.IntN(natives-1)
	whole := nativeFile(i, e.nonce())
	broken := []string{
		whole[:len(whole)/2], strings.Replace(whole, "test.nonce", "test.none", 1), strings.Replace(whole, "nonce =", "nonse =", 1),
		strings.Replace(whole, "description", "descriptions", 1), whole + "}", strings.Replace(whole, "concurrency = 0", "concurrency = -1", 1),
	}
	e.spoil(nativePath(i), broken[e.rnd.IntN(len(broken))])
}

// rename moves the file of a tool; what it declares stays.
func (e *editor) rename() {
	path := nativePath(0)
	if i := e.rnd.IntN(natives); i >= steady {
		path = nativePath(i)
	}
	from := e.at(path)
	e.serial++
	to := filepath.Join("tools.d", "native", fmt.Sprintf("r%d.hcl", e.serial))
	if err := os.Rename(from, filepath.Join(e.w.dir, to)); err != nil {
		return // it is deleted
	}
	e.moved[path] = to
}

// duplicate declares a tool twice; the second is withheld.
func (e *editor) duplicate() {
	name := filepath.Join(e.w.dir, "tools.d", "twice.hcl")
	e.must(os.WriteFile(name, []byte(nativeFile(e.rnd.IntN(natives), e.nonce())), 0o644))
	time.Sleep(time.Duration(e.rnd.IntN(100)) * time.Millisecond)
	e.must(os.Remove(name))
}

func (e *editor) toolset() {
	sets := [][]string{{"n*", "w*"}, {"n[0-5]", "w*"}, {"w*", "n*", "m*"}, {"n0", "n1", "w0", "w1"}}
	e.put("tools.d/sets.hcl", setsFile(sets[e.rnd.IntN(len(sets))]...))
}

func (e *editor) agents() {
	var denied []string
	for i := range e.rnd.IntN(4) {
		denied = append(denied, fmt.Sprintf("n%d*", steady+i))
	}
	e.put("agents/agents.hcl", agentsFile("Do it, "+e.nonce()+".", denied))
}

func (e *editor) passing() {
	const path = "agents/passing.hcl"
	if _, err := os.Stat(e.at(path)); err == nil {
		e.remove(path)
		return
	}
	e.spoil(path, passingAgent)
}

// sameAgain writes what is there once more.
func (e *editor) sameAgain() {
	for _, path := range sortedPaths(e.good) {
		if content, err := os.ReadFile(e.at(path)); err == nil && e.rnd.IntN(3) > 0 {
			beside := filepath.Join(filepath.Dir(e.at(path)), ".new")
			e.must(os.WriteFile(beside, content, 0o644))
			e.must(os.Rename(beside, e.at(path)))
		}
	}
}

// mend makes some files whole that are not.
func (e *editor) mend() {
	for _, path := range sortedPaths(e.good) {
		if content, err := os.ReadFile(e.at(path)); (err != nil || string(content) != e.good[path]) && e.rnd.IntN(2) == 0 {
			e.spoil(path, e.good[path])
		}
	}
}

// mendAll leaves the project whole, with every tool in the file that it began in.
func (e *editor) mendAll() {
	for _, path := range sortedPaths(e.good) {
		if to, ok := e.moved[path]; ok {
			e.must(os.RemoveAll(filepath.Join(e.w.dir, to)))
			delete(e.moved, path)
		}
		e.w.write(e.t, path, e.good[path])
	}
	e.must(os.RemoveAll(e.at("agents/passing.hcl")))
}
