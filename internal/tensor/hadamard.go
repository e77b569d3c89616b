package tensor

// Hadamard replaces the blocks of x by their Walsh-Hadamard transforms (N82): what is large in few elements is spread
// among all, so that a scale for the row serves each. A block is the largest power of two that divides the length of x.
func Hadamard(x []float32) {
	n := hadamardBlock(len(x))
	for ; len(x) > 0; x = x[n:] {
		hadamard(x[:n])
	}
}

// InverseHadamard is the inverse of Hadamard, which is also its transpose.
func InverseHadamard(x []float32) {
	Hadamard(x)
	Times(x, 1/float32(hadamardBlock(len(x))))
}

func hadamardBlock(n int) int { return n & -n }

// hadamard transforms one block. The first sums are of adjacent elements.
func hadamard(x []float32) {
	low := min(len(x), Lanes)
	for i := 0; i < len(x); i += low {
		hadamardGo(x[i:][:low])
	}
	for s := low; s < len(x); s *= 2 {
		for i := 0; i < len(x); i += 2 * s {
			butterfly(x[i:][:s], x[i+s:][:s])
		}
	}
}

// hadamardGo is the definition.
func hadamardGo(x []float32) {
	for s := 1; s < len(x); s *= 2 {
		for i := 0; i < len(x); i += 2 * s {
			butterflyGo(x[i:][:s], x[i+s:][:s])
		}
	}
}
