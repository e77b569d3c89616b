package reference

import "github.com/lowpack/lowpack/formats/model"

// slopesOf are the slopes of ALiBi of all heads, nil for a model without it (N44).
func slopesOf(d *model.Description) (slopes []float32) {
	if !d.ALiBi {
		return nil
	}
	m := 1 // the largest power of two that is not more than the number of heads
	for 2*m <= d.Heads {
		m *= 2
	}
	for h := range d.Heads {
		steps := float64(8*(h+1)) / float64(m)
		if h >= m {
			steps = float64(4*(2*(h-m)+1)) / float64(m)
		}
		slopes = append(slopes, float32(expWide(-float64(steps*ln(2)))))
	}
	return slopes
}
