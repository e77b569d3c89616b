package verify

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/printable"
)

// Verdict of a check.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
	Skip Verdict = "skip"
)

// Check is the outcome of one check.
type Check struct {
	Level   Level   `json:"level"`
	Group   string  `json:"group"`
	Name    string  `json:"name"` // a tensor, a file, a position
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule,omitempty"` // of docs/FORMAT.md, when one is broken
	Reason  string  `json:"reason,omitempty"`
}

// Report is the outcome of a verification. Its JSON form is what `lowpack verify --json` prints.
type Report struct {
	File   string  `json:"file"`
	Tool   string  `json:"tool,omitempty"`   // that wrote the file
	Family string  `json:"family,omitempty"` // of the model
	Bytes  int64   `json:"bytes,omitempty"`
	Level  Level   `json:"level"`
	Device string  `json:"device,omitempty"` // that computed the logits, as its driver calls it; "" = the CPU
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`

	Against []string `json:"against,omitempty"` // the checkpoint and the statement that the file was compared with
	Notes   []string `json:"notes,omitempty"`   // what a reader should know besides the checks
	Details []string `json:"details,omitempty"` // what needs nothing to be done; Text leaves it out

	// the file names no model: none was verified, and none will run
	WeightsOnly bool     `json:"weights_only,omitempty"`
	Coverage    Coverage `json:"coverage"`
}

// Coverage is how much the golden outputs cover of what was verified; zeros at levels that were not reached.
type Coverage struct {
	Rows    int64 `json:"rows"`     // whose products were compared
	AllRows int64 `json:"all_rows"` // of packed tensors in the file
	// packed tensors, except those of experts, whose scales and order of columns are in logits that were compared
	Scaled    int `json:"scaled"`
	Packed    int `json:"packed"`    // packed tensors in the file
	Tokens    int `json:"tokens"`    // whose embeddings are in these logits
	Vocab     int `json:"vocab"`     // tokens of the model
	Positions int `json:"positions"` // whose logits were compared
	Sequences int `json:"sequences"` // that these are of
	Texts     int `json:"texts"`     // whose tokens were compared
	Context   int `json:"context"`   // context depth at which attention was compared, with every format of the cache
}

// list returns the facts that text and JUnit print.
func (c *Coverage) list() []string {
	return []string{
		fmt.Sprintf("products of %d of %d rows", c.Rows, c.AllRows),
		fmt.Sprintf("scales of %d of %d packed tensors", c.Scaled, c.Packed),
		fmt.Sprintf("logits of %d positions in %d sequences", c.Positions, c.Sequences),
		fmt.Sprintf("embeddings of %d of %d tokens", c.Tokens, c.Vocab),
		fmt.Sprintf("attention to %d positions", c.Context),
		fmt.Sprintf("tokens of %d texts", c.Texts),
	}
}

// Verdict returns PASS or FAIL, and what the verdict does not cover.
func (r *Report) Verdict() string {
	switch {
	case !r.OK:
		return "FAIL"
	case r.WeightsOnly:
		return "PASS (weights only; no model)"
	}
	return "PASS"
}

func (r *Report) note(text string) { r.Notes = append(r.Notes, text) }

func (r *Report) add(c ...Check) {
	r.Checks = append(r.Checks, c...)
	r.OK = r.Failed() == 0
}

// Failed is the number of checks that failed.
func (r *Report) Failed() int { return count(r.Checks, Fail) }

func count(checks []Check, v Verdict) (n int) {
	for _, c := range checks {
		if c.Verdict == v {
			n++
		}
	}
	return n
}

// groups are the checks of one level and group each, in the order of their first appearance.
func (r *Report) groups() [][]Check {
	var list [][]Check
	at := map[[2]string]int{}
	for _, c := range r.Checks {
		key := [2]string{string(c.Level), c.Group}
		i, ok := at[key]
		if !ok {
			i = len(list)
			at[key] = i
			list = append(list, nil)
		}
		list[i] = append(list[i], c)
	}
	return list
}

// listed bounds the failures that Text spells out per group.
const listed = 10

// Text writes a line per group of checks, the failures, the coverage, and the verdict.
func (r *Report) Text(w io.Writer) error {
	groups := r.groups()
	wide := 0
	for _, g := range groups {
		wide = max(wide, utf8.RuneCountInString(g[0].Group))
	}
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "%-6s  %s%s  %s\n", g[0].Level, g[0].Group,
			strings.Repeat(" ", wide-utf8.RuneCountInString(g[0].Group)), counts(g))
	}
	for _, g := range groups {
		shown := 0
		for _, c := range g {
			if c.Verdict != Fail {
				continue
			}
			if shown++; shown > listed {
				fmt.Fprintf(&b, "%s: %d more failures\n", c.Level, count(g, Fail)-listed)
				break
			}
			fmt.Fprintf(&b, "%s: %s\n", c.Level, printable.Line(c.failure()))
		}
	}
	if len(r.Against) > 0 && r.Failed() > 0 {
		fmt.Fprintf(&b, "compared with: %s\n", printable.Line(strings.Join(r.Against, " and ")))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", printable.Line(n))
	}
	fmt.Fprintf(&b, "coverage: %s\n", strings.Join(r.Coverage.list(), "; "))
	fmt.Fprintf(&b, "%s  %s: %s\n", r.Verdict(), printable.Line(r.File), counts(r.Checks))
	_, err := io.WriteString(w, b.String())
	return err
}

// failure is the line of a failed check.
func (c *Check) failure() string {
	if c.Rule == "" {
		return fmt.Sprintf("%s: %s", c.Name, c.Reason)
	}
	return fmt.Sprintf("%s: rule %s: %s", c.Name, c.Rule, c.Reason)
}

func counts(checks []Check) string {
	text := fmt.Sprintf("%d passed", count(checks, Pass))
	if n := count(checks, Fail); n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	if n := count(checks, Skip); n == len(checks) && n > 0 {
		return "skipped: " + checks[0].Reason
	} else if n > 0 {
		text += fmt.Sprintf(", %d skipped", n)
	}
	return text
}

type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitMessage `xml:"failure"`
		Skipped *junitMessage `xml:"skipped"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes the report in the XML form that continuous-integration systems read: a suite per group, a case per
// check; verdict and coverage are properties of the last suite, which has no cases.
func (r *Report) JUnit(w io.Writer) error {
	out := junitSuites{Name: "lowpack verify " + r.File, Tests: len(r.Checks), Failures: r.Failed(),
		Skipped: count(r.Checks, Skip)}
	for _, g := range r.groups() {
		suite := junitSuite{
			Name:     fmt.Sprintf("%s: %s", g[0].Level, g[0].Group),
			Tests:    len(g),
			Failures: count(g, Fail),
			Skipped:  count(g, Skip),
		}
		for _, c := range g {
			suite.Cases = append(suite.Cases, c.junit())
		}
		out.Suites = append(out.Suites, suite)
	}
	last := junitSuite{Name: "coverage", Properties: []junitProperty{{"verdict", r.Verdict()}}}
	for _, fact := range r.Coverage.list() {
		last.Properties = append(last.Properties, junitProperty{"coverage", fact})
	}
	out.Suites = append(out.Suites, last)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (c *Check) junit() junitCase {
	out := junitCase{Class: "lowpack." + string(c.Level), Name: c.Group + ": " + c.Name}
	switch c.Verdict {
	case Fail:
		out.Failure = &junitMessage{Message: c.failure(), Type: c.Rule, Text: c.Reason}
	case Skip:
		out.Skipped = &junitMessage{Message: c.Reason}
	}
	return out
}
