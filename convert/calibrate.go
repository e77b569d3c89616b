package convert

import (
	"context"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// Bounds on how much of a calibration text is read. Windows are spread over the whole text, since neighbouring tokens
// are alike, and begin the way a text of the model does. Error feedback overfits if tokens are few.
const (
	meanSquareTokens  = 8192
	gptqTokens        = 16384
	calibrationWindow = 512
	calibrationLeast  = 256 // fewer tokens say more about the text than about the model
)

// calibration holds the text that scales are chosen with, and the model's results on it.
type calibration struct {
	windows [][]int
	columns map[string][]float32 // by the name of a weight; nil before the model has run
	chosen  *chosen              // codes and scales, with GPTQ; nil before the model has run
}

// calibrates reports whether the scales of a matrix are chosen with the calibration text. Experts see too few tokens of
// it.
func (d *decider) calibrates(m matrix, q *quantize.Quantizer) bool {
	kind, _ := q.Kind()
	return d.o.Calibration != nil && !m.head && m.experts == 0 && q.Rule().Calibrates() && kind != quantize.PerTensor
}

// planCalibration cuts the texts into tokens and notes it in the recipe.
func (p *Plan) planCalibration() error {
	if p.o.Calibration == nil {
		return nil
	}
	if !slices.ContainsFunc(p.steps, func(s *step) bool { return s.entry != nil && s.entry.Calibrated }) {
		return fmt.Errorf("%w: calibration has no scales to choose: no linear layer of floats is to become int4, "+
			"mxfp4, int2 or absmax with scales per row or group; for example --quant int4 --scale "+
			"group:32 --allow-lossy",
			pack.ErrUnsupported)
	}
	if p.model == nil || !p.hasTokenizer() {
		return fmt.Errorf("%w: calibration runs the model over a text, and there is no model with a tokenizer",
			pack.ErrUnsupported)
	}
	t, err := tokenizer.Load(p.source.File)
	if err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	ids, digest, err := p.tokens(t)
	if err != nil {
		return err
	}
	most := meanSquareTokens
	if p.o.Method == packed.GPTQ {
		most = gptqTokens
	}
	if len(ids) < calibrationLeast {
		return fmt.Errorf("%w: the calibration text has %d tokens; at least %d are needed, and up to %d are read",
			pack.ErrUnsupported, len(ids), calibrationLeast, most)
	}
	special, err := t.Encode("", true)
	if err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	begin, always := p.model.BOS, slices.Contains(special, p.model.BOS)
	room := min(calibrationWindow, p.model.FixedPositions())
	if always || begin >= 0 && p.o.Method == packed.GPTQ {
		room = min(room, p.model.FixedPositions()-1)
	}
	if room < 1 {
		return fmt.Errorf("%w: calibration: max_position_embeddings of config.json is %d, which leaves no room for "+
			"text behind the begin-of-text token", pack.ErrUnsupported, p.model.FixedPositions())
	}
	tokens := 0
	for i, part := range spread(ids, room, most) {
		tokens += len(part)
		// The first token of a text has massive activations, whichever it is. If the tokenizer adds no BOS, both forms
		// occur.
		if even := i%2 == 0; always || begin >= 0 && even && p.o.Method == packed.GPTQ {
			part = slices.Concat([]int{begin}, part)
		}
		p.calibration.windows = append(p.calibration.windows, part)
	}
	p.Recipe.Calibration = &packed.Calibration{Method: p.o.Method, Text: digest, Tokens: tokens}
	return nil
}

// spread returns windows of a text: either all of it in parts of about the same length, or at most most tokens at equal
// distances.
func spread(ids []int, room, most int) (windows [][]int) {
	n := max(1, min((len(ids)+room-1)/room, most/room))
	for i := range n {
		from, to := i*len(ids)/n, (i+1)*len(ids)/n
		windows = append(windows, ids[from:min(from+room, to)])
	}
	return windows
}

// calibrate runs the checkpoint's floats over the text.
func (p *Plan) calibrate(ctx context.Context, target string) error {
	if len(p.calibration.windows) == 0 {
		return nil
	}
	return p.withFloats(ctx, target, func(floats packed.View) (err error) {
		if p.o.Method == packed.GPTQ {
			return p.choose(ctx, target, floats)
		}
		p.calibration.columns, err = p.columnsOf(ctx, floats, p.calibration.windows)
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
	for _, s := range p.steps {
		if err == nil && s.entry != nil && s.entry.Calibrated && columns[s.entry.Name] == nil {
			err = fmt.Errorf("calibration: the engine did not show what tensor %q multiplies", s.entry.Name)
		}
	}
	return columns, err
}
