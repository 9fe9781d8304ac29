package reload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const withLimits = "HERMES_TEST_WITH_LIMITS"

// limit sets how much of something the users of this test's namespace may have.
func limit(t *testing.T, of string, n int) {
	t.Helper()
	must(t, os.WriteFile("/proc/sys/user/max_inotify_"+of, fmt.Append(nil, n), 0o600))
}

// Where the system itself refuses watchers or watches, everything is found all the same,
// the status says how, and events are taken up again when it gives some. The limits are
// set in a namespace of its own, where the test runs again.
func TestTheSystemRefusesToWatch(t *testing.T) {
	if os.Getenv(withLimits) == "" {
		inNamespace(t)
		return
	}
	for _, tt := range []struct{ of, says string }{
		{"instances", "file events are not available, polling instead"},
		{"watches", "some directories cannot be watched, polling them instead"},
	} {
		t.Run(tt.of, func(t *testing.T) {
			few := map[string]int{"instances": 0, "watches": 2}[tt.of]
			limit(t, tt.of, few)
			p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One."), "tools.d/sub/deep/b.hcl": native("b", "One.")},
				func(o *Options) { o.Poll = 10 * time.Millisecond })
			diff(t, p.r.Status().Watching, "poll")
			p.write("tools.d/a.hcl", native("a", "Two."))
			p.write("tools.d/sub/deep/b.hcl", native("b", "Two."))
			p.write("tools.d/new/c.hcl", native("c", "One."))
			p.goesLive("changes in all directories", tools{"a": "Two.", "b": "Two.", "c": "One."})
			diff(t, p.r.Status().Watching, "poll")
			limit(t, tt.of, 1000)
			until(t, "events", func() bool { return p.r.Status().Watching == "fsnotify" })
			p.write("tools.d/sub/deep/b.hcl", native("b", "Three."))
			p.goesLive("a change after that", tools{"a": "Two.", "b": "Three.", "c": "One."})
			diff(t, strings.Count(p.log.String(), tt.says), 1)
			diff(t, strings.Count(p.log.String(), "file events are available again"), 1)
		})
	}
}

// inNamespace runs the test again as root of a user namespace, which may set limits.
func inNamespace(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	c := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	c.Env = append(os.Environ(), withLimits+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := c.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this system gives no user namespaces: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("with limits: %v\n%s", err, out)
	}
}

// What is written through memory gives no event; the poll finds it.
func TestWhatIsWrittenThroughMemoryIsFoundByThePoll(t *testing.T) {
	p := running(t, files{"agents/main.hcl": mainHCL, "tools.d/a.hcl": native("a", "One.")}, func(o *Options) { o.Poll = 5 * time.Millisecond })
	f, err := os.OpenFile(p.at("tools.d/a.hcl"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	content := native("a", "Two.")
	mem, err := syscall.Mmap(int(f.Fd()), 0, len(content), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	must(t, err)
	copy(mem, content)
	must(t, syscall.Munmap(mem))
	p.goesLive("it", tools{"a": "Two."})
}
