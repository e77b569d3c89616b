package tensor

// i4Values are what the codes of I4 stand for, multiples of 1/127 of the largest magnitude of their row (N82). The
// eight magnitudes have the least mean squared error, rounded to integers, for 64 normally distributed numbers, which
// the transformed elements of a head nearly are (S. Lloyd, Least squares quantization in PCM, 1982): two thirds of that
// of equal steps.
var i4Values = [16]int8{6, 18, 30, 43, 57, 73, 93, 121, -6, -18, -30, -43, -57, -73, -93, -121}

// i4Codes are the codes of the values nearest to an int8, as a byte; of two, that of the smaller magnitude, and the
// positive one for 0.
var i4Codes = func() (codes [256]byte) {
	for i := range codes {
		x, best := int(int8(i)), 0
		for code, v := range i4Values {
			if distance(x, int(v)) < distance(x, int(i4Values[best])) {
				best = code
			}
		}
		codes[i] = byte(best)
	}
	return codes
}()

func distance(a, b int) int { return max(a-b, b-a) }

// i4Block is the number of columns that 16 bytes hold: column i, of the first half, in the lower bits of byte i, column
// i + 16 in the upper ones.
const i4Block = 32

// packI4 stores x·scale in the first columns of a row.
func packI4(row []byte, x []float32, scale float32) {
	for len(x) > 0 {
		q, n := [i4Block]int8{}, min(len(x), i4Block)
		quantize(q[:whole(n)], x[:whole(n)], scale)
		quantizeGo(q[whole(n):n], x[whole(n):n], scale)
		for i := range i4Block / 2 {
			row[i] = i4Codes[uint8(q[i])] | i4Codes[uint8(q[i+i4Block/2])]<<4
		}
		row, x = row[i4Block/2:], x[n:]
	}
}

// unpackI4Go is the definition of unpackI4: y is the values of whole blocks.
func unpackI4Go(y []int8, x []byte) {
	for i := range y {
		block, at := i/i4Block, i%i4Block
		code := x[block*i4Block/2+at%(i4Block/2)]
		if at >= i4Block/2 {
			code >>= 4
		}
		y[i] = i4Values[code&15]
	}
}

// unpacked copies rows, and the blocks of columns that have some of cols, to y as I8. in is cols in that matrix. ahead
// is the prefetch distance in bytes.
func (m *Matrix) unpacked(rows, cols Range, y []byte, ahead int) (wide Matrix, in Range) {
	first := cols.From &^ (i4Block - 1)
	n, runs := (cols.To+i4Block-1)&^(i4Block-1)-first, rows.Len()
	if n == m.Cols { // contiguous
		runs = 1
	}
	run := rows.Len() / runs * n
	for i := range runs {
		x := m.data[I4.bytes((rows.From+i)*m.Cols+first):][:I4.bytes(run)]
		unpackI4(asInt8(y[i*run:][:run]), x, ahead)
	}
	return Matrix{I8, rows.Len(), n, y[:n*rows.Len()]}, Range{cols.From - first, cols.To - first}
}
