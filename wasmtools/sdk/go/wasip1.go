//go:build wasip1

package guest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

//go:wasmimport hermes input_len
func hostInputLen() int32

//go:wasmimport hermes input_read
func hostInputRead(p unsafe.Pointer, off, n uint32) int32

//go:wasmimport hermes output_write
func hostOutputWrite(p unsafe.Pointer, n uint32) int32

//go:wasmimport hermes error_set
func hostErrorSet(p unsafe.Pointer, n uint32)

//go:wasmimport hermes log
func hostLog(level int32, p unsafe.Pointer, n uint32)

//go:wasmimport hermes result_len
func hostResultLen(h int32) int32

//go:wasmimport hermes result_read
func hostResultRead(h int32, p unsafe.Pointer, off, n uint32) int32

//go:wasmimport hermes result_close
func hostResultClose(h int32)

//go:wasmimport hermes_http fetch
func hostFetch(p unsafe.Pointer, n uint32) int32

//go:wasmimport hermes_kv get
func hostGet(p unsafe.Pointer, n uint32) int32

//go:wasmimport hermes_kv put
func hostPut(p unsafe.Pointer, n uint32) int32

//go:wasmimport hermes_kv delete
func hostDelete(p unsafe.Pointer, n uint32) int32

//go:wasmimport hermes_kv list
func hostList(p unsafe.Pointer, n uint32) int32

//go:wasmimport hermes_tools call
func hostCall(p unsafe.Pointer, n uint32) int32

//go:wasmimport hermes_progress report
func hostReport(p unsafe.Pointer, n uint32) int32

// The exports of a reactor.

//go:wasmexport hermes_abi_v1
func exportMarker() {}

//go:wasmexport hermes_describe
func exportDescribe() int32 {
	if served == nil {
		return callBroken
	}
	d, err := served.describe()
	if err != nil {
		return fail(err.Error(), callError)
	}
	served.warm()
	return write(d)
}

//go:wasmexport hermes_call
func exportCall() int32 {
	if served == nil {
		return callBroken
	}
	var in input
	if err := json.Unmarshal(readInput(), &in); err != nil {
		return fail("decoding the call: "+err.Error(), callBroken)
	}
	out, code := served.run(in)
	if code != callOK {
		return fail(string(out), code)
	}
	return write(out)
}

// warm does what every call does before and after its tool runs. The host keeps the state
// that describing a module leaves, and starts calls from it: what package json finds out
// about types is found out once. An instance whose memory grows in a call is not used for
// another one, so there is room for what calls allocate, and what the start left behind is
// collected before and not in every call.
func (m *Module) warm() {
	makeRoom()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // calls have a deadline
	cancel()
	<-ctx.Done()
	var in input
	_ = json.Unmarshal([]byte(`{"tool":"","arguments":{},"call":{}}`), &in)
	for _, t := range m.Tools {
		t.warm()
	}
	_, _ = encode(map[string]any{"a": []any{1.5, "b", json.RawMessage("{}")}})
}

// room is what a call can allocate, in bytes, before the memory grows.
const room = 2 << 20

// makeRoom does nothing where there is room, or where there is so much to collect that the
// next collection makes it anyway.
func makeRoom() {
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapIdle > room/2 || m.HeapAlloc > room {
		return
	}
	b := make([]byte, room)
	runtime.KeepAlive(&b[0])
	b = nil
	runtime.GC()
}

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func readInput() []byte {
	b := make([]byte, max(0, hostInputLen()))
	return b[:max(0, hostInputRead(pointer(b), 0, uint32(len(b))))]
}

func write(b []byte) int32 {
	if n := hostOutputWrite(pointer(b), uint32(len(b))); n < 0 {
		return fail("the result is over the limit of the declaration", callError)
	}
	return callOK
}

func fail(text string, code int32) int32 {
	b := []byte(text)
	hostErrorSet(pointer(b), uint32(len(b)))
	return code
}

func logText(l Level, text string) {
	b := []byte(text)
	hostLog(int32(l), pointer(b), uint32(len(b)))
}

// The capabilities: each takes a request and gives the two parts of the answer. A function
// that a program does not reach is no import of its module.

func hostHTTP(req []byte) (head, body []byte, err error) {
	return answer(hostFetch(pointer(req), uint32(len(req))))
}

func hostKVGet(req []byte) (head, body []byte, err error) {
	return answer(hostGet(pointer(req), uint32(len(req))))
}

func hostKVPut(req []byte) (head, body []byte, err error) {
	return answer(hostPut(pointer(req), uint32(len(req))))
}

func hostKVDelete(req []byte) (head, body []byte, err error) {
	return answer(hostDelete(pointer(req), uint32(len(req))))
}

func hostKVList(req []byte) (head, body []byte, err error) {
	return answer(hostList(pointer(req), uint32(len(req))))
}

func hostTool(req []byte) (head, body []byte, err error) {
	return answer(hostCall(pointer(req), uint32(len(req))))
}

func hostProgress(req []byte) (head, body []byte, err error) {
	return answer(hostReport(pointer(req), uint32(len(req))))
}

// answer reads the frame of an answer: a length, a head, a body.
func answer(h int32) (head, body []byte, err error) {
	if h < 0 {
		return nil, nil, hostError(-h)
	}
	defer hostResultClose(h)
	n := hostResultLen(h)
	if n < 4 {
		return nil, nil, fmt.Errorf("an answer of %d bytes", n)
	}
	b := make([]byte, n)
	if got := hostResultRead(h, pointer(b), 0, uint32(n)); got != n {
		return nil, nil, fmt.Errorf("%d of %d bytes of an answer", got, n)
	}
	size := binary.LittleEndian.Uint32(b)
	if uint64(size) > uint64(n)-4 {
		return nil, nil, fmt.Errorf("an answer of %d bytes with a head of %d", n, size)
	}
	return b[4 : 4+size], b[4+size:], nil
}

// hostError names the error numbers that capabilities answer.
func hostError(no int32) error {
	switch no {
	case 2:
		return ErrNotGranted
	case 28:
		return errors.New("the host could not read the request")
	case 51:
		return errors.New("too many answers are kept unread")
	case 61:
		return errors.New("a limit of the declaration is reached")
	}
	return fmt.Errorf("host error %d", no)
}
