package tensor

// level is the instruction set in use. Tests change it; nothing else does.
var level = levels()[0]

type isa int

const (
	levelGeneric isa = iota
	levelAVX2
	levelAVX512
	levelNEON
)
