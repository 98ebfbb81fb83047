package varve

import (
	"fmt"
	"runtime/debug"
	"time"
)

// question is a call of PlaceOf for a claim of a subscription. As a task of the workers it
// asks, for as long as it takes; until there is an answer nothing is read of the
// partition. After an error it waits without a worker, and asks again.
//
//	field    guarded by   written by
//	sub, member, claim   (immutable)   Subscription.askLocked
//	attempt  the task itself
//	waits    Subscription.mu: the alarm is set
//
// It is one of Subscription.questions until it has an answer or nobody wants one.
type question struct {
	sub     *Subscription
	member  *Member
	claim   *claim
	attempt int
	alarm   alarm
	waits   bool
}

// askLocked asks where claims begin, each once.
func (s *Subscription) askLocked(m *Member) {
	if s.opt.PlaceOf == nil || s.stopping.Load() {
		return
	}
	for _, c := range m.claims {
		if !c.unasked() || c.asked {
			continue
		}
		c.asked = true
		q := &question{sub: s, member: m, claim: c}
		q.alarm.ring = func() { s.all.workers.add(q) }
		s.mu.Lock()
		s.questions[q] = struct{}{}
		s.mu.Unlock()
		s.all.workers.add(q)
	}
}

// work asks, unless nobody wants to know any more.
func (q *question) work() {
	q.sub.mu.Lock()
	q.waits = false
	q.sub.mu.Unlock()
	if !q.wanted() {
		q.close()
		return
	}
	q.attempt++
	var a answer
	err := error(&PanicError{Value: errGoexit}) // unless it returns
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
		q.settle(&a, err)
	}()
	s := q.sub
	t := &turn{Context: s.ctx, crew: s.all.workers}
	defer t.end()
	a.place, a.some, err = s.opt.PlaceOf(t, q.claim.key(s.groupID))
}

func (q *question) wanted() bool {
	q.member.mu.Lock()
	defer q.member.mu.Unlock()
	return !q.sub.stopping.Load() && q.member.ended() == nil && q.claim.unasked()
}

// settle keeps the answer, or has it be asked again.
func (q *question) settle(a *answer, err error) {
	if err == nil {
		q.member.mu.Lock()
		q.claim.answer, q.claim.asked = a, false
		q.member.mu.Unlock()
		q.member.news.Store(true)
		q.close()
		return
	}
	if !q.wanted() {
		q.close()
		return
	}
	s := q.sub
	s.tell(q.claim.name(), Failure{Offset: -1, Attempt: q.attempt, Err: fmt.Errorf("read stored place: %w", err), Outcome: Retried})
	forever := s.opt.Retry
	forever.Attempts = -1
	wait, _ := forever.after(q.attempt)
	s.mu.Lock()
	q.waits = true
	s.all.alarms.set(&q.alarm, time.Now().Add(wait))
	s.mu.Unlock()
	s.wake() // where a stop has begun it is given up
}

func (q *question) close() {
	q.sub.mu.Lock()
	delete(q.sub.questions, q)
	q.sub.mu.Unlock()
	q.sub.wake()
}

// giveUpQuestions forgets the questions that wait to be asked again, and says whether all
// are closed.
func (s *Subscription) giveUpQuestions() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.questions {
		if q.waits {
			s.all.alarms.stop(&q.alarm)
			delete(s.questions, q)
		}
	}
	return len(s.questions) == 0
}

// unanswered lists where PlaceOf has not returned.
func (s *Subscription) unanswered() (list []HandlerPlace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.questions {
		if !q.waits {
			list = append(list, HandlerPlace{s.groupID, q.claim.name(), -1})
		}
	}
	return list
}
