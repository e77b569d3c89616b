package tiles

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// Registers of the tests: addresses in SI and BX, strides in DX and R8.
const (
	dx, bx, si, r8 = 2, 3, 6, 8
)

// Instructions, as GNU's assembler writes them.
var (
	loadConfig = []byte{0xC4, 0xE2, 0x78, 0x49, 0x06}       // ldtilecfg (%rsi)
	release    = []byte{0xC4, 0xE2, 0x78, 0x49, 0xC0}       // tilerelease
	zero1      = []byte{0xC4, 0xE2, 0x7B, 0x49, 0xC8}       // tilezero %tmm1
	load4      = []byte{0xC4, 0xE2, 0x7B, 0x4B, 0x24, 0x16} // tileloadd (%rsi,%rdx,1),%tmm4
	// tileloaddt1 0x40(%rbx,%r8,1),%tmm7
	loadFar7 = []byte{0xC4, 0xA2, 0x79, 0x4B, 0x7C, 0x03, 0x40}
	// tilestored %tmm0,0x1000(%rsi,%rdx,1)
	store0 = []byte{0xC4, 0xE2, 0x7A, 0x4B, 0x84, 0x16, 0x00, 0x10, 0x00, 0x00}
	dot    = []byte{0xC4, 0xE2, 0x43, 0x5E, 0xC4} // tdpbssd %tmm7,%tmm4,%tmm0
)

// slice is memory from address 0 on.
type slice []byte

func (s slice) each(at []uint64, length int, do func(i int, b []byte)) error {
	for i, a := range at {
		if a > uint64(len(s)) || uint64(length) > uint64(len(s))-a {
			return errors.New("outside of memory")
		}
		do(i*length, s[a:][:length])
	}
	return nil
}

func (s slice) Read(to []byte, at []uint64, length int) error {
	return s.each(at, length, func(i int, b []byte) { copy(to[i:], b) })
}

func (s slice) Write(from []byte, at []uint64, length int) error {
	return s.each(at, length, func(i int, b []byte) { copy(b, from[i:i+length]) })
}

// config has tiles 0 and 4 of so many rows, tile 7 of so many times four columns, and tile 1 as tile 0.
func config(rows, quads, lanes int) []byte {
	c := make([]byte, 64)
	c[0] = 1
	set := func(tile, rows, bytes int) {
		c[48+tile] = byte(rows)
		binary.LittleEndian.PutUint16(c[16+2*tile:], uint16(bytes))
	}
	set(0, rows, 4*lanes)
	set(1, rows, 4*lanes)
	set(4, rows, 4*quads)
	set(7, quads, 4*lanes)
	return c
}

func run(t *testing.T, m *Model, r *Registers, memory Memory, codes ...[]byte) error {
	t.Helper()
	for _, code := range codes {
		in := Decode(append(code, 0x90))
		if in.Op == None || in.Length != len(code) {
			t.Fatalf("% x is %v of %d bytes", code, in.Op, in.Length)
		}
		if err := m.Execute(in, r, memory); err != nil {
			return err
		}
	}
	return nil
}

// TestDot compares with plain loops, for tiles of every size.
func TestDot(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		rows, quads, lanes := 1+r.IntN(16), 1+r.IntN(16), 1+r.IntN(16)
		memory := make(slice, 8192)
		for i := range memory {
			memory[i] = byte(r.Uint32() >> r.IntN(9))
		}
		copy(memory, config(rows, quads, lanes))
		m, regs := new(Model), &Registers{}
		regs[si] = 0
		if err := run(t, m, regs, memory, loadConfig); err != nil {
			t.Fatal(err)
		}
		regs[si], regs[dx], regs[bx], regs[r8] = 100, 70, 2000, 90
		if err := run(t, m, regs, memory, load4, loadFar7, dot, dot, zero1, store0); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			for j := range lanes {
				var want int32
				for k := range 4 * quads {
					x, w := int8(memory[100+70*i+k]), int8(memory[2064+90*(k/4)+4*j+k%4])
					want += 2 * int32(x) * int32(w)
				}
				if got := int32(binary.LittleEndian.Uint32(memory[100+4096+70*i+4*j:])); got != want {
					t.Fatalf("%d rows, %d quads, %d lanes: sum %d, %d is %d, want %d", rows, quads, lanes, i,
						j, got, want)
				}
			}
		}
		if err := run(t, m, regs, memory, release); err != nil || m.InUse() {
			t.Fatal("not released: ", err)
		}
	}
}

// TestRefuses: what a CPU refuses, and registers that were not released.
func TestRefuses(t *testing.T) {
	changed := func(at int, v byte) []byte {
		c := config(16, 16, 16)
		c[at] = v
		return c
	}
	for name, c := range map[string]struct {
		config []byte
		codes  [][]byte
		want   string
	}{
		"palette":      {changed(0, 2), [][]byte{loadConfig}, "palette"},
		"first row":    {changed(1, 1), [][]byte{loadConfig}, "first row"},
		"reserved":     {changed(32, 1), [][]byte{loadConfig}, "reserved"},
		"rows":         {changed(48, 17), [][]byte{loadConfig}, "17 rows"},
		"bytes":        {changed(16, 65), [][]byte{loadConfig}, "65 bytes"},
		"no rows":      {changed(48, 0), [][]byte{loadConfig}, "0 rows"},
		"shapes":       {changed(48, 15), [][]byte{loadConfig, dot}, "15 rows"},
		"unconfigured": {config(16, 16, 16), [][]byte{dot}, "not configured"},
		"after all":    {config(16, 16, 16), [][]byte{loadConfig, release, zero1}, "not configured"},
		"twice":        {config(16, 16, 16), [][]byte{loadConfig, loadConfig}, "not released"},
		"no such tile": {config(16, 16, 16), [][]byte{loadConfig, {0xC4, 0xE2, 0x7B, 0x49, 0xD0}}, "tile 2"},
		"one of three": {config(16, 16, 16), [][]byte{loadConfig, {0xC4, 0xE2, 0x5B, 0x5E, 0xC4}}, "not three"},
		"memory":       {config(16, 16, 16), [][]byte{loadConfig, store0}, "outside"},
	} {
		err := run(t, new(Model), &Registers{}, slice(c.config), c.codes...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDecodeRefuses: bytes that differ from an instruction of the model in one thing that matters.
func TestDecodeRefuses(t *testing.T) {
	for name, code := range map[string][]byte{
		"short":         load4[:5],
		"EVEX":          append([]byte{0x62}, dot[1:]...),
		"map":           {0xC4, 0xE1, 0x43, 0x5E, 0xC4},
		"W1":            {0xC4, 0xE2, 0xC3, 0x5E, 0xC4},
		"256 bits":      {0xC4, 0xE2, 0x47, 0x5E, 0xC4},
		"ninth tile":    {0xC4, 0x62, 0x43, 0x5E, 0xC4},
		"TDPBUSD":       {0xC4, 0xE2, 0x41, 0x5E, 0xC4},
		"no stride":     {0xC4, 0xE2, 0x7B, 0x4B, 0x24, 0x26},
		"no SIB":        {0xC4, 0xE2, 0x7B, 0x4B, 0x26, 0x16},
		"third operand": {0xC4, 0xE2, 0x73, 0x4B, 0x24, 0x16},
		"VPADDB":        {0xC5, 0xF1, 0xFC, 0xC2, 0x90},
		"UD2":           {0x0F, 0x0B, 0x90, 0x90, 0x90, 0x90},
	} {
		if in := Decode(code); in.Op != None {
			t.Errorf("%s: %v", name, in.Op)
		}
	}
}
