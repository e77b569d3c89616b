// Package quantize turns rows of floats into codes and scales: absmean ternary, sign, two and four levels, integers
// of 3 to 6 and of 8 bits, the uneven values of IQ4_NL, MXFP4, and weights that hold few values already.
//
// A Quantizer works on one tensor, in panels of rows, so that memory does not grow with the tensor. Rules whose scale
// depends on the whole tensor need two passes: Measure over all rows, then Quantize over all rows. The result does not
// depend on the size of the panels, their order, the number of goroutines or the instruction set: sums are taken in
// float64 over the lanes of a row (measure.go) and then over rows in ascending order, and codes are defined by float32
// arithmetic on one weight at a time.
package quantize

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/pack"
)

// MaxRows bounds the rows of a tensor, as some bytes per row are kept.
const MaxRows = 1 << 20

// MinGroup is the smallest number of columns that may share a scale, so that scales stay far smaller than codes.
const MinGroup = 16

// Job describes how to quantize a tensor.
type Job struct {
	Rule  string // name of a Rule
	DType DType
	Shape pack.Shape
	Kind  ScaleKind // PerTensor, PerRow or PerGroup; "" = the default of the rule
	Group int       // columns per scale of PerGroup; 0 = fixed by the rule
	Stats bool      // collect Stats in pass 2, at some cost

	// Columns, if set, holds calibration data for the K columns: the mean square of each column's inputs. Scales are
	// then chosen to minimize the error weighted by them, instead of by the rule.
	Columns []float32
}

// Quantizer carries out a Job. Measure may be called concurrently for different rows, and so may Quantize. It takes
// memory by the rows and groups of the tensor when it sees the first weights: a plan has one for each tensor.
type Quantizer struct {
	job      Job
	rule     Rule
	round    rounding // of scales
	room     sync.Once
	rows     []rowStat  // of pass 1
	found    []rowScale // of pass 1 of exact rules
	whole    unit       // PerTensor: set by Fix
	scales   []float32  // row-major; PerRow and PerGroup: filled by Quantize
	fixed    bool
	replaced int // zeros, by an exact rule

	// for Stats
	errors  []rowError
	hasZero bool // the alphabet has
	mu      sync.Mutex
	counts  [256]int64 // by the two's complement byte of a code
	zeros   int64
}

// New returns a Quantizer for a job, or the reason why the job is invalid.
func New(j Job) (*Quantizer, error) {
	rule, err := Find(j.Rule)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(j.complete(rule), j.checkColumns(rule)); err != nil {
		return nil, err
	}
	q := &Quantizer{job: j, rule: rule, round: roundTo(rule.ScaleType(j.Kind))}
	q.fixed = q.Passes() == 1
	return q, nil
}

// allocate takes the memory of what is kept of rows.
func (q *Quantizer) allocate() {
	m := q.job.Shape.M
	if q.job.Stats {
		q.errors = make([]rowError, m)
		q.hasZero = slices.Contains(q.rule.Alphabet.Values, 0)
	}
	switch {
	case q.rule.Exact():
		q.found = make([]rowScale, m*q.groups())
	case q.job.Kind == PerTensor:
		q.rows = make([]rowStat, m)
	default:
		q.scales = make([]float32, m*q.groups())
	}
}

// complete fills in what the rule decides and refuses what it does not support.
func (j *Job) complete(r Rule) error {
	if err := j.DType.check(); err != nil {
		return err
	}
	if err := j.Shape.Check(); err != nil {
		return err
	}
	if j.Shape.M > MaxRows {
		return fmt.Errorf("%w: %d rows; at most %d are quantized", pack.ErrLimit, j.Shape.M, MaxRows)
	}
	if j.Kind == "" && !r.Exact() {
		j.Kind = r.Kinds[0]
	}
	if j.Kind != "" && !slices.Contains(r.Kinds, j.Kind) {
		return fmt.Errorf("%w: quantizer %s with one scale per %s; it has one per %s",
			pack.ErrUnsupported, r.Name, j.Kind, r.kindNames())
	}
	if j.Kind != PerGroup {
		j.Group = 0
		return nil
	}
	if j.Group == 0 {
		j.Group = r.Group
	}
	if r.Group != 0 && j.Group != r.Group {
		return fmt.Errorf("%w: quantizer %s with groups of %d columns; its groups have %d", pack.ErrUnsupported, r.Name,
			j.Group, r.Group)
	}
	if j.Group < MinGroup {
		return fmt.Errorf("%w: quantizer %s with groups of %d columns; a group has at least %d", pack.ErrUnsupported,
			r.Name, j.Group, MinGroup)
	}
	return nil
}

// group returns the number of columns that share a scale.
func (q *Quantizer) group() int {
	if q.job.Kind != PerGroup {
		return q.job.Shape.K
	}
	return q.job.Group
}

// groups per row.
func (q *Quantizer) groups() int { return (q.job.Shape.K + q.group() - 1) / q.group() }

// Passes returns 2 if Measure must see all rows before Quantize does, else 1.
func (q *Quantizer) Passes() int {
	if q.rule.Exact() || q.job.Kind == PerTensor {
		return 2
	}
	return 1
}

// Measure examines rows, from row on, in pass 1. It refuses NaN and infinity, naming row and column; exact rules refuse
// the first row that does not fit.
func (q *Quantizer) Measure(row int, src []byte) error {
	return q.eachRow(row, src, func(m int, src []byte) (err error) {
		if q.rule.Exact() {
			return q.eachPart(m, len(src), func(part, from, to int) error {
				q.found[part], err = q.rule.measure(q.job.DType, m, from,
					src[from*q.job.DType.Size():to*q.job.DType.Size()],
					q.job.Kind)
				return err
			})
		}
		q.rows[m] = measureRow(q.job.DType, src)
		return q.rows[m].finite(q.job.DType, m, 0, src)
	})
}

// Fix ends pass 1: it determines the scale of the tensor.
func (q *Quantizer) Fix() error {
	if q.fixed {
		return nil
	}
	q.room.Do(q.allocate)
	q.fixed = true
	if q.rule.Exact() {
		return q.fixValues()
	}
	t, weights := total(q.rows), q.job.Shape.M*q.job.Shape.K
	u, err := q.fit(t.stat(weights), 0)
	if err != nil {
		return err
	}
	if level == generic && q.job.DType.Size() == 2 && weights > 1<<16 {
		u.tabulate(&q.rule, q.job.DType)
	}
	q.whole, q.scales = u, []float32{u.scale}
	return nil
}

// fit asks the rule for a scale and refuses one that is not finite.
func (q *Quantizer) fit(s stat, row int) (unit, error) {
	scale, a := q.rule.fit(s, q.round)
	if math.IsInf(float64(scale), 0) {
		return unit{}, fmt.Errorf("%w: row %d: weights up to %v are too large for the scale of quantizer %s",
			pack.ErrUnsupported, row, s.maxAbs(), q.rule.Name)
	}
	return newUnit(&q.rule, scale, a), nil
}

// Quantize writes the codes of the rows from row on to dst, in pass 2.
func (q *Quantizer) Quantize(dst []int8, row int, src []byte) error {
	k := q.job.Shape.K
	if !q.fixed {
		return fmt.Errorf("quantizer %s: Quantize before Fix", q.rule.Name)
	}
	if len(dst)*q.job.DType.Size() != len(src) {
		return fmt.Errorf("quantizer %s: %d codes for %d bytes of %s", q.rule.Name, len(dst), len(src), q.job.DType)
	}
	return q.eachRow(row, src, func(m int, src []byte) error {
		return q.quantizeRow(dst[(m-row)*k:(m-row+1)*k], m, src)
	})
}

func (q *Quantizer) quantizeRow(dst []int8, m int, src []byte) error {
	switch {
	case q.rule.Exact():
		return q.eachPart(m, len(src), func(part, from, to int) error {
			scale, src := q.scales[min(part, len(q.scales)-1)], src[from*q.job.DType.Size():to*q.job.DType.Size()]
			q.rule.codesOf(dst[from:to], q.job.DType, src, scale)
			q.note(m, dst[from:to], src, scale)
			return nil
		})
	case q.job.Kind == PerTensor:
		q.rule.codes(dst, q.job.DType, src, &q.whole)
		q.note(m, dst, src, q.whole.scale)
		return nil
	}
	group, size := q.group(), q.job.DType.Size()
	for g, k := 0, 0; k < len(dst); g, k = g+1, k+group {
		end := min(k+group, len(dst))
		scale, err := q.quantizePart(dst[k:end], m, k, src[k*size:end*size])
		if err != nil {
			return err
		}
		q.scales[m*q.groups()+g] = scale
	}
	return nil
}

// quantizePart finds the scale of the weights of row m from column k on and quantizes them.
func (q *Quantizer) quantizePart(dst []int8, m, k int, src []byte) (scale float32, err error) {
	r := measureRow(q.job.DType, src)
	if err := r.finite(q.job.DType, m, k, src); err != nil {
		return 0, err
	}
	u, err := q.fit(r.stat(len(dst)), m)
	if err != nil {
		return 0, err
	}
	if q.job.Columns != nil {
		u = q.calibrated(u, dst, src, q.job.Columns[k:k+len(dst)])
	}
	q.rule.codes(dst, q.job.DType, src, &u)
	q.note(m, dst, src, u.scale)
	return u.scale, nil
}

// eachPart splits a row of an exact rule, of n bytes, into the columns that share a scale.
func (q *Quantizer) eachPart(m, n int, do func(part, from, to int) error) error {
	k, group, parts := n/q.job.DType.Size(), q.job.Group, q.groups()
	if q.job.Kind != PerGroup {
		group = k
	}
	for g := range parts {
		if err := do(m*parts+g, g*group, min((g+1)*group, k)); err != nil {
			return err
		}
	}
	return nil
}

func (q *Quantizer) note(m int, codes []int8, src []byte, scale float32) {
	if q.job.Stats {
		q.collect(m, codes, src, scale)
	}
}

// eachRow cuts whole rows out of src.
func (q *Quantizer) eachRow(row int, src []byte, do func(m int, src []byte) error) error {
	n := q.job.Shape.K * q.job.DType.Size()
	if row < 0 || len(src)%n != 0 || row+len(src)/n > q.job.Shape.M {
		return fmt.Errorf("quantizer %s: %d bytes from row %d on are not whole rows of %s %v", q.rule.Name,
			len(src), row,
			q.job.DType, q.job.Shape)
	}
	q.room.Do(q.allocate)
	for ; len(src) > 0; row, src = row+1, src[n:] {
		if err := do(row, src[:n]); err != nil {
			return err
		}
	}
	return nil
}

// Rule that the quantizer carries out.
func (q *Quantizer) Rule() Rule { return q.rule }

// Kind of the scales and columns per scale (0 unless PerGroup). An exact rule knows it after Fix.
func (q *Quantizer) Kind() (kind ScaleKind, group int) { return q.job.Kind, q.job.Group }

// ScaleType is the type that holds all scales exactly.
func (q *Quantizer) ScaleType() ScaleType { return q.rule.ScaleType(q.job.Kind) }

// Scales of the tensor, row-major: 1, M or M·⌈K/Group⌉. They are complete after pass 2.
func (q *Quantizer) Scales() []float32 {
	q.room.Do(q.allocate)
	return q.scales
}
