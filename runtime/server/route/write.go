package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hermes-runtime/hermes/runtime/fault"
)

// writeTimeout bounds how long a client may refuse to take what it is sent.
const writeTimeout = 30 * time.Second

// WriteJSON answers with v encoded. An error before anything was written means that v
// does not encode.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encoding response: %w", err)
	}
	return writeBody(w, status, buf.Bytes())
}

func writeBody(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	return WriteBytes(w, status, body)
}

// WriteBytes answers with body; the caller has set its headers. A client that takes
// nothing for 30 s is given up.
func WriteBytes(w http.ResponseWriter, status int, body []byte) error {
	if err := extend(http.NewResponseController(w)); err != nil {
		return err
	}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		return gone(err)
	}
	return nil
}

// gone is the error of a connection that takes nothing more: what clients do is no
// fault of the server.
func gone(err error) error {
	return fault.Wrap(fault.Canceled, err, "the client went away before the answer ended")
}

// extend gives the next write its time.
func extend(rc *http.ResponseController) error {
	err := rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return gone(err)
	}
	return nil
}
