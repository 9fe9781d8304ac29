//go:build !wasip1

package guest

import (
	"errors"
	"fmt"
	"os"
)

// logText writes to stderr on the machine that builds the tool.
func logText(l Level, text string) {
	name := [...]string{"DEBUG", "INFO", "WARN", "ERROR"}[max(Debug, min(l, Error))]
	fmt.Fprintf(os.Stderr, "%s %s\n", name, text)
}

// The capabilities work in the sandbox only, where the grants are.

func outside(what string) (head, body []byte, err error) {
	return nil, nil, errors.New(what + " works inside hermes only")
}

func hostHTTP([]byte) (head, body []byte, err error)     { return outside("HTTP") }
func hostKVGet([]byte) (head, body []byte, err error)    { return outside("KVGet") }
func hostKVPut([]byte) (head, body []byte, err error)    { return outside("KVPut") }
func hostKVDelete([]byte) (head, body []byte, err error) { return outside("KVDelete") }
func hostKVList([]byte) (head, body []byte, err error)   { return outside("KVList") }
func hostTool([]byte) (head, body []byte, err error)     { return outside("CallTool") }
func hostProgress([]byte) (head, body []byte, err error) { return outside("Progress") }
