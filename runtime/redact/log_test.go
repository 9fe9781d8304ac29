package redact_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

type late struct{}

func (late) LogValue() slog.Value { return slog.StringValue("late hunter2-hunter2") }

func TestLog(t *testing.T) {
	s := setOf("hunter2-hunter2")
	for name, make := range map[string]func(b *bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		log := slog.New(s.Handler(make(&b))).With("with", "hunter2-hunter2").WithGroup("g").With("more", []string{"hunter2-hunter2"})
		log.Info("said hunter2-hunter2", "s", "hunter2-hunter2", "err", errors.New("at hunter2-hunter2"), "any", map[string]string{"k": "hunter2-hunter2"},
			slog.Group("in", "deep", "hunter2-hunter2"), "late", late{}, "n", 7)
		log.Info("nothing", "n", 7, "err", errors.New("plain"))
		if strings.Contains(b.String(), "hunter2") || strings.Count(b.String(), "[redacted]") != 10 || !strings.Contains(b.String(), "plain") {
			t.Errorf("%s: %s", name, b.String())
		}
	}
}
