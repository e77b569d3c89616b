package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/lowpack/lowpack/convert/internal/calibrate"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// selfSeed is the seed of the text that a model writes for its own calibration (QUANTIZATION N73).
const selfSeed = 1

// unwritten stands for the text that the model is to write: as long, and with a digest as long.
func (p *Plan) unwritten() *tokenized {
	return &tokenized{make([]int, p.cut.all()), strings.Repeat("0", 2*sha256.Size)}
}

// writing says how the model writes its calibration text.
func (p *Plan) writing(t *tokenizer.Tokenizer) calibrate.Writing {
	o := calibrate.Writing{Threads: p.o.Threads, Tokens: p.cut.all(), Room: p.cut.room, Begin: p.cut.begin,
		End: append(t.StopIDs(), p.model.EOS...), Seed: selfSeed, Progress: p.o.Progress.in(SelfTextPhase)}
	for id := range min(t.Size(), p.model.Vocab) {
		if !t.Special(id) && len(t.TokenBytes(id)) > 0 {
			o.Openings = append(o.Openings, id)
		}
	}
	return o
}

// write has the model write its calibration text, and uses it.
func (p *Plan) write(ctx context.Context, floats packed.View) error {
	t, err := tokenizer.Load(p.source.File)
	if err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	texts, err := calibrate.Write(ctx, floats, p.writing(t))
	if err != nil {
		return err
	}
	p.o.tokenized = &tokenized{}
	hash := sha256.New()
	for i, ids := range texts {
		if i > 0 {
			hash.Write([]byte{0})
		}
		hash.Write([]byte(t.Decode(ids, true)))
		p.o.tokenized.ids = append(p.o.tokenized.ids, ids...)
	}
	p.o.tokenized.digest = hex.EncodeToString(hash.Sum(nil))
	p.use(p.o.tokenized)
	p.contents.Manifest.Recipe.Calibration = p.Recipe.Calibration
	return nil
}
