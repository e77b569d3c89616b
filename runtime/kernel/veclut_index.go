//go:build (amd64 || arm64) && !purego

package kernel

import "github.com/lowpack/lowpack/pack"

// The kinds of tables: four columns; five columns; and five columns of which one digit follows the other four columns
// later, the first the most significant, as in layout vnni4t.
var (
	lutFour = [...]*lutKind{
		1: {digits: 4, groups: 8, group: 4, column: 1, build: lutBuild4, add: lutAdd4Tile1},
		4: {digits: 4, groups: 8, group: 4, column: 1, build: lutBuild4, add: lutAdd4Tile4},
		8: {digits: 4, groups: 8, group: 4, column: 1, build: lutBuild4, add: lutAdd4Tile8},
	}
	lutFive = [...]*lutKind{
		1: {digits: 5, groups: 4, group: 5, column: 1, build: lutBuild5, add: lutAdd5Tile1},
		2: {digits: 5, groups: 4, group: 5, column: 1, build: lutBuild5, add: lutAdd5Tile2},
	}
	lutTritFive = &lutKind{digits: 5, groups: 4, group: 1, column: -4, start: 16, build: lutBuild5, add: lutAdd5Tile4}
)

// lutRuns are indices that the layout stores as such, one byte each: for a run of groups all rows, each with its indices
// next to each other.
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
		lutIndex(&dst[0], &src[0], whole)
	}
	for i := 16 * whole; i < len(src); i++ {
		dst[i] = uint16(src[i]) * (2 * columnTokens)
	}
}

// vecLUTPhases gives the phases of layouts i1 to i2-t8, with the groups of runs of the given length.
func vecLUTPhases(w *Weights, group, run int) ([]lutPhase, error) {
	s, err := pack.Padded(w.Layout, w.Shape)
	if err != nil {
		return nil, err
	}
	fives := 0
	var phases []lutPhase
	if group == 5 {
		fives = s.K / 20 * 4
		phases = append(phases, lutPhase{lutKind: lutFive[run], tiles: fives / 4, index: &lutRuns{w.packed, s.M, fives, run, 4}})
		run = 1 // what is left over is not tiled
	}
	if fours := (s.K - 5*fives) / 4; fours > 0 {
		rest := w.packed[fives*s.M:]
		phases = append(phases, lutPhase{lutKind: lutFour[run], first: 5 * fives, tiles: ceilDiv(fours, 8), index: &lutRuns{rest, s.M, fours, run, 8}})
	}
	return phases, nil
}

// lutPanels are the trits of layouts vnni4i.
type lutPanels struct {
	packed []byte
	rows   int // of a panel
	panel  int // bytes of a panel
	quads  int // groups of four columns
	decode func(index *uint16, packed *byte, n int)
}

func (p *lutPanels) indices(dst *[lutGroups * lutBlock]uint16, tile, m, rows int) {
	n := min(lutGroups, p.quads-tile*lutGroups)
	for i := 0; i < rows; i += p.rows {
		p.decode(&dst[i], &p.packed[(m+i)/p.rows*p.panel+tile*lutGroups*p.rows], n)
	}
	clear(dst[n*lutBlock:])
}

func panelPhases(w *Weights, rows int, decode func(index *uint16, packed *byte, n int)) ([]lutPhase, error) {
	panel, err := pack.PanelSize(w.Layout.(pack.Paneled), w.Shape.K)
	quads := ceilDiv(w.Shape.K, 4)
	return []lutPhase{{
		lutKind: lutFour[1], tiles: ceilDiv(quads, lutGroups),
		index: &lutPanels{w.packed, rows, panel, quads, decode},
	}}, err
}

// lutTritPanels are the bytes of layout vnni4t: a step holds four groups of 64 rows.
type lutTritPanels struct {
	packed []byte
	panel  int
}

func (p *lutTritPanels) indices(dst *[lutGroups * lutBlock]uint16, tile, m, rows int) {
	lutTrits(&dst[0], &p.packed[m/lutBlock*p.panel+tile*4*lutBlock], 4*lutBlock/16)
}

func tritPhases(w *Weights) ([]lutPhase, error) {
	panel, err := pack.PanelSize(w.Layout.(pack.Paneled), w.Shape.K)
	return []lutPhase{{lutKind: lutTritFive, tiles: ceilDiv(w.Shape.K, 20), index: &lutTritPanels{w.packed, panel}}}, err
}
