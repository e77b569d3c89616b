// Package tiles emulates the tile instructions of AMX-INT8 on CPUs that lack them: the machine code that runs is the
// one that CPUs with AMX run, instruction by instruction, tests of it included.
//
// Model is the tile registers of a thread. Run runs a program and, whenever it stops at an illegal instruction, has the
// model decode and execute it. The model is as strict as the CPU (Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2), and stricter in one thing: registers that are configured again must have been released.
package tiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// Registers are the general registers of a thread by their numbers.
type Registers [16]uint64

// Memory reads and writes memory of the program; stretches of equal length, each given by its address.
type Memory interface {
	Read(to []byte, at []uint64, length int) error
	Write(from []byte, at []uint64, length int) error
}

const (
	count    = 8
	maxRows  = 16
	maxBytes = 64 // of a row
)

// Model is the tile registers of a thread.
type Model struct {
	configured bool
	rows       [count]int
	bytes      [count]int // of a row
	data       [count][maxRows * maxBytes]byte
}

// InUse reports whether the registers hold anything, which slows every thread switch.
func (m *Model) InUse() bool { return m.configured }

// Op is a tile instruction.
type Op int

// The instructions of the model.
const (
	None Op = iota // no tile instruction
	LoadConfig
	Release
	Zero
	Load
	LoadFar // TILELOADDT1
	Store
	Dot // TDPBSSD
)

func (o Op) String() string {
	return [...]string{"none", "LDTILECFG", "TILERELEASE", "TILEZERO", "TILELOADD", "TILELOADDT1", "TILESTORED",
		"TDPBSSD"}[o]
}

// Instruction is a decoded instruction.
type Instruction struct {
	Op          Op
	Length      int // bytes
	Tile, A, B  int // Dot: Tile += A·B
	Base, Index int // registers of an address; Index holds the bytes between rows
	Scale       uint
	Disp        int64
}

// Decode decodes the instruction at the beginning of code; Op is None if the model does not have it.
func Decode(code []byte) (in Instruction) {
	if len(code) < 5 || code[0] != 0xC4 || code[1]&0x1F != 2 || code[2]&0x84 != 0 { // VEX.128.0F38.W0
		return in
	}
	const none, p66, pF3, pF2 = 0, 1, 2, 3
	high := func(bit int) int { return int(^code[1]>>bit&1) << 3 }
	prefix, op, modrm := int(code[2]&3), code[3], code[4]
	v, mod, reg, rm := int(^code[2]>>3&15), modrm>>6, int(modrm>>3&7), int(modrm&7)
	if high(7) != 0 || op != 0x5E && v != 0 {
		return in // no ninth tile; no third operand
	}
	in = Instruction{Length: 5, Tile: reg, Base: rm | high(5)}
	switch {
	case op == 0x49 && prefix == none && modrm == 0xC0:
		in.Op = Release
	case op == 0x49 && prefix == none && mod == 0 && reg == 0 && rm != 4 && rm != 5:
		in.Op = LoadConfig
	case op == 0x49 && prefix == pF2 && mod == 3 && rm == 0:
		in.Op = Zero
	case op == 0x4B && prefix != none && mod != 3 && rm == 4 && len(code) >= 6:
		in.Op = map[int]Op{pF2: Load, p66: LoadFar, pF3: Store}[prefix]
		sib := code[5]
		in.Base, in.Index, in.Scale = int(sib&7)|high(5), int(sib>>3&7)|high(6), uint(sib>>6)
		in.Length = 6 + []int{0, 1, 4}[mod]
		if in.Index == 4 || in.Base&7 == 5 && mod == 0 || len(code) < in.Length {
			return Instruction{} // no stride; no base
		}
		switch mod {
		case 1:
			in.Disp = int64(int8(code[6]))
		case 2:
			in.Disp = int64(int32(binary.LittleEndian.Uint32(code[6:])))
		}
	case op == 0x5E && prefix == pF2 && mod == 3 && v < count:
		in.Op, in.A, in.B = Dot, rm, v
	default:
		return Instruction{}
	}
	return in
}

// Execute executes an instruction.
func (m *Model) Execute(in Instruction, r *Registers, memory Memory) error {
	if !m.configured && in.Op != LoadConfig && in.Op != Release {
		return errors.New("the tile registers are not configured")
	}
	t := in.Tile
	switch in.Op {
	case LoadConfig:
		if m.configured {
			return errors.New("the tile registers were not released")
		}
		return m.configure(r[in.Base], memory)
	case Release:
		*m = Model{}
	case Zero, Load, LoadFar, Store:
		if m.rows[t] == 0 {
			return fmt.Errorf("tile %d is not configured", t)
		}
		if in.Op != Store {
			m.data[t] = [maxRows * maxBytes]byte{}
		}
		if in.Op != Zero {
			return m.move(in, r, memory)
		}
	case Dot:
		return m.dot(t, in.A, in.B)
	}
	return nil
}

func (m *Model) configure(address uint64, memory Memory) error {
	var c [64]byte
	if err := memory.Read(c[:], []uint64{address}, len(c)); err != nil {
		return err
	}
	if c[0] != 1 || c[1] != 0 {
		return fmt.Errorf("palette %d, first row %d", c[0], c[1])
	}
	for i := 2; i < len(c); i++ {
		if reserved := i < 16 || i >= 16+2*count && i < 48 || i >= 48+count; reserved && c[i] != 0 {
			return fmt.Errorf("byte %d of the configuration is reserved", i)
		}
	}
	for t := range count {
		rows, bytes := int(c[48+t]), int(binary.LittleEndian.Uint16(c[16+2*t:]))
		if rows > maxRows || bytes > maxBytes || (rows == 0) != (bytes == 0) {
			return fmt.Errorf("tile %d: %d rows of %d bytes", t, rows, bytes)
		}
		m.rows[t], m.bytes[t] = rows, bytes
	}
	m.configured = true
	return nil
}

// move moves a tile's rows.
func (m *Model) move(in Instruction, r *Registers, memory Memory) error {
	t := in.Tile
	rows, n := m.rows[t], m.bytes[t]
	at := make([]uint64, rows)
	for i := range at {
		at[i] = r[in.Base] + uint64(in.Disp) + uint64(i)*(r[in.Index]<<in.Scale)
	}
	packed := make([]byte, rows*n)
	if in.Op == Store {
		for i := range rows {
			copy(packed[i*n:], m.data[t][i*maxBytes:][:n])
		}
		return memory.Write(packed, at, n)
	}
	if err := memory.Read(packed, at, n); err != nil {
		return err
	}
	for i := range rows {
		copy(m.data[t][i*maxBytes:], packed[i*n:][:n])
	}
	return nil
}

// dot adds products of signed bytes modulo 2³².
func (m *Model) dot(c, a, b int) error {
	if a == b || a == c || b == c {
		return fmt.Errorf("tiles %d, %d and %d are not three", c, a, b)
	}
	if m.rows[c] == 0 || m.rows[a] != m.rows[c] || m.bytes[b] != m.bytes[c] || m.bytes[a] != 4*m.rows[b] ||
		m.bytes[c]%4 != 0 {
		return fmt.Errorf("sums of %d rows of %d bytes, of %d of %d times %d of %d", m.rows[c], m.bytes[c], m.rows[a],
			m.bytes[a], m.rows[b], m.bytes[b])
	}
	sums := (*[maxRows][maxBytes / 4]int32)(unsafe.Pointer(&m.data[c]))
	x := (*[maxRows][maxBytes / 4][4]int8)(unsafe.Pointer(&m.data[a]))
	w := (*[maxRows][maxBytes / 4][4]int8)(unsafe.Pointer(&m.data[b]))
	for i := range m.rows[c] {
		for k := range m.rows[b] {
			x0, x1, x2, x3 := int32(x[i][k][0]), int32(x[i][k][1]), int32(x[i][k][2]), int32(x[i][k][3])
			for j := range m.bytes[c] / 4 {
				v := &w[k][j]
				sums[i][j] += x0*int32(v[0]) + x1*int32(v[1]) + x2*int32(v[2]) + x3*int32(v[3])
			}
		}
	}
	return nil
}
