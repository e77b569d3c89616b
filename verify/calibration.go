package verify

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/packed"
)

// calibrationNote says what was compared of tensors that were calibrated.
func calibrationNote(c *packed.Calibration, calibrated, all int) string {
	again := "convert with the same text gives the same bytes"
	if c != nil && c.SelfSeed != 0 {
		again = fmt.Sprintf("the model wrote the text itself, seed %d: convert --calibrate self gives the same bytes",
			c.SelfSeed)
	}
	if c != nil && c.Method == feedback {
		return fmt.Sprintf("calibration chose the scales and codes of %d of %d packed tensors (%s): what they miss of "+
			"the checkpoint was bounded; %s", calibrated, all, feedback, again)
	}
	return fmt.Sprintf("calibration chose the scales of %d of %d packed tensors: codes were compared with the "+
		"checkpoint at these scales; the choice was not repeated: %s", calibrated, all, again)
}

// checkSelf checks what the recipe says of a text that the model wrote itself (N73): it fills its windows.
func (o *origin) checkSelf(c *packed.Calibration) error {
	if o.model == nil {
		return broken("N73", "the file has no model, which could have written the calibration text")
	}
	most := 8192
	if c.Method == feedback {
		most = 16384
	}
	for begin := range 2 { // tokens in front of a window
		if room := min(512, o.model.FixedPositions()-begin); room > 0 && c.Tokens == most/room*room {
			return nil
		}
	}
	return broken("N73", "a calibration text of %d tokens, where the model writes up to %d in windows of up to 512",
		c.Tokens, most)
}
