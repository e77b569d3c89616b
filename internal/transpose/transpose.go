// Package transpose turns rows of stored elements into columns.
package transpose

// Bytes returns the transpose of a matrix of rows × columns elements, all of the same number of bytes. Data of one row
// or one column are their own transpose, and returned as they are.
func Bytes(data []byte, rows, columns int) []byte {
	if rows <= 1 || columns <= 1 {
		return data
	}
	out, size := make([]byte, len(data)), len(data)/rows/columns
	for i := range rows {
		for j := range columns {
			copy(out[(j*rows+i)*size:][:size], data[(i*columns+j)*size:])
		}
	}
	return out
}
