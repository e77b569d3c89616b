package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
)

// CodesSuffix is added to the target for the file that holds codes and scales while error feedback chooses them. An
// interrupted conversion leaves it, and a journal, as it leaves those of the target (Options.Resume).
const CodesSuffix = ".codes"

// chosen holds codes and scales of weights in a file next to the target, unnamed where the file system supports that.
// With Options.Resume an interruption leaves it, and a journal of what it holds.
type chosen struct {
	file    *atomicfile.File
	journal *journal // nil: not resumable
	weights map[string]chosenWeight
}

// chosenWeight holds the file offsets of one weight, and its counts.
type chosenWeight struct {
	codesAt, scalesAt int64
	codes, scales     int
}

// choose runs the model of v to choose codes and scales. They are kept until the calibration is closed.
func (p *Plan) choose(ctx context.Context, target string, v packed.View) error {
	c, size := &chosen{weights: map[string]chosenWeight{}}, int64(0)
	p.chosen = c
	weights := map[string]calibrate.Weight{}
	for _, s := range p.calibrated(false) {
		scales, err := s.entry.ScaleCount()
		if err != nil {
			return err
		}
		at := chosenWeight{codes: s.job.Shape.M * s.job.Shape.K, scales: scales, codesAt: size}
		at.scalesAt = size + int64(at.codes)
		size = at.scalesAt + 4*int64(scales)
		name := s.entry.Name
		c.weights[name] = at
		weights[name] = calibrate.Weight{Job: s.job,
			Known: func() ([]int8, []float32, error) { return c.known(name) },
			Done:  func(codes []int8, scales []float32) error { return c.write(name, codes, scales) }}
	}
	if err := c.open(p, target+CodesSuffix, size); err != nil {
		return err
	}
	if all, err := c.complete(); all || err != nil {
		return err
	}
	o := calibrate.Options{Threads: p.o.Threads, Windows: p.windows,
		Activation: p.contents.Manifest.Activation}
	o.Progress = p.o.Progress.in(FeedbackPhase)
	return calibrate.Quantize(ctx, v, weights, o)
}

// open makes the file, or continues that of an interrupted run of the same plan.
func (c *chosen) open(p *Plan, path string, size int64) (err error) {
	if !p.o.Resume {
		c.file, err = atomicfile.CreateSized(p.fs, path, size)
		return err
	}
	if err := atomicfile.CheckSpace(path, size); err != nil {
		return err
	}
	if c.file, err = atomicfile.Resume(p.fs, path); err != nil {
		return err
	}
	plan, err := json.Marshal(p.contents.Manifest) // the digest of the text is in it
	if err != nil {
		return err
	}
	identity, err := p.identity(plan)
	if err != nil {
		return err
	}
	c.journal, err = openJournal(p.fs, path, identity)
	return err
}

func (c *chosen) write(name string, codes []int8, scales []float32) error {
	at := c.weights[name]
	_, err := c.file.WriteAt(packed.CodeBytes(codes), at.codesAt)
	if err == nil {
		_, err = c.file.WriteAt(quantize.FloatBytes(scales), at.scalesAt)
	}
	if err != nil {
		return atomicfile.Failed(fmt.Errorf("write %s: %w", c.file.Target(), err))
	}
	if c.journal == nil {
		return nil
	}
	return c.journal.add(note{Tensor: name, SHA256: chosenDigest(codes, scales)})
}

// known returns what an earlier run has chosen for a weight; nil if that is nothing, or is damaged.
func (c *chosen) known(name string) ([]int8, []float32, error) {
	if c.journal == nil {
		return nil, nil, nil
	}
	n, ok := c.journal.tensor(name)
	if !ok {
		return nil, nil, nil
	}
	at := c.weights[name]
	codes, scales := make([]int8, at.codes), make([]float32, at.scales)
	if err := c.read(codes, scales, at.codesAt, at.scalesAt); errors.Is(err, io.EOF) {
		return nil, nil, nil
	} else if err != nil || chosenDigest(codes, scales) != n.SHA256 {
		return nil, nil, err
	}
	return codes, scales, nil
}

// complete reports whether an earlier run has chosen all weights.
func (c *chosen) complete() (bool, error) {
	if c.journal == nil || len(c.journal.done) <= len(c.weights) { // its first line is of the plan
		return false, nil
	}
	for name := range c.weights {
		if codes, _, err := c.known(name); codes == nil || err != nil {
			return false, err
		}
	}
	return true, nil
}

func chosenDigest(codes []int8, scales []float32) string {
	h := sha256.New()
	h.Write(packed.CodeBytes(codes))
	h.Write(quantize.FloatBytes(scales))
	return hex.EncodeToString(h.Sum(nil))
}

// read fills in some codes and scales, which are at offsets of the file.
func (c *chosen) read(codes []int8, scales []float32, codesAt, scalesAt int64) error {
	b := make([]byte, 4*len(scales))
	_, err := c.file.ReadAt(packed.CodeBytes(codes), codesAt)
	if err == nil {
		_, err = c.file.ReadAt(b, scalesAt)
	}
	if err != nil {
		return atomicfile.Failed(fmt.Errorf("read %s: %w", c.file.Target(), err))
	}
	quantize.F32.Widen(scales, b)
	return nil
}

// close ends the file of chosen codes, if there is one. With Options.Resume it is kept.
func (c *calibration) close() {
	if c.chosen == nil || c.chosen.file == nil {
		return
	}
	c.chosen.file.Abort()
	if c.chosen.journal != nil {
		c.chosen.journal.file.Close()
	}
}

// decoder returns the codes and scales chosen for a weight.
func (c *chosen) decoder(name string, job quantize.Job) (coder, error) {
	q, err := quantize.New(job)
	if err != nil {
		return nil, err
	}
	return chosenDecoder{floatDecoder{q, job.Stats}, c, c.weights[name], job}, nil
}

// chosenDecoder is a floatDecoder whose codes are already known.
type chosenDecoder struct {
	floatDecoder
	from *chosen
	at   chosenWeight
	job  quantize.Job
}

func (c chosenDecoder) Decode(codes []int8, row int, stored []byte) error {
	k := c.job.Shape.K
	perRow := len(c.q.Scales()) / c.job.Shape.M
	scales := make([]float32, perRow*len(codes)/k)
	err := c.from.read(codes, scales, c.at.codesAt+int64(row)*int64(k), c.at.scalesAt+4*int64(row)*int64(perRow))
	if err != nil {
		return err
	}
	c.q.Adopt(row, codes, scales, stored)
	return nil
}
