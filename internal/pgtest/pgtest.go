// Package pgtest runs a real PostgreSQL for tests: one server for a test binary, one new
// database for a test.
//
//	var server = pgtest.New(pgtest.Options{})
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(server.Closing(m)) }
//
//	func TestX(t *testing.T) { db, err := postgres.Open(t.Context(), server.Database(t), …) }
//
// The server starts when a test first asks for it, listens on a socket in a folder of its
// own and on nothing else, and ends with the test binary, even if that is killed. If
// PostgreSQL is not installed, tests that ask for it are skipped.
//
// # Concurrency
//
// Everything is safe for concurrent use. One goroutine lives as long as the server's
// process, which it waits for.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// missing says what a skipped test needs.
const missing = "PostgreSQL is not installed: no postgres in PATH or /usr/lib/postgresql/*/bin; install it (Debian package postgresql)"

// Options change how the server runs. The zero value is the fastest.
type Options struct {
	// Fsync makes the server write as one in production does. Without it, what is
	// committed survives the end of the server and not that of the machine.
	Fsync bool
	// Settings are more of the server's, for example "max_connections=20".
	Settings []string
}

// Server is a PostgreSQL server of the test binary.
type Server struct {
	o     Options
	count atomic.Int64 // databases made

	mu   sync.Mutex // guards what follows
	bin  string     // the folder of the programs; empty: not set up
	dir  string     // data and socket
	run  *process   // nil: it does not run
	last error      // why it could not be set up
}

// New gives a server that is not started yet.
func New(o Options) *Server { return &Server{o: o} }

// Closing is m with the end of the server after it, for goleak.VerifyTestMain and for
// os.Exit(….Run()).
func (s *Server) Closing(m interface{ Run() int }) *Main { return &Main{tests: m, server: s} }

// Main runs tests, then ends their server.
type Main struct {
	tests  interface{ Run() int }
	server *Server
}

// Run runs the tests and gives their exit code.
func (m *Main) Run() int {
	code := m.tests.Run()
	if err := m.server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "ending PostgreSQL:", err)
		return max(code, 1)
	}
	return code
}

// Close ends the server and removes what it stored.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.stop(syscall.SIGQUIT)
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	s.bin, s.dir = "", ""
	return err
}

// Database makes an empty database and gives its address. It is gone with the server.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	return s.DatabaseWith(tb, "")
}

// DatabaseWith is Database with options of CREATE DATABASE, for example
// "TEMPLATE template0 ENCODING 'LATIN1'".
func (s *Server) DatabaseWith(tb testing.TB, options string) string {
	tb.Helper()
	s.Start(tb)
	name := "test" + strconv.FormatInt(s.count.Add(1), 10)
	s.Exec(tb, s.Address("postgres"), "CREATE DATABASE "+name+" "+options)
	return s.Address(name)
}

// Copy makes a database that is as another, which nobody may use meanwhile: quicker than
// filling an empty one.
func (s *Server) Copy(tb testing.TB, address string) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	options := "TEMPLATE " + strings.TrimPrefix(u.Path, "/")
	if s.copiesFiles() {
		options += " STRATEGY file_copy"
	}
	return s.DatabaseWith(tb, options)
}

// copiesFiles says whether the server can be told how to make databases.
func (s *Server) copiesFiles() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "PG_VERSION"))
	version, cerr := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && cerr == nil && version >= 15
}

// Exec runs one statement on the database at an address.
func (s *Server) Exec(tb testing.TB, address, statement string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), address)
	if err != nil {
		tb.Fatalf("connecting to PostgreSQL: %v", err)
	}
	_, err = conn.Exec(tb.Context(), statement)
	if err = errors.Join(err, conn.Close(context.WithoutCancel(tb.Context()))); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// Address is that of a database by name, for the superuser.
func (s *Server) Address(database string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	query := url.Values{"host": {s.dir}, "user": {superuser}}
	return "postgres:///" + database + "?" + query.Encode()
}

// Start starts the server, unless it runs. A test on a machine without PostgreSQL is
// skipped.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bin == "" && s.last == nil {
		s.last = s.setUp()
	}
	if errors.Is(s.last, exec.ErrNotFound) {
		tb.Skip(missing)
	}
	if s.last != nil {
		tb.Fatalf("setting up PostgreSQL: %v", s.last)
	}
	if s.run != nil {
		return
	}
	if err := s.start(); err != nil {
		tb.Fatalf("starting PostgreSQL: %v", err)
	}
}

// Stop ends the server as a crash would: connections break, and what was committed is
// there when it starts again. With Stop a test has the server for itself.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(syscall.SIGQUIT); err != nil {
		tb.Fatalf("stopping PostgreSQL: %v", err)
	}
}

// superuser owns every database; the socket lets it in without a password.
const superuser = "postgres"

func (s *Server) setUp() error {
	bin, err := programs()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(bin, "initdb"), //nolint:gosec // the installed one
		"--pgdata="+filepath.Join(dir, "data"), "--username="+superuser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	err = own(cmd, dir)
	if err == nil {
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("initdb: %w: %s", err, out)
		}
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	s.bin, s.dir = bin, dir
	return nil
}

// programs is the folder of the newest installed programs.
func programs() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.Join(err, exec.ErrNotFound)
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4]) // the older names had dots: 0
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

func (s *Server) start() error {
	args := []string{"-D", filepath.Join(s.dir, "data"), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=200"}
	if !s.o.Fsync {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	for _, setting := range s.o.Settings {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...) //nolint:gosec // the installed one
	if err := own(cmd, s.dir); err != nil {
		return err
	}
	run, err := launch(cmd)
	if err != nil {
		return err
	}
	s.run = run
	return nil
}

func (s *Server) stop(signal os.Signal) error {
	if s.run == nil {
		return nil
	}
	err := s.run.end(signal)
	s.run = nil
	return err
}
