package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// own lets a command use dir, and end with us. PostgreSQL refuses to run as root, so
// root's runs as the user that its package has made.
func own(cmd *exec.Cmd, dir string) error {
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup(superuser)
	if err != nil {
		return fmt.Errorf("finding a user that is not root: %w", err)
	}
	uid, uerr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(account.Gid, 10, 32)
	if uerr != nil || gerr != nil {
		return fmt.Errorf("user %s has the ids %q and %q", superuser, account.Uid, account.Gid)
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(dir, int(uid), int(gid))
}
