package convert

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// calibration holds the text that scales are chosen with, and the model's results on it.
type calibration struct {
	cut     cutting
	windows [][]int              // nil before the model has written its own text
	columns map[string][]float32 // by the name of a weight; nil before the model has run
	chosen  *chosen              // codes and scales, with GPTQ; nil before the model has run

	choices map[calibrate.Use]*calibrate.Choice // of the embedding and the head; nil before the model has run
}

// calibrates reports whether the scales of a matrix are chosen with the calibration text: those of linear layers of
// the blocks, of the embedding and of the head. Experts see too few tokens of it.
func (d *decider) calibrates(m matrix, q *quantize.Quantizer) bool {
	kind, _ := q.Kind()
	return d.o.calibrates() && m.experts == 0 && q.Rule().Calibrates() && kind != quantize.PerTensor
}

// planCalibration cuts the texts into tokens and notes it in the recipe.
func (p *Plan) planCalibration() error {
	if !p.o.calibrates() {
		return nil
	}
	if !slices.ContainsFunc(p.steps, func(s *step) bool { return s.entry != nil && s.entry.Calibrated }) {
		if slices.ContainsFunc(p.steps, (*step).quantizesExperts) {
			return fmt.Errorf("%w: calibration has no scales to choose: it leaves experts alone, as each sees too few "+
				"tokens, and no other linear layer, embedding or head of floats is to be quantized; include other "+
				"layers too, or leave out the calibration text", pack.ErrUnsupported)
		}
		return fmt.Errorf("%w: calibration has no scales to choose: no linear layer, embedding or head of floats is "+
			"to be quantized by one of %s, with scales per row or group; for example --quant int4 --scale group:32 "+
			"--allow-lossy",
			pack.ErrUnsupported, strings.Join(quantize.Calibrating(), ", "))
	}
	if p.model == nil || !p.hasTokenizer() {
		return fmt.Errorf("%w: calibration runs the model over a text, and there is no model with a tokenizer",
			pack.ErrUnsupported)
	}
	t, err := tokenizer.Load(p.source.File)
	if err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	if p.cut, err = p.cutting(t); err != nil {
		return err
	}
	if p.o.tokenized == nil && p.o.Self {
		p.use(p.unwritten())
		p.windows = nil
		return nil
	}
	if p.o.tokenized == nil {
		if p.o.tokenized, err = p.tokens(t); err != nil {
			return err
		}
	}
	p.use(p.o.tokenized)
	return nil
}

// quantizesExperts reports whether a step makes codes of the floats of experts.
func (s *step) quantizesExperts() bool {
	return s.entry != nil && s.job.Rule != "" && len(s.entry.Shape) == 3
}

// use cuts a text into windows and notes it in the recipe.
func (p *Plan) use(text *tokenized) {
	c := &packed.Calibration{Method: p.o.Method, Text: text.digest}
	p.windows, c.Tokens = p.cut.windows(text.ids)
	if p.o.Self {
		c.SelfSeed = selfSeed
	}
	p.Recipe.Calibration = c
}

// calibrate runs the checkpoint's floats over the text, which they write first if nobody else has.
func (p *Plan) calibrate(ctx context.Context, target string) error {
	if p.Recipe.Calibration == nil {
		return nil
	}
	return p.withFloats(ctx, target, func(floats packed.View) (err error) {
		if p.windows == nil {
			if err := p.write(ctx, floats); err != nil {
				return err
			}
		}
		if err := p.chooseTables(ctx, floats); err != nil {
			return err
		}
		if len(p.calibrated(false)) == 0 {
			return nil
		}
		if p.o.Method == packed.GPTQ {
			return p.choose(ctx, target, floats)
		}
		p.columns, err = p.columnsOf(ctx, floats, p.windows)
		return err
	})
}

// withFloats gives the checkpoint's floats to use. Meanwhile they lie in a file next to the target, in the form that
// the engine maps, so that memory stays bounded; the file is unnamed where the file system supports that, and is
// removed afterwards.
func (p *Plan) withFloats(ctx context.Context, target string, use func(floats packed.View) error) error {
	recipe := packed.Recipe{Quant: QuantNone, Golden: packed.GoldenNone}
	floats, err := NewPlan(ctx, p.path, Options{Recipe: recipe, Threads: p.o.Threads, Progress: p.o.Progress})
	if err != nil {
		return err
	}
	defer floats.Close()
	floats.fs, floats.limits = p.fs, p.limits
	r, err := floats.newRun(target + ".floats")
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.convert(ctx); err != nil {
		return err
	}
	return use(r.w)
}

// columnsOf returns the mean squares of what the weights multiply whose scales are calibrated.
func (p *Plan) columnsOf(ctx context.Context, floats packed.View, windows [][]int) (map[string][]float32, error) {
	columns, err := calibrate.Columns(ctx, p.o.Threads, floats, windows, p.o.Progress.in(CalibrationPhase))
	for _, s := range p.calibrated(false) {
		if err == nil && columns[s.entry.Name] == nil {
			err = fmt.Errorf("calibration: the engine did not show what tensor %q multiplies", s.entry.Name)
		}
	}
	return columns, err
}
