package main

import (
	"fmt"
	"slices"
	"strings"
)

// listing is what has been written in the instructions of a machine.
type listing struct {
	strings.Builder
	kept    map[uint32]reg // constants in registers
	seen    []uint32       // while collecting constants
	collect bool
}

func (l *listing) line(format string, args ...any) { fmt.Fprintf(l, "\t"+format+"\n", args...) }

// keep keeps the constants of a loop in registers from take, which load fills. What the loop writes to show them is
// dropped.
func (l *listing) keep(take func() reg, body func(), load func(reg, uint32)) {
	before := l.String()
	l.collect, l.seen = true, nil
	body()
	l.collect = false
	l.Reset()
	l.WriteString(before)
	for _, c := range l.seen {
		r := take()
		load(r, c)
		l.kept[c] = r
	}
}

// see notes a constant that is in no register.
func (l *listing) see(c uint32) {
	if l.collect && !slices.Contains(l.seen, c) {
		l.seen = append(l.seen, c)
	}
}
