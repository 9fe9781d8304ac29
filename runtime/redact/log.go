package redact

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler is a handler of log records that takes secrets out of messages and attributes,
// also of those within groups and of values that are formatted only when they are written.
func (s *Set) Handler(next slog.Handler) slog.Handler { return &handler{next, s} }

type handler struct {
	slog.Handler
	set *Set
}

// Handle passes the record on without secrets.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	message, found := h.set.Text(r.Message)
	attrs := make([]slog.Attr, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		clean, n := h.attr(a)
		attrs, found = append(attrs, clean), found+n
		return true
	})
	if found == 0 {
		return h.Handler.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, message, r.PC)
	clean.AddAttrs(attrs...)
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs is that of the handler below, without secrets.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i], _ = h.attr(a)
	}
	return &handler{h.Handler.WithAttrs(clean), h.set}
}

// WithGroup is that of the handler below.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.set}
}

func (h *handler) attr(a slog.Attr) (slog.Attr, int) {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		text, n := h.set.Text(v.String())
		return slog.String(a.Key, text), n
	case slog.KindGroup:
		out, found := []slog.Attr{}, 0
		for _, inner := range v.Group() {
			clean, n := h.attr(inner)
			out, found = append(out, clean), found+n
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(out...)}, found
	case slog.KindAny:
		if text, n := h.set.Text(fmt.Sprintf("%+v", v.Any())); n > 0 {
			return slog.String(a.Key, text), n
		}
	case slog.KindBool, slog.KindDuration, slog.KindFloat64, slog.KindInt64, slog.KindTime, slog.KindUint64, slog.KindLogValuer:
	}
	return slog.Attr{Key: a.Key, Value: v}, 0
}
