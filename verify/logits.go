package verify

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/verify/reference"
)

// checkLogits is level logits: the engine gives the golden logits, its attention is right at any context depth, and
// tokenizer and chat template give the golden texts.
func (s *session) checkLogits() error {
	if s.described == nil {
		s.skip(Logits, "logits", "the file holds weights without a model")
		return nil
	}
	if err := s.checkSequences(); err != nil || s.report.Failed() > 0 {
		return err
	}
	if err := s.checkAttention(); err != nil {
		return err
	}
	return s.checkTexts()
}

// checkSequences compares logits with the golden ones: all sequences in one batch, in several passes, and token by
// token, so that both GEMM and GEMV kernels take part.
func (s *session) checkSequences() error {
	rows, err := s.logits()
	if err != nil {
		return s.finding(Logits, "logits", "reference", err)
	}
	if len(rows) == 0 {
		s.skip(Logits, "logits", "the model has too few positions for a golden sequence")
		return nil
	}
	texts := cutSequences(rows)
	s.cover(texts)
	for _, way := range []struct {
		group string
		run   func(*runner) error
		batch int
	}{
		{"all sequences in one batch", (*runner).batched, 0},
		{"in passes of few tokens", (*runner).batched, 7}, // as prompts are cut that are longer than a pass
		{"token by token", (*runner).single, 0},
	} {
		r := &runner{session: s, group: way.group, texts: texts, batch: way.batch}
		if err := r.check(way.run); err != nil {
			return err
		}
		if s.report.Failed() > 0 {
			return nil // the next way would say the same again
		}
	}
	if err := s.judgeLogits(); err != nil {
		return err
	}
	return s.checkFiltered(texts)
}

// cover counts what has a part in the logits of some sequences.
func (s *session) cover(texts [][]golden.Logits) {
	tokens := map[int32]bool{}
	c := &s.report.Coverage
	c.Sequences = len(texts)
	for _, t := range texts {
		c.Positions += len(t)
		for i := range t {
			tokens[t[i].Token] = true
		}
	}
	c.Tokens = len(tokens)
	c.Scaled = scaledBy(s.described, s.file.Manifest().Packed)
}

// scaledBy returns how many packed tensors are multiplied and scaled whenever the model computes logits. Expert tensors
// are not: each token chooses some.
func scaledBy(d *model.Description, entries []packed.Entry) (n int) {
	used := map[string]bool{packed.ScreenName: true}
	for _, need := range d.Tensors() {
		used[need.Name] = true
	}
	for i := range entries {
		if used[entries[i].Name] && entries[i].Experts() == 1 {
			n++
		}
	}
	return n
}

// logits returns the golden logits of the file; if there are none, the reference computes them.
func (s *session) logits() ([]golden.Logits, error) {
	if s.golden != nil && len(s.golden.Logits) > 0 {
		return s.golden.Logits, nil
	}
	s.report.note("the file has no golden logits: the engine was compared with the reference, here and now; " +
		"convert --golden full records them")
	r, err := s.recordNow(packed.GoldenFull)
	if err != nil {
		return nil, err
	}
	return r.Logits, nil
}

// cutSequences cuts the rows of a record into sequences.
func cutSequences(rows []golden.Logits) (texts [][]golden.Logits) {
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && rows[to].Sequence == rows[from].Sequence {
			to++
		}
		texts = append(texts, rows[from:to])
		from = to
	}
	return texts
}

// runner evaluates the golden sequences with the engine.
type runner struct {
	*session
	group  string
	texts  [][]golden.Logits
	top    int // engine.Chunk.Top
	batch  int // engine.Options.Batch
	engine *engine.Engine
	seqs   []*engine.Sequence
	done   int64

	notice   string // of the engine, about the device
	screened int    // rows of the head that the candidate filter left
}

// check runs one way of evaluating the sequences. An engine that cannot compute is a finding.
func (r *runner) check(run func(*runner) error) error {
	err := r.start()
	if err == nil {
		defer r.engine.Close()
		err = run(r)
		r.screened = r.engine.ScreenedRows()
		if err == nil {
			err = r.judgeDevice()
		}
	}
	return r.finding(Logits, r.group, "engine", err)
}

// judgeDevice notes which device has computed. One that has failed is an error: the CPU went on in its place.
func (r *runner) judgeDevice() error {
	if r.Device == "" || r.Device == device.CPU {
		return nil
	}
	info, ok := r.engine.DeviceInfo()
	switch {
	case ok:
		r.report.Device = fmt.Sprintf("%s: %s, %s", info.Name, info.Device, info.Driver)
		if n, all := r.engine.DeviceLayers(); n < all {
			r.report.Device += fmt.Sprintf("; %d of %d layers", n, all)
		}
	case r.Device != device.Auto:
		return fmt.Errorf("%w: device %s has not computed all of it: %s", pack.ErrUnsupported, r.Device, r.notice)
	}
	return nil
}

func (r *runner) start() (err error) {
	longest := 0
	for _, t := range r.texts {
		longest = max(longest, len(t))
	}
	r.engine, err = engine.New(r.file,
		engine.Options{Threads: r.Threads, Context: longest, Sequences: len(r.texts), Batch: r.batch, Device: r.Device,
			DeviceLayers: r.DeviceLayers,
			Notice:       func(line string) { r.notice = line }})
	if err != nil {
		return err
	}
	for range r.texts {
		seq, err := r.engine.NewSequence()
		if err != nil {
			r.engine.Close()
			return err
		}
		r.seqs = append(r.seqs, seq)
	}
	return nil
}

// batched gives the engine all given tokens of all sequences at once, then one more token of each at a time.
func (r *runner) batched() error {
	at := make([]int, len(r.texts))
	for {
		var pieces [][]golden.Logits
		for i, t := range r.texts {
			n := at[i]
			for n < len(t) && t[n].Given {
				n++
			}
			if n == at[i] && n < len(t) {
				n++
			}
			pieces = append(pieces, t[at[i]:n])
			at[i] = n
		}
		more, err := r.evaluate(pieces)
		if err != nil || !more {
			return err
		}
	}
}

// single gives the engine one token after the other, one sequence after the other.
func (r *runner) single() error {
	for i, t := range r.texts {
		for n := range t {
			pieces := make([][]golden.Logits, len(r.texts))
			pieces[i] = t[n : n+1]
			if _, err := r.evaluate(pieces); err != nil {
				return err
			}
		}
	}
	return nil
}

// evaluate appends a piece to every sequence and checks the logits of its tokens. more is false when all pieces are
// empty.
func (r *runner) evaluate(pieces [][]golden.Logits) (more bool, err error) {
	vocab := r.engine.Description().Vocab
	var batch []engine.Chunk
	var rows []golden.Logits
	for i, piece := range pieces {
		if len(piece) == 0 {
			continue
		}
		c := engine.Chunk{Seq: r.seqs[i], Logits: make([]float32, len(piece)*vocab), Top: r.top}
		for _, l := range piece {
			c.Tokens = append(c.Tokens, int(l.Token))
		}
		batch = append(batch, c)
		rows = append(rows, piece...)
	}
	if len(batch) == 0 {
		return false, nil
	}
	if err := r.engine.Forward(r.ctx, batch); err != nil {
		return false, err
	}
	for _, c := range batch {
		for z := c.Logits; len(z) > 0; z = z[vocab:] {
			r.position(&rows[0], z[:vocab])
			rows = rows[1:]
		}
	}
	return true, nil
}

// position checks the logits of one position.
func (r *runner) position(want *golden.Logits, z []float32) {
	c := Check{Level: Logits, Group: r.group,
		Name:    fmt.Sprintf("sequence %d, position %d", want.Sequence, want.Position),
		Verdict: Pass}
	if r.top > 0 {
		c.Name += fmt.Sprintf(", the largest %d", r.top)
	}
	if reason := differs(want, z, r.top); reason != "" {
		c.Verdict, c.Reason = Fail, reason
	}
	r.report.add(c)
	total := int64(0)
	for _, t := range r.texts {
		total += int64(len(t))
	}
	r.advance(string(Logits)+": "+r.group, &r.done, 1, total)
}

// differs says how logits differ from the golden ones: first the largest, whose values are known, then all. most is the
// number of largest logits that were computed, and then only these are compared; 0 = all were.
func differs(want *golden.Logits, z []float32, most int) string {
	n := len(want.TopTokens)
	if most > 0 {
		n = min(n, most)
	}
	top := reference.Top(z, n)
	for i, id := range want.TopTokens[:n] {
		v := want.TopLogits[i]
		if i >= len(top) || id < 0 || int(id) >= len(z) {
			return fmt.Sprintf("the golden logits have a place %d for token %d, the model has %d tokens", i, id, len(z))
		}
		if math.Float32bits(z[id]) != math.Float32bits(v) {
			return fmt.Sprintf("token %d: logit %v instead of %v", id, z[id], v)
		}
		if top[i] != int(id) {
			return fmt.Sprintf("place %d: token %d instead of %d", i, top[i], id)
		}
	}
	if most == 0 && golden.DigestLogits(z) != want.Digest {
		return fmt.Sprintf("the %d largest logits are right, the digest of all differs", len(top))
	}
	return ""
}
