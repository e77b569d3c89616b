// Package verify checks packed files, from digests to logits. Every check has a name, a verdict and a reason; a failure
// names the tensor and the rule of docs/FORMAT.md that it breaks.
//
// [Run] gives a [Report]: what was checked, what failed, and what the checks covered. A file that fails is not an error
// of Run; a file that cannot be opened or read is. [Options] choose the [Level] and the checkpoint to compare with.
package verify

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Level is how far a verification goes. Each level includes those before it.
type Level string

// The levels.
const (
	File   Level = "file"   // is it whole and well-formed?
	Digest Level = "digest" // are these the bytes that convert wrote?
	Codes  Level = "codes"  // do the bytes decode to legal weights, with clean padding?
	Kernel Level = "kernel" // does every kernel that this CPU can run give the golden integers?
	Logits Level = "logits" // does the model give the golden logits and tokens?
	Source Level = "source" // is this what the checkpoint says?
)

// Levels lists all levels in order.
func Levels() []Level { return []Level{File, Digest, Codes, Kernel, Logits, Source} }

// ParseLevel reads the name of a level.
func ParseLevel(s string) (Level, error) {
	if l := Level(s); slices.Contains(Levels(), l) {
		return l, nil
	}
	return "", fmt.Errorf("%w: level %q; there are %v", pack.ErrUnsupported, s, Levels())
}

// Options of a verification.
type Options struct {
	Level        Level  // "" = all levels, source only where there is one
	Source       string // path of the checkpoint; "" = none
	Provenance   []byte // statement about the file (package provenance), checked at level digest; nil = none
	Statement    string // path of Provenance, for the report
	Threads      int    // 0 = one per CPU that this process may use
	Device       string // that computes the logits (engine.Options.Device); "" = the CPU
	DeviceLayers int    // that Device computes (engine.Options.DeviceLayers)
	Progress     func(what string, done, total int64)
}

// ReferencePhase is the progress phase in which the reference model computes golden outputs, which is counted in
// weights; the phases that begin with the word logits are counted in checks, all others in bytes.
const ReferencePhase = "reference"

// Run verifies a packed file. What is wrong with the file is in the report; an error says that the verification itself
// could not be carried out: the file or checkpoint cannot be read, ctx is done, an option makes no sense. What was
// checked until then is in a report, not OK, that accompanies the error; nil if nothing was. The checkpoint is opened
// first.
//
// The levels file, digest and codes read with ordinary reads, and level source reads the tensors of the checkpoint
// through a guarded memory map: a file that somebody truncates meanwhile is a finding, not a signal.
func Run(ctx context.Context, path string, o Options) (*Report, error) {
	levels, err := o.levels()
	if err != nil {
		return nil, err
	}
	s := begin(ctx, path, o, levels[len(levels)-1])
	defer s.close()
	if err := s.openSource(); err != nil {
		return nil, err
	}
	for _, l := range levels {
		if s.report.Failed() > 0 {
			s.report.add(Check{Level: l, Group: "all checks", Name: string(l), Verdict: Skip,
				Reason: "a level before this one failed"})
			continue
		}
		if err := s.run(l); err != nil {
			if len(s.report.Checks) == 0 {
				return nil, err
			}
			s.report.add(Check{Level: l, Group: "not finished", Name: string(l), Verdict: Fail, Reason: err.Error()})
			return s.report, err
		}
	}
	return s.report, nil
}

// levels to run.
func (o *Options) levels() ([]Level, error) {
	all := Levels()
	switch {
	case o.Level == File && o.Provenance != nil:
		return nil, fmt.Errorf("%w: a provenance statement is given, but level %s does not look at it",
			pack.ErrUnsupported, o.Level)
	case o.Level == "" && o.Source != "":
		return all, nil
	case o.Level == "":
		return all[:len(all)-1], nil
	case o.Level == Source && o.Source == "":
		return nil, fmt.Errorf("%w: level source needs the checkpoint", pack.ErrUnsupported)
	case o.Level != Source && o.Source != "":
		return nil, fmt.Errorf("%w: a checkpoint is given, but level %s does not look at it",
			pack.ErrUnsupported, o.Level)
	}
	if _, err := ParseLevel(string(o.Level)); err != nil {
		return nil, err
	}
	return all[:slices.Index(all, o.Level)+1], nil
}

// session is a verification in progress.
type session struct {
	Options
	ctx    context.Context
	path   string
	report *Report
	file   *packed.File   // once level file has passed
	view   view           // the same, by ordinary reads
	golden *golden.Record // nil: the file has none

	described *model.Description // by the file itself; nil: weights without a model

	from    *checkpoint.Checkpoint // nil: none is given, or fromErr says what is wrong with it
	fromErr error

	decoded []decoded // by packed tensor; what level digest found out for level codes

	mu    sync.Mutex // progress
	whole sync.Mutex // held while a tensor is in memory as a whole
}

func begin(ctx context.Context, path string, o Options, last Level) *session {
	o.Threads = cmp.Or(o.Threads, runtime.GOMAXPROCS(0))
	var against []string
	for _, path := range []string{o.Source, o.Statement} {
		if path != "" {
			against = append(against, path)
		}
	}
	return &session{ctx: ctx, path: path, Options: o, report: &Report{File: path, Level: last, Against: against}}
}

func (s *session) close() {
	if s.file != nil {
		s.file.Close()
	}
	if s.from != nil {
		s.from.Close()
	}
}

// reaches reports whether the verification goes as far as a level, if nothing fails.
func (s *session) reaches(l Level) bool {
	return slices.Index(Levels(), s.report.Level) >= slices.Index(Levels(), l)
}

func (s *session) run(l Level) error {
	switch l {
	case File:
		return s.checkFile()
	case Digest:
		return s.checkDigests()
	case Codes:
		return s.checkCodes()
	case Kernel:
		return s.checkKernels()
	case Logits:
		return s.checkLogits()
	}
	return s.checkSource()
}
