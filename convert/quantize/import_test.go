package quantize

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// unpackU8 unpacks rows [from, to) of a whole tensor, and with the last row the padding rows past M.
func unpackU8(dst []int8, s pack.Shape, packed []byte, from, to int) error {
	stored := (s.M + 3) / 4
	end := to
	if to == s.M {
		end = 4 * stored
	}
	for row := from; row < end; {
		n := min(end-row, stored-row%stored)
		err := UnpackU8(dst[min((row-from)*s.K, (to-from)*s.K):], s, row, packed[row%stored*s.K:][:n*s.K])
		if err != nil {
			return err
		}
		row += n
	}
	return nil
}

// TestUnpackU8 compares with bytes that the published packing code produced, in any division into rows.
func TestUnpackU8(t *testing.T) {
	text, err := os.ReadFile(shared.Testdata(t, "vectors/hf_bitnet_u8.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Shape   [2]int
			Weights [][]int8
			Hex     string `json:"expected_hex"`
		}
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Cases) != 3 {
		t.Fatal(err, len(file.Cases))
	}
	for _, c := range file.Cases {
		packed, err := hex.DecodeString(c.Hex)
		if err != nil {
			t.Fatal(err)
		}
		s := pack.Shape{M: c.Shape[0], K: c.Shape[1]}
		for from := range s.M {
			for to := from + 1; to <= s.M; to++ {
				got := make([]int8, (to-from)*s.K)
				if err := unpackU8(got, s, packed, from, to); err != nil ||
					!slices.Equal(got, slices.Concat(c.Weights[from:to]...)) {
					t.Errorf("%v, rows %d to %d: %v, %v", s, from, to, got, err)
				}
			}
		}
	}
}

// TestUnpackU8Refuses: the fourth code is refused with its position, and so are tensors of the wrong size.
func TestUnpackU8Refuses(t *testing.T) {
	s := pack.Shape{M: 6, K: 3}
	dst := make([]int8, 18)
	packed := slices.Repeat([]byte{0x05}, 6) // rows 0–3 are zeros, 4 and 5 are −1
	packed[4] |= 0x0c                        // byte row 1, column 1, bits 2–3: row 3
	err := unpackU8(dst, s, packed, 0, 6)
	if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), "row 3, column 1") {
		t.Errorf("%v", err)
	}
	if err := unpackU8(dst[:9], s, packed, 0, 3); err != nil {
		t.Errorf("rows before the fault: %v", err)
	}
	packed[4] = 0x05 | 1<<6 // column 1 of row 7
	if err := unpackU8(dst[:15], s, packed, 0, 5); err != nil {
		t.Errorf("rows before the last one: %v", err)
	}
	if err := unpackU8(dst, s, packed, 0, 6); !errors.Is(err, pack.ErrCorrupt) ||
		!strings.Contains(err.Error(), "row 7 of the matrix does not exist, but column 1") {
		t.Errorf("a row past the last one: %v", err)
	}
	for name, e := range map[string]error{
		"half a row":     UnpackU8(dst, s, 0, packed[:5]),
		"too few codes":  UnpackU8(dst[:5], s, 0, packed),
		"too many rows":  UnpackU8(dst, s, 1, packed),
		"rows past them": UnpackU8(dst, s, 8, packed),
	} {
		if !errors.Is(e, pack.ErrCorrupt) {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// TestUnpackU8Words compares rows of every length with decoding code by code.
func TestUnpackU8Words(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for k := 1; k < 100; k++ {
			unpackRowsOf(t, k)
		}
	})
}

func unpackRowsOf(t *testing.T, k int) {
	s := pack.Shape{M: 4, K: k}
	packed, dst := fence.Tail[byte](fence.New(t, k), k), make([]int8, 4*k)
	for i := range packed {
		packed[i] = byte(i%3) | byte(i/3%3)<<2 | byte(i/9%3)<<4 | byte((i+1)%3)<<6
	}
	if err := unpackU8(dst, s, packed, 0, 4); err != nil {
		t.Fatal(err)
	}
	for i, c := range dst {
		if want := int8(packed[i%k]>>(2*(i/k))&3) - 1; c != want {
			t.Fatalf("%d columns, row %d, column %d: %d, not %d", k, i/k, i%k, c, want)
		}
	}
	for i := range packed { // a single fault, at every position
		before := packed[i]
		packed[i] |= 0x30
		if err := unpackU8(dst, s, packed, 0, 4); !errors.Is(err, pack.ErrCorrupt) ||
			!strings.Contains(err.Error(), fmt.Sprintf("row 2, column %d ", i)) {
			t.Fatalf("%d columns, code 3 in column %d: %v", k, i, err)
		}
		packed[i] = before
	}
}

func TestScaleU8(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		stored  float32
		divides bool
		want    float32 // 0 = refused
	}{
		{0.5, false, 0.5}, {0.5, true, 2}, {3, true, 1 / float32(3)}, {2.1632, false, 2.1632},
		{0, false, 0}, {0, true, 0}, {-1, false, 0}, {nan, false, 0}, {nan, true, 0}, {inf, false, 0}, {inf, true, 0},
		{math.Float32frombits(1), true, 0}, // its reciprocal is infinite
	} {
		got, err := ScaleU8(c.stored, c.divides)
		if got != c.want || (err == nil) != (c.want != 0) || err != nil && !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%v, divides %v: %v, %v; want %v", c.stored, c.divides, got, err, c.want)
		}
	}
}
