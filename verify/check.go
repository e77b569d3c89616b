package verify

import (
	"errors"
	"fmt"
	"io"
	"regexp"

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

// judge turns the error of a check into its outcome. An error that says nothing about the file (no permission, a disk
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

// one makes a single check.
func (s *session) one(l Level, group, rule, name string, check func() error) error {
	return s.each(l, group, []item{{group: group, name: name, rule: rule, size: 1, check: check}})
}

// finding reports an error that occurred outside of a check. Without an error there is no finding.
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
