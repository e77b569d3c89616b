package kernel

import (
	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
	"github.com/lowpack/lowpack/pack"
)

// The kinds of tables, by the number of indices of a row that lie together.
var (
	lutFour = [...]*lutKind{
		1: {digits: 4, groups: 8, build: asm.VecLUTBuild4, add: asm.VecLUTAdd4Tile1},
		4: {digits: 4, groups: 8, build: asm.VecLUTBuild4, add: asm.VecLUTAdd4Tile4},
		8: {digits: 4, groups: 8, build: asm.VecLUTBuild4, add: asm.VecLUTAdd4Tile8},
	}
	lutFive = [...]*lutKind{
		1: {digits: 5, groups: 4, build: asm.VecLUTBuild5, add: asm.VecLUTAdd5Tile1},
		2: {digits: 5, groups: 4, build: asm.VecLUTBuild5, add: asm.VecLUTAdd5Tile2},
	}
)

// lutRuns are indices that the layout stores as such, one byte each: for a run of groups all rows, each with its
// indices next to each other.
type lutRuns struct {
	packed []byte // of the first group
	m      int    // rows of the matrix
	groups int    // in all
	run    int
	tile   int // groups of a tile
}

func (r *lutRuns) indices(dst *[lutGroups * lutBlock]uint16, tile, m, rows int) {
	for g := 0; g < r.tile; g += r.run {
		d := dst[g*lutBlock:][:rows*r.run]
		if group := tile*r.tile + g; group < r.groups {
			indexBytes(d, r.packed[group*r.m+m*r.run:][:len(d)])
		} else {
			clear(d)
		}
	}
}

// indexBytes turns bytes into offsets of entries.
func indexBytes(dst []uint16, src []byte) {
	whole := len(src) / 16
	if whole > 0 {
		asm.VecLUTIndex(&dst[0], &src[0], whole)
	}
	for i := 16 * whole; i < len(src); i++ {
		dst[i] = uint16(src[i]) * (2 * columnTokens)
	}
}

// indexPhases gives the phases of layouts i1 to i2-t8, with the groups of runs of the given length.
func indexPhases(group, run int) func(w *Weights) ([]lutPhase, error) {
	return func(w *Weights) (phases []lutPhase, err error) {
		s, err := pack.Padded(w.Layout, w.Shape)
		if err != nil {
			return nil, err
		}
		fives, run := 0, run
		if group == 5 {
			fives = s.K / 20 * 4
			phases = append(phases, lutPhase{lutKind: lutFive[run], tiles: fives / 4,
				index: &lutRuns{w.packed, s.M, fives, run, 4}})
			run = 1 // what is left over is not tiled
		}
		if fours := (s.K - 5*fives) / 4; fours > 0 {
			rest := w.packed[fives*s.M:]
			phases = append(phases, lutPhase{lutKind: lutFour[run], first: 5 * fives, tiles: ceilDiv(fours, 8),
				index: &lutRuns{rest, s.M, fours, run, 8}})
		}
		return phases, nil
	}
}

// lutPanels are the trits of layouts whose panels are groups of four columns.
type lutPanels struct {
	packed []byte
	rows   int // of a panel
	bytes  int // of a group
	quads  int // groups
	decode func(index *uint16, packed *byte, n int)
}

func (p *lutPanels) indices(dst *[lutGroups * lutBlock]uint16, tile, m, rows int) {
	n := min(lutGroups, p.quads-tile*lutGroups)
	for i := 0; i < rows; i += p.rows {
		p.decode(&dst[i], &p.packed[((m+i)/p.rows*p.quads+tile*lutGroups)*p.bytes], n)
	}
	clear(dst[n*lutBlock:])
}

// panelPhases gives the phase of such a layout.
func panelPhases(rows, bytes int, decode func(index *uint16, packed *byte,
	n int)) func(w *Weights) ([]lutPhase, error) {
	return func(w *Weights) ([]lutPhase, error) {
		quads := ceilDiv(w.Shape.K, 4)
		return []lutPhase{{
			lutKind: lutFour[1], tiles: ceilDiv(quads, lutGroups),
			index: &lutPanels{w.packed, rows, bytes, quads, decode},
		}}, nil
	}
}

// i2sIndex are the fields of rows in i2s: a tile, 32 columns, is a field of 32 bytes.
type i2sIndex struct {
	packed []byte
	bytes  int // of a row
}

func (r *i2sIndex) indices(dst *[lutGroups * lutBlock]uint16, tile, m, rows int) {
	asm.VecLUTIndexI2S(&dst[0], &r.packed[m*r.bytes+tile/4*32], r.bytes, rows, 6-2*(tile%4))
}

// i2sARMIndex are the fields of rows in i2s-arm: a tile is two fields of 16 bytes.
type i2sARMIndex struct {
	packed []byte
	bytes  int // of a row
}

func (r *i2sARMIndex) indices(dst *[lutGroups * lutBlock]uint16, tile, m, rows int) {
	packed := &r.packed[m*r.bytes+tile/2*16]
	if tile%2 == 0 {
		asm.VecLUTIndexI2SARM0(&dst[0], packed, r.bytes, rows)
	} else {
		asm.VecLUTIndexI2SARM2(&dst[0], packed, r.bytes, rows)
	}
}
