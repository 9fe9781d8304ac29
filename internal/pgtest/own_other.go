//go:build !linux

package pgtest

import "os/exec"

// own lets a command use dir.
func own(cmd *exec.Cmd, dir string) error {
	cmd.Dir = dir
	return nil
}
