package convert

import (
	"fmt"
	"slices"

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

// cutting says how a calibration text is cut into windows.
type cutting struct {
	room   int  // tokens of a window, without begin
	most   int  // tokens of all windows, without begin
	begin  int  // begin-of-text token in front of windows; −1 = none
	always bool // in front of all windows; else of every second one
}

// cutting returns the windows that the model and the method have.
func (p *Plan) cutting(t *tokenizer.Tokenizer) (c cutting, err error) {
	special, err := t.Encode("", true)
	if err != nil {
		return c, fmt.Errorf("calibration: %w", err)
	}
	c = cutting{room: min(calibrationWindow, p.model.FixedPositions()), most: meanSquareTokens, begin: -1,
		always: slices.Contains(special, p.model.BOS)}
	feedback := p.o.Method == packed.GPTQ
	if feedback {
		c.most = gptqTokens
	}
	// The first token of a text has massive activations, whichever it is. If the tokenizer adds no BOS, both forms
	// occur.
	if c.always || p.model.BOS >= 0 && feedback {
		c.begin, c.room = p.model.BOS, min(c.room, p.model.FixedPositions()-1)
	}
	if c.room < 1 {
		return c, fmt.Errorf("%w: calibration: max_position_embeddings of config.json is %d, which leaves no room for "+
			"text behind the begin-of-text token", pack.ErrUnsupported, p.model.FixedPositions())
	}
	return c, nil
}

// all is the number of tokens of the longest text of which every token is read.
func (c cutting) all() int { return c.most / c.room * c.room }

// windows cuts a text, and counts the tokens of it that are read.
func (c cutting) windows(ids []int) (windows [][]int, tokens int) {
	for i, part := range spread(ids, c.room, c.most) {
		tokens += len(part)
		if c.begin >= 0 && (c.always || i%2 == 0) {
			part = slices.Concat([]int{c.begin}, part)
		}
		windows = append(windows, part)
	}
	return windows, tokens
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
