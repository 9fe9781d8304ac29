//go:build unix

package check

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the command into a process group that is killed as a whole, so that
// what it started does not outlive it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
