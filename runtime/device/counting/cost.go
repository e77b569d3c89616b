package counting

import (
	"encoding/binary"
	"math"

	"github.com/lowpack/lowpack/runtime/device"
)

// Cost is what steps ask of a device: bytes, each once in a step however often a kernel reads it, and multiply-adds.
// The few words that say where tokens stand, flags and rotations are not counted, nor is the arithmetic of norms,
// activations and exponentials.
type Cost struct {
	Weights      int `json:"weight_bytes"`         // of matrices, scales, biases, norms and sinks
	CacheRead    int `json:"cache_bytes_read"`     // of the KV cache
	CacheWritten int `json:"cache_bytes_written"`  //
	Vectors      int `json:"vector_bytes"`         // that steps read of what others wrote, and write
	Int8         int `json:"int8_multiply_adds"`   // of products with codes
	Matrices     int `json:"matrix_multiply_adds"` // of Int8: in steps for cooperative matrices, if a device has them
	Attention    int `json:"attention_multiply_adds"`
	Floats       int `json:"float_multiply_adds"` // of products with matrices of floats
}

// Add adds the cost of other steps.
func (c *Cost) Add(o Cost) {
	c.Weights += o.Weights
	c.CacheRead += o.CacheRead
	c.CacheWritten += o.CacheWritten
	c.Vectors += o.Vectors
	c.Int8 += o.Int8
	c.Matrices += o.Matrices
	c.Attention += o.Attention
	c.Floats += o.Floats
}

// Bytes are all that is read and written.
func (c *Cost) Bytes() int { return c.Weights + c.CacheRead + c.CacheWritten + c.Vectors }

// word is the size of the elements of buffers, and of the words of quantized vectors.
const word = 4

// costs has the cost of a step of each kernel, of whatever format of the KV cache.
var costs = map[device.Kernel]func(*device.Step) Cost{
	device.KernelPrepare:     prepare,
	device.KernelCodes:       codes,
	device.KernelFloats:      floats,
	device.KernelHeads:       heads,
	device.KernelScores:      scores,
	device.KernelAttend:      attend,
	device.KernelResidual:    residual,
	device.KernelFinish:      finish,
	device.KernelReorder:     reorder,
	device.KernelSums:        sums,
	device.KernelOffsetCodes: offsetCodes,
	device.KernelTop:         top,
}

// costOf returns the cost of a step of a kernel; nil if it is not known.
func costOf(k device.Kernel) func(*device.Step) Cost {
	base, _ := k.Of()
	return costs[base]
}

// rows are the sizes of what attention stores of a token, in elements of a word.
type rows struct{ query, key uint32 }

func rowsOf(k device.Kernel, dim uint32) rows {
	_, c := k.Of()
	return rows{uint32(c.QueryWords(int(dim))), uint32(c.RowWords(int(dim)))}
}

// norm is the number of elements of a norm and its bias.
func norm(kind device.Norm, elements, bias uint32) int {
	if kind == device.NormNone {
		return 0
	}
	return int(elements) * int(1+bias)
}

func prepare(s *device.Step) Cost {
	c := device.OperationOf[device.Prepare](s.Constants)
	read, written := c.In, c.In
	if c.Gate != device.GateNone && c.Gate < device.GateSingle {
		read = 2 * c.In
	}
	if c.Quantize != 0 {
		written += c.QWords + ceil(c.In, c.Group)
	}
	return Cost{Weights: word * norm(c.Norm, c.In, c.Bias), Vectors: word * int(c.N) * int(read+written)}
}

// ceil is the number of groups of elements.
func ceil(n, group uint32) uint32 { return (n + group - 1) / group }

// output is the number of elements of the result of a product that are read and written.
func output(n, rows, accumulate uint32) int { return int(n) * int(rows) * int(1+accumulate) }

func codes(s *device.Step) Cost {
	c := device.OperationOf[device.Codes](s.Constants)
	const weights, scales = 0, 1
	cost := Cost{
		Weights: s.Buffers[weights].Bytes + s.Buffers[scales].Bytes + word*int(c.Rows*c.Bias),
		Vectors: word * (int(c.N)*int(c.QWords+ceil(c.K, c.ActGroup)) + output(c.N, c.Rows, c.Accumulate)),
		Int8:    int(c.N) * int(c.Rows) * int(c.K),
	}
	if c.ByMatrices() {
		cost.Matrices = cost.Int8
	}
	return cost
}

func offsetCodes(s *device.Step) Cost {
	op := device.OperationOf[device.OffsetCodes](s.Constants)
	product := *s
	product.Constants = device.Words(op.Codes)
	c := codes(&product)
	const zeros = 6
	c.Weights += int(op.Zeros) * s.Buffers[zeros].Bytes
	c.Vectors += word * int(op.N) * int(ceil(op.K, min(op.Group, op.ActGroup))+op.Terms*op.Rows)
	return c
}

func reorder(s *device.Step) Cost {
	c := device.OperationOf[device.Reorder](s.Constants)
	return Cost{Weights: word * int(c.K), Vectors: word * int(c.N) * 2 * int(c.QWords)}
}

func sums(s *device.Step) Cost {
	c := device.OperationOf[device.Sums](s.Constants)
	blocks := ceil(c.K, min(c.Group, c.ActGroup))
	return Cost{Vectors: word * int(c.N) * int(c.QWords+ceil(c.K, c.ActGroup)+blocks+c.Width)}
}

func floats(s *device.Step) Cost {
	c := device.OperationOf[device.Floats](s.Constants)
	const weights = 0
	return Cost{
		Weights: s.Buffers[weights].Bytes + word*int(c.Rows*c.Bias),
		Vectors: word * (int(c.N)*int(c.K) + output(c.N, c.Rows, c.Accumulate)),
		Floats:  int(c.N) * int(c.Rows) * int(c.K),
	}
}

func heads(s *device.Step) Cost {
	c := device.OperationOf[device.Heads](s.Constants)
	elements, row := (c.Heads+2*c.KVHeads)*c.Dim, rowsOf(s.Kernel, c.Dim)
	ofQ, ofK := c.Dim, c.Dim
	if c.Own != 0 {
		ofQ, ofK = c.Heads*c.Dim, c.KVHeads*c.Dim
	}
	return Cost{
		Weights:      word * (norm(c.QNorm, ofQ, 0) + norm(c.KNorm, ofK, 0)),
		Vectors:      word * int(c.N) * int(elements+c.Heads*row.query),
		CacheWritten: word * int(c.N) * int(2*c.KVHeads*row.key),
	}
}

func scores(s *device.Step) Cost {
	c := device.OperationOf[device.Scores](s.Constants)
	const tokens = 2
	all, different := positions(s.Buffers[tokens], c.N, c.Local != 0)
	return Cost{
		CacheRead: word * different * int(c.KVHeads*rowsOf(s.Kernel, c.Dim).key),
		Vectors:   word * int(c.Heads) * (int(c.N*rowsOf(s.Kernel, c.Dim).query) + all),
		Attention: all * int(c.Heads*c.Dim),
	}
}

func attend(s *device.Step) Cost {
	c := device.OperationOf[device.Attend](s.Constants)
	const tokens = 2
	all, different := positions(s.Buffers[tokens], c.N, c.Local != 0)
	return Cost{
		Weights:   word * int(c.Heads*c.Sinks),
		CacheRead: word * different * int(c.KVHeads*rowsOf(s.Kernel, c.Dim).key),
		Vectors:   word * int(c.Heads) * (int(c.N*c.Dim) + all),
		Attention: all * int(c.Heads*c.Dim),
	}
}

// positions is the number of positions that n tokens attend to: of all of them together, and each position of a
// sequence once. The tokens of a sequence are adjacent, and each attends to one position that the ones before it did
// not.
func positions(tokens device.Range, n uint32, local bool) (all, different int) {
	last := uint32(math.MaxUint32)
	for t := range int(n) {
		token := tokenOf(tokens, t)
		span := int(token.Position) + 1
		if local {
			span -= int(token.From)
		}
		all += span
		if token.Pages == last {
			span = 1
		}
		different += span
		last = token.Pages
	}
	return all, different
}

// tokenOf is element t of the buffer of tokens.
func tokenOf(tokens device.Range, t int) device.Token {
	const size = 4 * word
	b := bytesOf(tokens)[t*size:]
	at := func(i int) uint32 { return binary.NativeEndian.Uint32(b[i*word:]) }
	return device.Token{Position: at(0), Pages: at(1), From: at(2), Scale: math.Float32frombits(at(3))}
}

func residual(s *device.Step) Cost {
	c := device.OperationOf[device.Residual](s.Constants)
	vectors := c.Len * (1 + 2*c.Accumulate)
	if c.Norm != device.NormNone {
		vectors += c.Len // in place
	}
	return Cost{Weights: word * norm(c.Norm, c.Len, c.Bias), Vectors: word * int(c.N) * int(vectors)}
}

func finish(s *device.Step) Cost {
	c := device.OperationOf[device.Finish](s.Constants)
	times := 1
	if c.Divisor != 0 || c.Scale != 0 || c.Cap != 0 {
		times = 2 // in place
	}
	return Cost{Vectors: word * int(c.N) * int(c.Vocab) * times}
}

func top(s *device.Step) Cost {
	c := device.OperationOf[device.Top](s.Constants)
	pairs := ceil(c.Len, device.TopPart) * c.Most
	return Cost{Vectors: word * int(c.N) * int(c.Len*(1+c.Pairs)+2*pairs)}
}
