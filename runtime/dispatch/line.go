package dispatch

import "container/list"

// line is the queue of a limiter: those who wait take turns by whom they wait for, and
// each comes first who came first. Whoever has two hundred calls there does not keep
// another's one from its turn.
type line struct {
	groups map[string]*group
	order  list.List // of *group: whose turn it is next
	n      int
}

// group is the waiters of one session, or of one principal without one.
type group struct {
	who     string
	waiters list.List // of *waiter
	at      *list.Element
}

// waiter is a call in the line. admitted is closed under limiter.mu.
type waiter struct {
	admitted chan struct{}
	group    *group
	at       *list.Element // nil once it has left
}

func (l *line) empty() bool { return l.n == 0 }

// join adds a waiter behind those of the same group.
func (l *line) join(who string) *waiter {
	g, ok := l.groups[who]
	if !ok {
		if l.groups == nil {
			l.groups = map[string]*group{}
		}
		g = &group{who: who}
		l.groups[who] = g
		g.at = l.order.PushBack(g)
	}
	w := &waiter{admitted: make(chan struct{}), group: g}
	w.at = g.waiters.PushBack(w)
	l.n++
	return w
}

// next takes out the waiter whose turn it is; its group comes last then.
func (l *line) next() *waiter {
	g := l.order.Front().Value.(*group)    //nolint:forcetypeassert // the list holds nothing else
	w := g.waiters.Front().Value.(*waiter) //nolint:forcetypeassert // as above
	l.leave(w)
	if g.waiters.Len() > 0 {
		l.order.MoveToBack(g.at)
	}
	return w
}

// leave takes a waiter out.
func (l *line) leave(w *waiter) {
	g := w.group
	g.waiters.Remove(w.at)
	w.at = nil
	l.n--
	if g.waiters.Len() == 0 {
		l.order.Remove(g.at)
		delete(l.groups, g.who)
	}
}
