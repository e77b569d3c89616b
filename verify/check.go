package verify

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// finding is an error that a check reports, with the rule that is broken.
type finding struct {
	rule string
	error
}

func (f *finding) Unwrap() error { return f.error }

// broken makes a finding.
func broken(rule, format string, args ...any) error {
	return &finding{rule, fmt.Errorf(format, args...)}
}

// ruleIn finds a rule at the end of a message of another package: "… (F9)".
var ruleIn = regexp.MustCompile(`\((F\d+(?:(?:–|, )F\d+)*)\)`)

// verdict turns the error of a check into its outcome. An error that tells nothing about the file (no permission, a disk
// that fails, an interruption) is returned: it ends the verification.
func (c *Check) judge(rule string, err error) error {
	var f *finding
	switch {
	case err == nil:
		c.Verdict = Pass
		return nil
	case errors.As(err, &f):
		rule = f.rule
	case errors.Is(err, pack.ErrCorrupt), errors.Is(err, pack.ErrUnsupported), errors.Is(err, pack.ErrLimit):
		if m := ruleIn.FindStringSubmatch(err.Error()); m != nil {
			rule = m[1]
		}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		rule, err = "F5", errors.New("the file became shorter while it was read")
	default:
		return err
	}
	c.Verdict, c.Rule, c.Reason = Fail, rule, err.Error()
	return nil
}

// item is one check that is to be made.
type item struct {
	group, name string
	rule        string // that a failing check breaks if its error does not say
	size        int64  // of the work, in bytes or weights
	check       func() error
}

// each makes checks, several at a time, the largest first so that none is left alone at the end, and reports them in order.
func (s *session) each(l Level, what string, items []item) error {
	checks, order := make([]Check, len(items)), make([]*item, len(items))
	var done, total int64
	for i := range items {
		order[i] = &items[i]
		total += items[i].size
	}
	slices.SortStableFunc(order, func(a, b *item) int { return cmp.Compare(b.size, a.size) })
	verdicts := map[*item]*Check{}
	for i := range items {
		checks[i] = Check{Level: l, Group: items[i].group, Name: items[i].name}
		verdicts[&items[i]] = &checks[i]
	}
	err := parallel.Do(s.ctx, s.Threads, len(order), 1, func(i, _ int) error {
		it := order[i]
		err := verdicts[it].judge(it.rule, it.check())
		s.advance(string(l)+": "+what, &done, it.size, total)
		return err
	})
	if err != nil {
		return err
	}
	s.report.add(checks...)
	return nil
}

// one makes a single check.
func (s *session) one(l Level, group, rule, name string, check func() error) error {
	return s.each(l, group, []item{{group, name, rule, 1, check}})
}

// finding reports an error that came up outside of a check. No error is no check.
func (s *session) finding(l Level, group, name string, err error) error {
	if err == nil {
		return nil
	}
	c := Check{Level: l, Group: group, Name: name}
	if err := c.judge("", err); err != nil {
		return err
	}
	s.report.add(c)
	return nil
}

func (s *session) advance(what string, done *int64, n, total int64) {
	if s.Progress == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*done += n
	s.Progress(what, *done, total)
}

// skip reports a group that cannot be checked, and why.
func (s *session) skip(l Level, group, reason string) {
	s.report.add(Check{Level: l, Group: group, Name: string(l), Verdict: Skip, Reason: reason})
}
