package main

import (
	"fmt"
	"slices"
	"strings"
)

// rowOps are the functions on rows of matrices and KV caches, by number format of the rows and number of vectors.
var rowOps = []*rowOp{
	newDot("F32", 2).on("AVX2"), newDot("F32", 4).on("AVX512", "NEON"),
	newDot("F16", 2).on("AVX2"), newDot("F16", 4).on("AVX512", "NEON"),
	newDot("BF16", 1), newDot("BF16", 2).on("AVX2"), newDot("BF16", 4).on("AVX512", "NEON"),
	newStream("F32", 1), newStream("F32", 2), newStream("F32", 3), newStream("F32", 4),
	newStream("F16", 1), newStream("F16", 2), newStream("F16", 3), newStream("F16", 4),
	newStream("I8", 1), newStream("I8", 2), newStream("I8", 3), newStream("I8", 4),
	newAxpy("F32", 1), newAxpy("F32", 2), newAxpy("F32", 3), newAxpy("F32", 4),
	newAxpy("F16", 1), newAxpy("F16", 2), newAxpy("F16", 3), newAxpy("F16", 4),
	newAxpy("I8", 1), newAxpy("I8", 2), newAxpy("I8", 3), newAxpy("I8", 4),
}

// rowOp is an op on rows of a matrix and n vectors. Its parameters are the fields of tensor.rowArgs, and package tensor
// finds it in a table.
type rowOp struct {
	*op
	kind      string // "dot", "stream" or "axpy"
	typ       string // of the rows
	n         int
	signature string
	isas      []string // that use it; nil = all
}

const (
	floatSignature = "y []float32, ldy int, w []byte, ldw int, x []float32, ldx, cols, rows, ahead int"
	int8Signature  = "y []int32, ldy int, w []byte, ldw int, x []int8, ldx, cols, rows, ahead int"
)

func newRowOp(kind, typ string, n int, body func(f *function)) *rowOp {
	signature := floatSignature
	if kind == "stream" && typ == "I8" {
		signature = int8Signature
	}
	o := newOp(fmt.Sprintf("%s%sx%d", kind, typ, n), signature, "", body)
	return &rowOp{op: o, kind: kind, typ: typ, n: n, signature: signature}
}

func (o *rowOp) has(isa string) bool { return o.isas == nil || slices.Contains(o.isas, isa) }

// on restricts an op to some instruction sets.
func (o *rowOp) on(isas ...string) *rowOp {
	o.isas = isas
	return o
}

// table is one variable of package tensor: functions by level, number format and number of vectors.
type table struct{ name, typ, kind, signature string }

var rowTables = []table{
	{"dotKernels", "floatTable", "dot", floatSignature},
	{"streamKernels", "floatTable", "stream", floatSignature},
	{"int8Kernels", "int8Table", "stream", int8Signature},
	{"axpyKernels", "floatTable", "axpy", floatSignature},
}

func (t *table) has(o *rowOp) bool { return o.kind == t.kind && o.signature == t.signature }

// tables writes the tables of the given instruction sets, and declares their functions.
func tables(b *strings.Builder, isas []string) {
	fmt.Fprintf(b, "\ntype (\n\tfloatKernel func(%s)\n\tint8Kernel func(%s)\n)\n", floatSignature, int8Signature)
	for _, t := range rowTables {
		ops := slices.DeleteFunc(slices.Clone(rowOps), func(o *rowOp) bool { return !t.has(o) })
		if len(isas) == 0 {
			fmt.Fprintf(b, "\nvar %s %s\n", t.name, t.typ)
			continue
		}
		fmt.Fprintf(b, "\nvar %s = %s{\n", t.name, t.typ)
		for _, isa := range isas {
			fmt.Fprintf(b, "\tlevel%s: {\n%s\t},\n", isa, entries(ops, isa))
		}
		b.WriteString("}\n")
		for _, isa := range isas {
			for _, o := range ops {
				if o.has(isa) {
					fmt.Fprintf(b, "\n//go:noescape\nfunc %s%s(%s)\n", o.name, isa, t.signature)
				}
			}
		}
	}
}

// entries returns the lines of a table for one instruction set.
func entries(ops []*rowOp, isa string) string {
	var b strings.Builder
	for _, typ := range []string{"F32", "F16", "BF16", "I8"} {
		var list []string
		for _, o := range ops {
			if o.typ == typ && o.has(isa) {
				list = append(list, fmt.Sprintf("%d: %s%s", o.n, o.name, isa))
			}
		}
		if len(list) > 0 {
			fmt.Fprintf(&b, "\t\t%s: {%s},\n", typ, strings.Join(list, ", "))
		}
	}
	return b.String()
}
