package convert

import (
	"context"
	"fmt"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/atomicfile"
)

// chosen holds codes and scales of weights in a file next to the target, unnamed where the file system supports that.
type chosen struct {
	file    *atomicfile.File
	weights map[string]chosenWeight
}

// chosenWeight holds the file offsets of one weight.
type chosenWeight struct{ codes, scales int64 }

// choose runs the model of v to choose codes and scales. They are kept until the calibration is closed.
func (p *Plan) choose(ctx context.Context, target string, v packed.View) error {
	c, size := &chosen{weights: map[string]chosenWeight{}}, int64(0)
	weights := map[string]calibrate.Weight{}
	for _, s := range p.calibrated(false) {
		scales, err := s.entry.ScaleCount()
		if err != nil {
			return err
		}
		at := chosenWeight{codes: size, scales: size + int64(s.job.Shape.M)*int64(s.job.Shape.K)}
		c.weights[s.entry.Name] = at
		weights[s.entry.Name] = calibrate.Weight{Job: s.job,
			Done: func(codes []int8, scales []float32) error { return c.write(at, codes, scales) }}
		size = at.scales + 4*int64(scales)
	}
	var err error
	if c.file, err = atomicfile.CreateSized(p.fs, target+".codes", size); err != nil {
		return err
	}
	p.chosen = c
	o := calibrate.Options{Threads: p.o.Threads, Windows: p.windows,
		Activation: p.contents.Manifest.Activation}
	o.Progress = p.o.Progress.in(FeedbackPhase)
	return calibrate.Quantize(ctx, v, weights, o)
}

func (c *chosen) write(at chosenWeight, codes []int8, scales []float32) error {
	_, err := c.file.WriteAt(packed.CodeBytes(codes), at.codes)
	if err == nil {
		_, err = c.file.WriteAt(quantize.FloatBytes(scales), at.scales)
	}
	if err != nil {
		return atomicfile.Failed(fmt.Errorf("write %s: %w", c.file.Target(), err))
	}
	return nil
}

// close discards the file of chosen codes, if there is one.
func (c *calibration) close() {
	if c.chosen != nil {
		c.chosen.file.Abort()
	}
}

// decoder returns the codes and scales chosen for a weight.
func (c *chosen) decoder(name string, job quantize.Job) (coder, error) {
	q, err := quantize.New(job)
	if err != nil {
		return nil, err
	}
	return chosenDecoder{floatDecoder{q, job.Stats}, c.file, c.weights[name], job}, nil
}

// chosenDecoder is a floatDecoder whose codes are already known.
type chosenDecoder struct {
	floatDecoder
	file *atomicfile.File
	at   chosenWeight
	job  quantize.Job
}

func (c chosenDecoder) Decode(codes []int8, row int, stored []byte) error {
	k := c.job.Shape.K
	perRow := len(c.q.Scales()) / c.job.Shape.M
	b := make([]byte, 4*perRow*len(codes)/k)
	_, err := c.file.ReadAt(packed.CodeBytes(codes), c.at.codes+int64(row)*int64(k))
	if err == nil {
		_, err = c.file.ReadAt(b, c.at.scales+4*int64(row)*int64(perRow))
	}
	if err != nil {
		return atomicfile.Failed(fmt.Errorf("read %s: %w", c.file.Target(), err))
	}
	scales := make([]float32, len(b)/4)
	quantize.F32.Widen(scales, b)
	c.q.Adopt(row, codes, scales, stored)
	return nil
}
