package convert

import (
	"context"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
)

// useOf says whether a matrix is the embedding, the output head, both or neither. Beside a second form of the head the
// embedding is no head.
func (d *decider) useOf(m matrix) calibrate.Use {
	u := calibrate.Use{Embeds: d.embeds(m), Heads: m.head}
	if u.Embeds && d.extraHead() == packed.HeadName {
		u.Heads = false
	}
	return u
}

// isTable reports whether a step is of the embedding or the head.
func (s *step) isTable() bool { return s.use != calibrate.Use{} }

// calibrated lists the steps whose codes the calibration chooses: of tables, or of layers.
func (p *Plan) calibrated(tables bool) (list []*step) {
	for _, s := range p.steps {
		if s.entry != nil && s.entry.Calibrated && s.isTable() == tables {
			list = append(list, s)
		}
	}
	return list
}

// chooseTables finds out how the codes of the embedding and the head are chosen.
func (p *Plan) chooseTables(ctx context.Context, floats packed.View) (err error) {
	p.choices, err = p.choicesFor(ctx, floats, p.calibrated(true))
	return err
}

// choicesFor returns how the codes of tables are chosen, by their use. A head has them from hidden states of the text.
func (p *Plan) choicesFor(ctx context.Context, floats packed.View,
	steps []*step) (map[calibrate.Use]*calibrate.Choice, error) {
	choices := map[calibrate.Use]*calibrate.Choice{}
	var states *calibrate.States
	for _, s := range steps {
		if choices[s.use] != nil {
			continue
		}
		if !s.use.Heads {
			choices[s.use] = calibrate.PlainChoice(s.job.Shape.K)
			continue
		}
		var err error
		if states == nil {
			states, err = calibrate.HeadStates(ctx, p.o.Threads, floats, p.others(), p.o.Progress.in(CalibrationPhase))
		}
		if err == nil {
			choices[s.use], err = states.Choice(ctx, p.o.Threads, s.use, p.o.Method == packed.GPTQ)
		}
		if err != nil {
			return nil, err
		}
	}
	return choices, nil
}

// tableDecoder makes codes of a table by a choice for the calibration text.
type tableDecoder struct {
	floatDecoder
	choice *calibrate.Choice
	job    quantize.Job
	chosen *quantize.Quantizer // of the rows as floats of 32 bits
}

func newTableDecoder(job quantize.Job, choice *calibrate.Choice) (coder, error) {
	q, err := quantize.New(job)
	if err != nil {
		return nil, err
	}
	wide := job
	wide.DType, wide.Stats, wide.Columns = quantize.F32, false, choice.Columns
	chosen, err := quantize.New(wide)
	return tableDecoder{floatDecoder{q, job.Stats}, choice, job, chosen}, err
}

func (t tableDecoder) Decode(codes []int8, row int, stored []byte) error {
	w := make([]float32, len(codes))
	t.job.DType.Widen(w, stored)
	if err := t.choice.Codes(t.chosen, row, codes, w); err != nil {
		return err
	}
	scales := t.chosen.Scales()
	perRow := len(scales) / t.job.Shape.M
	t.q.Adopt(row, codes, scales[row*perRow:][:len(codes)/t.job.Shape.K*perRow], stored)
	return nil
}
