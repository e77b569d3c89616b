// Package pipeline makes tensors of a packed file from tensors of a checkpoint, in bounded memory, reading every source
// file once from front to back.
//
// # The way of a tensor
//
// It can be followed by reading downwards:
//
//	run.go       Run: which parts of which files are read for what
//	read.go      a reader per file yields chunks in order; each is handed to its consumers
//	hash.go      consumer: SHA-256 of the file, and of tensors that are copied
//	copy.go      consumer: a tensor that is stored as it is
//	code.go      a tensor of which codes are made: which of four consumers, by layout of the source and memory
//	once.go      consumer: rows arrive in order and are decoded as they arrive
//	twice.go     consumer: rows are measured as they arrive, stay in memory, and are then decoded
//	whole.go     consumer: rows lie scattered over the part, which stays in memory until all are decoded
//	again.go     consumer: there is no room, or there are several parts: blocks are read a second time
//	rows.go      where the rows of a block come from: chunks, or the file
//	pack.go      codes of a block become packed bytes; digests and file, in order
//	schedule.go  the workers: a queue per priority
//	budget.go    how much memory there is, and who may keep how much of it
//	slab.go      chunks and slots, which it is divided into
//	sweep.go     a pass over the rows of a matrix before the conversion, when a plan is made
//	recode.go    codes that are at hand already (a packed file in another layout)
//
// # How to add a source of weights
//
// A Tensor names its Source and how to open a Decoder; nothing else here knows formats. Source says where the rows of
// the matrix are: Parts (stored tensors, or ranges of bytes of them) hold the codes, Runs say in which order, Panel how
// a few rows are stored. What is small (scales, zero points, permutations) is listed in Beside, read as a whole before
// the first row and handed to Open. The Decoder is a pure function from the bytes of some rows to their codes, and
// yields the tensors that belong beside the codes (scales, zeros, order) at the end.
//
//	floats, GGUF, compressed-tensors, MLX   row-major: Rows(part, m)
//	packed BitNet (four row ranges in a byte)   four runs over one part
//	GPTQ qweight [K/8, M] int32   Panel{Rows: 1, Bytes: 4, Lines: K / 8, Stride: 4 * M}
//	AWQ qweight [K, M/8] int32    Panel{Rows: 8, Bytes: 4, Lines: K, Stride: M / 2}
//	experts in tensors of their own   a part and a run per expert
//
// A decoder whose codes depend on all rows (a scale per tensor, measured) is a Measurer too, and its Tensor says so:
// memory is divided before the first one is opened.
package pipeline
