package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// readyLine is what the server says once it takes connections.
const readyLine = "database system is ready to accept connections"

// process is a running server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
	err  error         // how it ended; read after done
}

// launch starts the server and waits until it takes connections.
func launch(cmd *exec.Cmd) (*process, error) {
	said := &log{ready: make(chan struct{})}
	cmd.Stderr = said
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.wait(started)
	if err := <-started; err != nil {
		return nil, err
	}
	select {
	case <-said.ready:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("it ended (%w): %s", p.err, said.String())
	}
}

// wait owns the process. It keeps its thread, since the kernel ends the process with the
// thread that started it.
func (p *process) wait(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
	close(p.done)
}

// end stops the server. How it exits is not an error.
func (p *process) end(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	if _, ok := errors.AsType[*exec.ExitError](p.err); ok {
		return nil
	}
	return p.err
}

// log is what the server says: the beginning is kept, and watched for the moment it is
// ready.
type log struct {
	ready chan struct{}

	mu   sync.Mutex // guards what follows
	text bytes.Buffer
	seen bool
}

// Write implements io.Writer.
func (l *log) Write(p []byte) (int, error) {
	const kept = 64 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() < kept {
		l.text.Write(p)
	}
	if !l.seen && strings.Contains(l.text.String(), readyLine) {
		l.seen = true
		close(l.ready)
	}
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
