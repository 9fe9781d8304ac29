package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// client asks one server.
type client struct {
	http *http.Client
	base string
}

func newClient(base string) client {
	return client{&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4000}}, base}
}

// stream asks a model or agent and gives each piece of its text to piece.
func (c client) stream(model string, piece func(string)) error {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":"hi"}]}`, model)
	resp, err := c.http.Post(c.base+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	lines := bufio.NewScanner(resp.Body)
	done := false
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if string(data) == "[DONE]" {
			done = true
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct{ Content string }
			}
			Error json.RawMessage
		}
		if err := json.Unmarshal(data, &chunk); err != nil {
			return err
		}
		if chunk.Error != nil {
			return fmt.Errorf("told %s", chunk.Error)
		}
		for _, choice := range chunk.Choices {
			if choice.Delta.Content != "" {
				piece(choice.Delta.Content)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the stream broke off: %w", err)
	}
	if !done {
		return errors.New("the stream ended without [DONE]")
	}
	return nil
}

// times are durations of which some quantiles are wanted.
type times []time.Duration

func (t times) at(q float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(t))
	return s[int(float64(len(s)-1)*q)]
}

// streamed is what many slow streams at once cost.
type streamed struct {
	first, lag times
	memory     int           // KiB a stream, at the peak
	cpu        time.Duration // of the process, a chunk
}

// streams opens n slow streams of so many chunks at a process, all of which must be whole.
func streams(c client, pid, n, chunks int) (streamed, error) {
	var out streamed
	idle, before := memory(pid), processor(pid)
	peak := idle
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				peak = max(peak, memory(pid))
			}
		}
	})
	var mu sync.Mutex
	var broken error
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			time.Sleep(time.Duration(i) * ramp / time.Duration(n))
			first, lag, err := oneSlow(c, chunks)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				broken = err
			}
			out.first, out.lag = append(out.first, first), append(out.lag, lag...)
		})
	}
	all.Wait()
	close(stop)
	watching.Wait()
	out.memory = (peak - idle) / n
	out.cpu = (processor(pid) - before) / time.Duration(n*chunks)
	return out, broken
}

// ramp is within what time streams begin.
const ramp = 4 * time.Second

// oneSlow follows one slow stream.
func oneSlow(c client, chunks int) (first time.Duration, lag times, err error) {
	begin, rest := time.Now(), ""
	err = c.stream(fmt.Sprintf("slow-%d", chunks), func(text string) {
		now := time.Now()
		if first == 0 {
			first = now.Sub(begin)
		}
		for rest += text; len(rest) >= chunkBytes; rest = rest[chunkBytes:] {
			// A chunk that is lost or doubled breaks the count.
			if number, sent, serr := sentAt(rest[:chunkBytes]); serr == nil && number == len(lag) {
				lag = append(lag, now.Sub(sent))
			}
		}
	})
	if err == nil && (len(lag) != chunks || rest != "") {
		err = fmt.Errorf("%d of %d chunks arrived", len(lag), chunks)
	}
	return first, lag, err
}

// turns are the times of turns one after the other, beside those of the model alone.
func turns(c, model client, agent string, n int) (total, first times, err error) {
	for range n {
		ours, oursFirst, err := oneTurn(c, agent, answer)
		if err != nil {
			return nil, nil, err
		}
		alone := answer
		if agent == "tool" {
			alone = "" // the model itself answers with a call
		}
		models, modelsFirst, err := oneTurn(model, agent, alone)
		if err != nil {
			return nil, nil, err
		}
		if agent == "tool" {
			// The turn asks the model twice; alone it answers the first only.
			more, moreFirst, err := oneTurn(model, "plain", answer)
			if err != nil {
				return nil, nil, err
			}
			models, modelsFirst = models+more, models+moreFirst
		}
		total, first = append(total, ours-models), append(first, oursFirst-modelsFirst)
	}
	return total, first, nil
}

// oneTurn asks once; any other text than want, a lost one too, is an error.
func oneTurn(c client, agent, want string) (total, first time.Duration, err error) {
	begin, text := time.Now(), ""
	err = c.stream(agent, func(piece string) {
		if first == 0 {
			first = time.Since(begin)
		}
		text += piece
	})
	if err == nil && text != want {
		err = fmt.Errorf("the answer is %q, want %q", text, want)
	}
	return time.Since(begin), first, err
}

// rate is how many turns a second there are with so many at once.
func rate(c client, atOnce, n int) (float64, error) {
	begin := time.Now()
	var mu sync.Mutex
	var broken error
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for range n / atOnce {
				if _, _, err := oneTurn(c, "plain", answer); err != nil {
					mu.Lock()
					broken = err
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return float64(n/atOnce*atOnce) / time.Since(begin).Seconds(), broken
}

// memory is what a process has in memory, in KiB.
func memory(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

// processor is the processor time of a process.
func processor(pid int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}
